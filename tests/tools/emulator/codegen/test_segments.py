"""Lane operations wait for the act that needs them, and never cross a hazard."""

from collections.abc import Sequence

from cuda_llm.tools.emulator.codegen.flow import GuardedBranch, Jump
from cuda_llm.tools.emulator.codegen.kernel import Act, Lane, Step
from cuda_llm.tools.emulator.codegen.liveness import LoweredBlock, live_out
from cuda_llm.tools.emulator.codegen.segments import Segment, schedule
from cuda_llm.tools.emulator.ptx.module import Guard, Reg


def lane(target: str, *sources: str, vectorises: bool = True, guard: Guard | None = None) -> Lane:
    return Lane(((target, "0"),), sources, guard, vectorises=vectorises)


def act(reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> Act:
    return Act(lambda array: "", reads=reads, writes=writes)


def shape(steps: Sequence[Step], *live: str) -> list[str]:
    """`a` for an act, else the targets of a loop."""
    return [
        "+".join(r for step in item.lanes for r in step.writes)
        if isinstance(item, Segment)
        else "a"
        for item in schedule(steps, frozenset(live), ())
    ]


def test_operations_between_loads_share_one_loop_at_the_end() -> None:
    steps: list[Step] = [
        act(writes=("x",)),
        lane("s", "s", "x"),
        act(writes=("y",)),
        lane("s", "s", "y"),
        act(writes=("z",)),
        lane("s", "s", "z"),
    ]
    assert shape(steps, "s") == ["a", "a", "a", "s+s+s"]


def test_only_what_an_act_needs_runs_before_it() -> None:
    steps: list[Step] = [
        lane("address", "i"),
        lane("other", "j"),
        act(reads=("address",), writes=("x",)),
    ]
    assert shape(steps, "other", "x") == ["address", "a", "other"]


def test_a_reader_runs_before_its_register_is_overwritten() -> None:
    steps: list[Step] = [lane("copy", "x"), act(writes=("x",))]
    assert shape(steps, "copy", "x") == ["copy", "a"]


def test_a_waiting_reader_runs_before_an_early_writer() -> None:
    steps: list[Step] = [lane("copy", "x"), lane("x", "i"), act(reads=("x",))]
    assert shape(steps, "copy") == ["copy+x", "a"]


def test_operations_that_do_not_vectorise_have_loops_of_their_own() -> None:
    steps: list[Step] = [lane("a", "i"), lane("q", "a", vectorises=False), lane("b", "q")]
    assert shape(steps, "b") == ["a", "q", "b"]


def test_unread_results_are_dropped_and_read_ones_stored() -> None:
    items = schedule([lane("a", "i"), lane("b", "a"), lane("dead", "b")], frozenset({"b"}), ())
    assert items == [Segment((lane("a", "i"), lane("b", "a")), frozenset({"b"}))]


def test_a_guarded_write_keeps_the_value_before() -> None:
    guarded = lane("a", "i", guard=Guard(Reg("p"), negated=False))
    assert shape([lane("a", "j"), guarded], "a") == ["a+a"]


def test_values_live_around_a_loop() -> None:
    loop = GuardedBranch(Guard(Reg("p"), negated=False), 1, 2)
    blocks = [
        LoweredBlock((lane("n"), lane("s")), Jump(1)),
        LoweredBlock((lane("t", "n"), lane("s", "s", "t"), lane("p", "s")), loop),
        LoweredBlock((act(reads=("s",)),), Jump(-1)),
    ]
    assert live_out(blocks) == [frozenset("ns"), frozenset("ns"), frozenset()]
