"""Compile, validate, time: the whole way from a source file to a verdict."""
