"""The long-lived process that holds one GPU, and how work gets to it."""
