"""The verdict where a machine is too noisy to tell."""

from cuda_llm.outcomes import InfraFailed

NOISE = "noise"
"""Component of an InfraFailed that says: other work on the machine hides what is measured."""


def noisy(said: str) -> InfraFailed:
    """The kernel is neither accused nor believed; whoever asks again may be told."""
    return InfraFailed(component=NOISE, detail=f"{said}; judge it again when that has ended")
