"""What a prompt tells: gathered, put into words, fitted to its budget, rendered."""
