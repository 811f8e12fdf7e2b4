"""A library's call, timed in blocks as a kernel is, on a simulated site that really compares."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from measured_site import Call, MeasuredSession, MeasuredSite, Script, named
from timed_vector_adds import add, honest, rounded_in_one_call, small_bench, timed_site

from cuda_llm.errors import InfrastructureError
from cuda_llm.profile import LibraryTimes
from cuda_llm.tools.timing.library import measure_library
from cuda_llm.tools.timing.options import MeasureOptions


class LibrarySite(MeasuredSite):
    """A site whose libraries are scripts, called by name."""

    @asynccontextmanager
    async def open_library(self, library: str) -> AsyncIterator[tuple[str, MeasuredSession]]:
        """Open a session of the script."""
        yield f"{library} of a library", MeasuredSession(self.scripts[library], seed=3)


def measured(script: Script, *sizes: int) -> LibraryTimes:
    known = timed_site(script)
    site = LibrarySite(hardware=known.hardware, scripts=known.scripts)
    work = measure_library(
        site, small_bench(*sizes), "candidate", named("baseline"), MeasureOptions()
    )
    return asyncio.run(work)


def test_every_size_has_a_time_in_the_order_of_the_task() -> None:
    def by_length(call: Call) -> float:
        add(call)
        return 20.0 if call.buffers["C"].size == 96 else 80.0

    times = measured(by_length, 96, 500)
    assert times.name == "candidate of a library"
    assert times.fault == ""
    assert list(times.times) == pytest.approx([20.0, 80.0], rel=0.1)
    assert all(spread is not None and 0 <= spread < 0.2 for spread in times.spreads)


def test_a_library_that_computes_something_else_has_a_fault_and_no_times() -> None:
    times = measured(rounded_in_one_call, 96)
    assert times.times == ()
    assert "96" in times.fault


def test_a_site_without_libraries_says_so() -> None:
    work = measure_library(
        timed_site(honest(9.0)), small_bench(96), "x", named("baseline"), MeasureOptions()
    )
    with pytest.raises(InfrastructureError, match="calls no libraries"):
        asyncio.run(work)
