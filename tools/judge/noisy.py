"""The verdict where a machine is too noisy to tell."""

from cuda_llm.outcomes import InfraFailed


def noisy(said: str) -> InfraFailed:
    """The kernel is neither accused nor believed; whoever asks again may be told."""
    return InfraFailed(component="device", detail=f"{said}; judge it again when that has ended")
