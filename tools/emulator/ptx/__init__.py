"""PTX text to a typed module: both dialects nvcc writes."""
