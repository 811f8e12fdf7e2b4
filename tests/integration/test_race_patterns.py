"""Small irregular kernels of known label: each racy one is found, and no clean one is refused.

A plain read that only guards an update is kept apart from other races, in every order of blocks and
warps alike.
"""

import asyncio

import numpy as np
import pytest
from corpus_sample import sample
from device_calls import call_once, compiled
from race_patterns import VERTICES, RacePattern, race_patterns, source_of

from cuda_llm.outcomes import DataRace, IllegalAccess, Verdict
from cuda_llm.tools.device import CallOptions, CallReport, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import DEFAULT_GPU, open_emulated

PATTERNS = sample(tuple(race_patterns()), every=9)
SEEDS = (0, 5)


@pytest.fixture(scope="module")
def candidate() -> Compiled:
    """All patterns of the sample as one candidate."""
    target = open_emulated(DEFAULT_GPU).hardware.target
    return asyncio.run(compiled(source_of(list(PATTERNS)), target))


def graph() -> dict[str, np.ndarray]:
    """A graph of a few neighbours a vertex, some with many, as offsets and targets."""
    rng = np.random.default_rng(7)
    degrees = np.where(np.arange(VERTICES) % 97 == 0, 70, rng.integers(1, 9, VERTICES))
    first = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    to = rng.integers(0, VERTICES, int(first[-1])).astype(np.int32)
    weight = rng.permutation(VERTICES).astype(np.int32)
    return {"first": first, "to": to, "weight": weight, "out": np.zeros(1, np.int32)}


async def outcome_of(candidate: Compiled, number: int, seed: int) -> CallReport | Verdict:
    """What one launch of a pattern ends in."""
    options = CallOptions(level=Level.FULL, schedule_seed=seed, limit_s=60)
    async with open_emulated(DEFAULT_GPU).open(candidate) as session:
        assert isinstance(session, Session), session
        scalars = (VERTICES, number)
        return (await call_once(session, graph(), ["out"], scalars, options)).outcome


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda one: one.name)
def test_a_pattern_is_what_its_label_says(candidate: Compiled, pattern: RacePattern) -> None:
    for seed in SEEDS:
        found = asyncio.run(outcome_of(candidate, PATTERNS.index(pattern), seed))
        if pattern.faults and not pattern.is_guarded_only:
            assert isinstance(found, DataRace | IllegalAccess)
            continue
        assert isinstance(found, CallReport), found
        assert bool(found.guarded_races) == pattern.is_guarded_only
