"""Compile-time parameters that a kernel declares: read them, choose values, write the kernel."""
