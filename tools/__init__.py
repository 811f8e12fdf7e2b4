"""What touches the machine: compiler, devices, validator, profiler."""
