"""Functions called through pointers, tables and virtual calls do what they say, at every level."""

import asyncio
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from device_calls import Called, call_once, compiled

from cuda_llm.outcomes import (
    DataRace,
    DeviceAssert,
    EmulatorUnsupported,
    IllegalAccess,
    PolicyViolation,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tools.device import CallOptions, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.verdict_wording import describe

Floats = npt.NDArray[np.float32]

SOURCE = (Path(__file__).parents[2] / "fixtures" / "pointers" / "pointers.cu").read_text()
MODES = [
    *re.findall(r"^  MODE\((\w+)\)", SOURCE, re.MULTILINE),
    "passed_by_the_host",
    "object_freed",
    "address_of_the_host",
    "told_by_data",
]
X = np.random.default_rng(3).integers(1, 9, 256).astype(np.float32)
INDEX = np.arange(256)
GROUPS = X.reshape(4, 64)


@pytest.fixture(scope="module")
def candidate() -> Compiled:
    """The kernels, compiled once."""
    return asyncio.run(compiled(SOURCE, open_emulated("H200").hardware.target))


def call(candidate: Compiled, mode: str, given: int = 0, level: Level = Level.CHECK) -> Called:
    async def once() -> Called:
        async with open_emulated("H200").open(candidate) as session:
            assert isinstance(session, Session), session
            values = {"x": X, "y": np.full(256, np.nan, np.float32)}
            which = 4 * MODES.index(mode) + given
            return await call_once(session, values, ["y"], [which], CallOptions(level=level))

    return asyncio.run(once())


def folded(given: int) -> Floats:
    sums = np.concatenate([[0], np.cumsum(X[:5])])[INDEX % 5]
    return np.where((INDEX + given) % 2, -sums, sums).astype(np.float32)


def expected(mode: str, given: int) -> Floats:
    """What an honest mode computes."""
    odd = given % 2 == 1
    three = [2 * X, X * X, -X]
    turned = X[::-1]
    around = np.roll(GROUPS, -1, axis=1)
    mixed = np.choose((INDEX + given) % 3, three)
    twice_around = np.roll(GROUPS, -2, axis=1)
    found = {
        "chosen_by_a_switch": three[given % 3],
        "functor_behind_a_pointer": 3 * X if odd else X + 5,
        "virtual_in_shared_memory": 4 * X + 2 * (X + 4) if odd else X * X + X,
        "virtual_on_the_stack": np.where((INDEX ^ given) & 1, 7 * X, X * X),
        "table_in_constant_memory": mixed,
        "structures_by_value": 1 + turned + 20 + 100 * X if odd else 2 + 10 + 100 * (X - turned),
        "barriers_behind_a_pointer": ((twice_around if odd else GROUPS) + around).ravel(),
        "node_of_a_leaf": np.where((INDEX + given) & 1, 2 * X, X),
        "member_functions": INDEX + X if odd else INDEX - X,
        "handed_on": folded(given),
        "allocated_by_a_thread": np.where((INDEX + given) & 1, X + 2 + INDEX, X + 2 + X),
        "virtual_destructors": np.where(INDEX & 1, 1, X + 1),
        "linkage": np.choose((INDEX + given) % 6, [2 * X, 3 * X, X + 1, X + 2, X + 3, X + 4]) + 1,
        "passed_by_the_host": X * X if odd else -X,
    }
    return np.asarray(found[mode], np.float32)


HONEST = [mode for mode in MODES if mode in SOURCE.partition("Wrong from here on")[0]]


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL, Level.ACCOUNT])
@pytest.mark.parametrize("mode", HONEST)
def test_a_right_call_through_a_pointer_is_executed(
    candidate: Compiled, mode: str, level: Level
) -> None:
    for given in (0, 1):
        called = call(candidate, mode, given, level)
        assert called.report, mode
        np.testing.assert_array_equal(called.outputs["y"], expected(mode, given), mode)


def test_a_wrong_entry_of_a_table_is_a_wrong_result(candidate: Compiled) -> None:
    called = call(candidate, "wrong_entry")
    assert called.report
    assert not np.array_equal(called.outputs["y"], expected("table_in_constant_memory", 0))


