"""The modelled times of a baseline are made once, also for searches that begin together."""

import asyncio
from dataclasses import replace
from typing import TypeVar

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Work
from cuda_llm.tools.device.device import ForwardingDevice
from cuda_llm.tools.judge.judge import time_baseline
from cuda_llm.tools.open_device import open_device

T = TypeVar("T")


class Counting(ForwardingDevice):
    """Counts the works that it hands on."""

    works = 0

    async def carry_out(self, work: Work[T]) -> T:
        self.works += 1
        return await super().carry_out(work)


def test_searches_that_begin_together_share_the_times_of_one_call() -> None:
    device = Counting(open_device("emulated"))
    task = load_task("vector_add")
    # A size of no other test: times that are cached already would be read.
    unlike = replace(task, sizes=replace(task.sizes, bench=({"n": 40_961},)))

    async def run() -> list[tuple[float, ...]]:
        found = await asyncio.gather(*(time_baseline(unlike, device) for _ in range(4)))
        return [tuple(time_us for _, time_us in one.times) for one in found]

    times = asyncio.run(run())
    assert len(set(times)) == 1
    assert device.works == 1
