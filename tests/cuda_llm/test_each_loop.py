"""What is kept for one event loop is neither shared with another loop nor kept after it."""

import asyncio
import gc

from cuda_llm.each_loop import EachLoop


class Marker:
    """An object that differs from every other of its class."""


def test_each_loop_has_one_value_of_its_own_which_ends_with_the_loop() -> None:
    kept = EachLoop[Marker]()

    async def ask() -> tuple[Marker, Marker]:
        return kept.here(Marker), kept.here(Marker)

    first, again = asyncio.run(ask())
    assert first is again
    assert asyncio.run(ask())[0] is not first
    gc.collect()
    assert not kept.made
