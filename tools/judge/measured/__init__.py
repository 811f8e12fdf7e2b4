"""Times on a real GPU: staged contents, batches, and the comparison with what runs beside."""
