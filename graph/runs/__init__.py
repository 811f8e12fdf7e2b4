"""A run from its request to its result: start, resume, fork and read it."""
