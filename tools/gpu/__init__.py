"""Sessions on a real GPU: our CUDA runtime over the driver, the runner, shared memory."""
