"""The gate of a repository's own kernels: which were recorded, and which got wrong or slower."""
