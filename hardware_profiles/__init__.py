"""What we know of GPUs: one file a GPU, looked up by exact name."""
