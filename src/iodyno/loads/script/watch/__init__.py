"""What is shown of a script while it runs."""
