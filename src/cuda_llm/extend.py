"""What a part of one's own is written with: import from here and from `cuda_llm` alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_llm.capabilities import Capabilities
    from cuda_llm.errors import CudaLLMError, InfrastructureError
    from cuda_llm.tools.device import Device, Session, Site, TimedSession
    from cuda_llm.tools.devices.find import open_device

__all__ = [
    "Capabilities",
    "CudaLLMError",
    "Device",
    "InfrastructureError",
    "Session",
    "Site",
    "TimedSession",
    "open_device",
]

_HOMES = {
    "Capabilities": "cuda_llm.capabilities",
    "CudaLLMError": "cuda_llm.errors",
    "Device": "cuda_llm.tools.device",
    "InfrastructureError": "cuda_llm.errors",
    "Session": "cuda_llm.tools.device",
    "Site": "cuda_llm.tools.device",
    "TimedSession": "cuda_llm.tools.device",
    "open_device": "cuda_llm.tools.devices.find",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
