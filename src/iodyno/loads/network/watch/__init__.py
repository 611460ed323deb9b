"""What is shown of streams and requests while it runs."""
