"""What is tried again, and what is not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cuda_llm.errors import BrokenByWork, DeviceLost, InfrastructureError
from cuda_llm.graph.judging.steady import TRIES, steady
from cuda_llm.outcomes import InfraFailed


def raising(error: Exception, tries: list[int]) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        tries.append(1)
        raise error

    return work


def test_broken_machinery_is_tried_again_then_told() -> None:
    tries: list[int] = []
    work = raising(InfrastructureError("runner", "did not start"), tries)
    assert asyncio.run(steady("referee", work)) == InfraFailed(
        component="referee", detail="runner: did not start"
    )
    assert len(tries) == TRIES


def test_what_has_broken_a_device_twice_is_not_tried_again() -> None:
    tries: list[int] = []
    verdict = asyncio.run(steady("referee", raising(BrokenByWork("device", "twice"), tries)))
    assert verdict is not None
    assert verdict.code == "INFRA_DEVICE"
    assert len(tries) == 1


def test_a_lost_device_ends_what_needs_it() -> None:
    tries: list[int] = []
    with pytest.raises(DeviceLost):
        asyncio.run(steady("referee", raising(DeviceLost("device", "quarantine"), tries)))
    assert len(tries) == 1
