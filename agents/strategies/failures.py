"""Chooses the failures to learn from, and sorts them."""

import re
from collections.abc import Sequence

from cuda_llm.search import Attempt

_NEARNESS = (
    *("NONDETERMINISTIC", "WRONG_RESULT", "LATE_WRITE", "GUARD_OVERWRITTEN", "INPUT_MUTATED"),
    *("DATA_RACE", "UNINITIALISED_READ", "INVALID_SYNC", "TIMED_OUT"),
    *("ILLEGAL_ACCESS", "MISALIGNED", "DEVICE_ASSERT", "LAUNCH_FAILED", "OUT_OF_MEMORY"),
    *("HOST_CRASHED", "LOAD_FAILED", "COMPILE_FAILED"),
)
"""Codes sorted by how near the kernel came to being right; other codes come last."""


def distinct_failures(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Returns one attempt for each distinct failure with source, nearest to being right first.

    Two failures are the same when code and summary agree but for numbers.
    """
    kept: dict[tuple[str, str], Attempt] = {}
    for one in attempts:
        if can_be_mended(one):
            kept.setdefault((one.code, without_figures(one.summary)), one)
    return tuple(sorted(kept.values(), key=lambda one: (nearness(one), one.round, one.index)))


def can_be_mended(attempt: Attempt) -> bool:
    """Tells whether the attempt failed by its own fault and has a source to start from."""
    ours = attempt.code.startswith("INFRA_") or attempt.code in {"DUPLICATE", "QUARANTINED"}
    return bool(attempt.source_sha) and not attempt.passed and not ours


def nearness(attempt: Attempt) -> int:
    """Ranks an attempt's failure; 0 is nearest to being right."""
    return _NEARNESS.index(attempt.code) if attempt.code in _NEARNESS else len(_NEARNESS)


def without_figures(text: str) -> str:
    """Replaces every number, because numbers differ where the cause does not."""
    return re.sub(r"\d[\d,.]*", "#", text)
