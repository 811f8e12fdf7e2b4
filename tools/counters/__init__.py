"""What NVIDIA's own tools say of a kernel: Nsight Compute, compute-sanitizer, cuobjdump."""
