"""What to optimise: one folder a task, and the loader."""
