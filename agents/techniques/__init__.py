"""What a candidate may be told to try, and what of it fits a task."""
