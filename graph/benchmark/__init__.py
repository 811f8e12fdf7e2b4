"""A set of tasks with given settings: a run each, and one table."""
