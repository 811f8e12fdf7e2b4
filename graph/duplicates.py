"""Kernels that were judged before."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from cuda_llm.agents.kernel_text.normal_form import normal_sha
from cuda_llm.outcomes import Duplicate
from cuda_llm.search import Attempt


@lru_cache(maxsize=64)
def kernel_sha(source: str) -> str:
    """`normal_sha`, once for the few sources at work: it reads every token."""
    return normal_sha(source)


def first_of(normal: str, earlier: Iterable[Attempt]) -> str:
    """Id of the earliest attempt whose kernel has the hash `normal`; empty where there is none."""
    same = (one.id for one in earlier if normal and one.normal_sha == normal and _stands(one))
    return next(same, "")


def as_duplicate(attempt: Attempt, of: str) -> Attempt:
    """The attempt as a repetition of `of`, without figures of its own."""
    return replace(
        attempt,
        code=Duplicate.code,
        summary=f"the same kernel as {of}",
        speedup=None,
        times_us=(),
        spread=0.0,
        limited_by="",
    )


def _stands(attempt: Attempt) -> bool:
    """Whether its verdict is about its kernel."""
    return attempt.code != Duplicate.code and not attempt.code.startswith("INFRA_")
