"""Landlock, seccomp, limits and namespaces, as one small native helper."""
