"""Files that are copied into every exported package as they are.

They import neither this project nor each other; what is generated beside them joins them.
"""