def failed(candidate: Compiled, mode: str, given: int, level: Level, mark: str) -> Verdict:
    """The verdict of a wrong mode, which names the marked line."""
    found = call(candidate, mode, given, level).outcome
    assert isinstance(found, DeviceAssert | DataRace | UninitialisedRead | IllegalAccess), found
    assert found.spot is not None, found
    before, _, _ = SOURCE.partition(f"// {mark}\n")
    assert found.spot.line == before.count("\n") + 1
    return found


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL, Level.ACCOUNT])
def test_calling_what_is_no_function_names_line_thread_and_address(
    candidate: Compiled, level: Level
) -> None:
    null = failed(candidate, "null_pointer", 0, level, "null")
    assert isinstance(null, DeviceAssert)
    assert (null.reason, null.called) == ("invalid-pc", 0)
    assert null.thread is not None
    assert (null.thread.block, null.thread.thread) == ((1, 0, 0), (6, 0, 0))
    assert "a call through a null pointer" in " ".join(describe(null))
    host = failed(candidate, "address_of_the_host", 0, level, "host")
    assert isinstance(host, DeviceAssert)
    assert host.called
    assert "no __device__ function" in " ".join(describe(host))


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL])
def test_an_object_that_was_never_built_or_is_freed_has_no_functions(
    candidate: Compiled, level: Level
) -> None:
    never = failed(candidate, "object_never_built", 0, level, "never built")
    assert isinstance(never, UninitialisedRead)
    freed = failed(candidate, "object_freed", 0, level, "freed")
    assert isinstance(freed, IllegalAccess)


def test_an_unset_pointer_decides_a_branch(candidate: Compiled) -> None:
    found = failed(candidate, "pointer_never_set", 0, Level.CHECK, "never set")
    assert isinstance(found, UninitialisedRead | DeviceAssert)


def test_a_race_behind_a_pointer_has_both_lines(candidate: Compiled) -> None:
    assert call(candidate, "race_behind_a_pointer", 0, Level.FULL).report
    found = call(candidate, "race_behind_a_pointer", 1, Level.FULL).outcome
    assert isinstance(found, DataRace)
    assert found.spot is not None
    assert found.other is not None
    assert {found.spot.text.partition("//")[2], found.other.text.partition("//")[2]} == {
        " stored",
        " read",
    }


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL])
@pytest.mark.parametrize(
    ("mode", "mark", "wanted"),
    [
        ("used_after_delete", "deleted", IllegalAccess),
        ("deleted_twice", "twice", IllegalAccess),
        ("past_what_it_allocated", "past", IllegalAccess),
        ("never_written", "never written", UninitialisedRead),
    ],
)
def test_memory_that_kernels_allocate_is_checked(
    candidate: Compiled, mode: str, mark: str, wanted: type, level: Level
) -> None:
    found = failed(candidate, mode, 0, level, mark)
    assert isinstance(found, wanted)
    assert "memory that a kernel allocated" in " ".join(describe(found))


def test_a_kernel_gets_no_more_memory_than_the_heap_has(candidate: Compiled) -> None:
    called = call(candidate, "more_than_there_is")
    assert called.report
    np.testing.assert_array_equal(np.sort(called.outputs["y"]), np.repeat([0, 1], [64, 192]))
    assert (called.report.held_allocations, called.report.held_bytes) == (64, 8 << 20)
    assert call(candidate, "allocated_by_a_thread").report.held_allocations == 0


def test_code_is_no_memory(candidate: Compiled) -> None:
    assert isinstance(failed(candidate, "reads_code", 1, Level.CHECK, "code"), IllegalAccess)


def test_the_host_reads_functions_that_the_source_names_and_none_that_data_chose(
    candidate: Compiled,
) -> None:
    assert call(candidate, "passed_by_the_host").report
    told = call(candidate, "told_by_data").outcome
    assert told == PolicyViolation(rule="host-copy")


def test_recursion_is_refused_by_name(candidate: Compiled) -> None:
    through = call(candidate, "recursive").outcome
    assert isinstance(through, EmulatorUnsupported)
    assert through.opcode == "call.recursive.indirect"
    assert through.spot is not None
    assert through.spot.text.endswith("// again")
    directly = call(candidate, "directly_recursive").outcome
    assert isinstance(directly, EmulatorUnsupported)
    assert directly.opcode == "call.recursive"
    assert directly.spot is not None
    assert directly.spot.text.endswith("// direct")
