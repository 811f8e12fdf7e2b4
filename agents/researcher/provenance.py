"""Says where the figures of a profile come from, and which were not measured here."""

from cuda_llm.agents.researcher.finding import Finding
from cuda_llm.agents.situation import Situation

DECIDING = {
    "peaks.dram_gb_s": "DRAM bandwidth",
    "boost_clock_mhz": "clock",
    "model.dram_efficiency": "attainable part of the bandwidth",
    "model.launch_us": "cost of a launch",
    "l2_bytes": "size of L2",
}
"""Figures that the other findings rest on, by their key in a profile."""
_UNMEASURED = ("published", "estimated", "measured on another of its kind", "of unknown origin")
_GUESSED = ("estimated", "of unknown origin")
"""Named in prompts; the other kinds go to the trace alone."""


def find_unknowns(situation: Situation) -> Finding:
    """Groups the deciding figures by origin: measured, published, estimated or unknown."""
    kinds = {name: _kind(_source(situation, key)) for key, name in DECIDING.items()}
    groups = [(kind, [name for name in kinds if kinds[name] == kind]) for kind in _UNMEASURED]
    unmeasured = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in groups if names)
    guesses = [name for name in kinds if kinds[name] in _GUESSED]
    return Finding(
        name="provenance",
        lines=(f"Estimates, not measured here: {', '.join(guesses)}.",) if guesses else (),
        data=kinds,
        decision=f"no probe on this device; {unmeasured}" if unmeasured else "",
    )


def _source(situation: Situation, key: str) -> str:
    """Returns the source of a key, which may share its entry with others."""
    for keys, source in situation.hardware.sources.items():
        names = [one.strip() for one in keys.split(",")]
        if key in names or any(key.startswith(f"{name}.") for name in names):
            return source
    return ""


def _kind(source: str) -> str:
    text = source.lower()
    if not text:
        return "of unknown origin"
    if "probe" in text or "measured on this" in text:
        return "measured"
    if "estimate" in text:
        return "estimated"
    return "measured on another of its kind" if "measured" in text else "published"
