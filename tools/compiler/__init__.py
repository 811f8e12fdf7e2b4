"""nvcc in a jail: one source in, one compiled candidate or verdict out."""
