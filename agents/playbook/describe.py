"""Describes points."""

from cuda_llm.agents.tunables.tunable import Point


def describe_point(point: Point) -> str:
    """Returns the values in one line."""
    return ", ".join(f"{name} {value}" for name, value in point.items())
