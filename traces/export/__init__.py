"""The best kernel of a run as something to import."""
