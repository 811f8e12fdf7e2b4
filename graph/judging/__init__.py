"""From a source to its verdict: the bench that the graph judges candidates on, and its edges."""
