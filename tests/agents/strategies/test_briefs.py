"""Failures are sorted by how near a kernel came to being right, whatever their verdict."""

from collections import Counter
from typing import get_args

from cuda_llm.agents.strategies.briefs import NEARNESS
from cuda_llm.outcomes import Duplicate, InfraFailed, NoCode, Passed, Quarantined, Verdict

NOTHING_TO_FIX = {NoCode, Duplicate, Passed, Quarantined, InfraFailed}


def test_every_verdict_that_another_source_may_fix_has_one_rank() -> None:
    fixable = [one.code for one in get_args(Verdict) if one not in NOTHING_TO_FIX]
    assert Counter(NEARNESS) == Counter(fixable)
