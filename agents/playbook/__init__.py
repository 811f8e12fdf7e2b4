"""The offline generator: tunable kernels and the search among their points."""
