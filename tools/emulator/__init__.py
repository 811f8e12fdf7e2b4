"""PTX executed on the CPU: 32 lanes as arrays under a mask."""
