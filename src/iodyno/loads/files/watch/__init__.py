"""What is shown of a file program while it runs."""
