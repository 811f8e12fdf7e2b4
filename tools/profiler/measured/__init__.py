"""From what ran on a GPU to the shape of profile that the time model gives."""
