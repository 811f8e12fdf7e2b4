"""From clock readings to times with intervals, and from two of them to faster, slower or a tie."""
