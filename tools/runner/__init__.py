"""The small native process that loads and calls a candidate."""
