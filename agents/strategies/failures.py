"""Which failures to learn from, and in which order."""

import re
from collections.abc import Sequence

from cuda_llm.search import Attempt

_NEARNESS = (
    *("NONDETERMINISTIC", "WRONG_RESULT", "LATE_WRITE", "GUARD_OVERWRITTEN", "INPUT_MUTATED"),
    *("DATA_RACE", "UNINITIALISED_READ", "INVALID_SYNC", "TIMED_OUT"),
    *("ILLEGAL_ACCESS", "MISALIGNED", "DEVICE_ASSERT", "LAUNCH_FAILED", "OUT_OF_MEMORY"),
    *("HOST_CRASHED", "LOAD_FAILED", "COMPILE_FAILED"),
)
"""Codes by how near the kernel came to being right; others come last."""


def distinct_failures(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """One attempt for each distinct failure with code to mend, nearest to being right first.

    Two failures are the same when verdict and wording agree but for figures and names of kernels.
    """
    kept: dict[tuple[str, str], Attempt] = {}
    for one in attempts:
        if can_be_mended(one):
            kept.setdefault((one.code, without_figures(one.summary)), one)
    return tuple(sorted(kept.values(), key=lambda one: (nearness(one), one.round, one.index)))


def can_be_mended(attempt: Attempt) -> bool:
    """Whether it failed by its own fault, with a source to start from."""
    ours = attempt.code.startswith("INFRA_") or attempt.code in {"DUPLICATE", "QUARANTINED"}
    return bool(attempt.source_sha) and not attempt.passed and not ours


def nearness(attempt: Attempt) -> int:
    """0 is nearest to being right."""
    return _NEARNESS.index(attempt.code) if attempt.code in _NEARNESS else len(_NEARNESS)


def without_figures(text: str) -> str:
    """The text with every number replaced: figures differ where the cause does not."""
    return re.sub(r"\d[\d,.]*", "#", text)
