"""Keeps what an agent may not know of the GPU out of text that others wrote."""

import re

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.search import HardwareContext

_TARGETS = re.compile(
    r"\b(?:sm|compute|lto)_\d+[af]?\b|\bcompute capability \d+(?:\.\d+)?|\b__CUDA_ARCH__\s*\W+\d+",
    re.IGNORECASE,
)
_NUMBER = r"(?:0x[0-9a-f]+|[\d][\d,.]*)"
_LIMITS = re.compile(
    rf",?\s*(?:at most|maximum(?: of| is)?|max\.?|up to|limit(?: of| is)?|the floor of|allowed are|"
    rf"must be 1 to)\s*:?\s*{_NUMBER}(?: (?:us|bytes|threads|registers))?"
    rf"|,?\s*{_NUMBER}(?: bytes)? max(?:imum)?\b"
    rf"|{_NUMBER} of {_NUMBER} (?:SMs|warps)\b",
    re.IGNORECASE,
)
_VENDOR_WORDS = {"nvidia", "geforce", "tesla", "quadro", "emulated", "gpu", "super", "laptop"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def hide(text: str, hardware: Hardware, context: HardwareContext) -> str:
    """`text` without what `context` keeps back: figures and targets, with `none` names as well."""
    if context == "full":
        return text
    text = _LIMITS.sub("", _TARGETS.sub("the target", text))
    return _names(hardware).sub("the GPU", text) if context == "none" else text


def hide_in_comments(source: str, hardware: Hardware, context: HardwareContext) -> str:
    """The same for the comments of a source; its code must stay as it is."""
    if context == "full":
        return source
    return _COMMENT.sub(lambda match: hide(match[0], hardware, context), source)


def _names(hardware: Hardware) -> re.Pattern[str]:
    """The names of the GPU, of its models and of its architecture, longest first."""
    names = {hardware.name, *hardware.aliases, hardware.slug, hardware.architecture}
    for name in (hardware.name, *hardware.aliases):
        words = [word for word in name.split() if word.lower() not in _VENDOR_WORDS]
        names.add(" ".join(words))
        names |= {word for word in words if re.search(r"\d", word)}
    ordered = sorted((name for name in names if name), key=len, reverse=True)
    alternatives = "|".join(re.escape(name).replace(r"\ ", r"[\s_-]*") for name in ordered)
    return re.compile(
        rf"\b(?:(?:NVIDIA|GeForce|Tesla|Quadro)\s+)*(?:{alternatives})\b", re.IGNORECASE
    )
