"""Which GPUs this machine has, and how they agree with what we know of them."""
