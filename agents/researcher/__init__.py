"""The hardware-spec researcher: what of the GPU matters for this task."""
