"""What one GPU really does: bandwidth, arithmetic, launches and clocks, measured here and now."""
