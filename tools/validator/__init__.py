"""The referee: fresh inputs, poison, guards, and every element compared."""
