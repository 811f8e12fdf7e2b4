"""Operations of the table against an exact oracle."""

from collections.abc import Callable, Sequence
from functools import cache

import pytest
from corpus_sample import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_library import WIDE_FAMILIES, LaneLibrary, judged_operations
from lane_oracle.expected import agrees
from lane_oracle.lookup import oracle_of
from lane_values import MISTAKEN, bits_of, edges, rows_for, show

from cuda_llm.tools.emulator.ops.table import lane_op, operations

JUDGED = judged_operations()
FAMILIES = sorted({spelling.split(".")[0] for spelling in JUDGED})


def disagreement(
    library: LaneLibrary, spelling: str, oracle: str, rows: Sequence[tuple[int, ...]]
) -> str | None:
    """The first row on which the function of one spelling is not what another's oracle expects."""
    expect = oracle_of(oracle)
    op = library.operations[spelling]
    for row, results in zip(rows, library.apply(spelling, rows), strict=True):
        expected = expect(row)
        if not all(agrees(e, r) for e, r in zip(expected, results, strict=True)):
            return (
                f"{spelling} of {show(op.arguments, row)}"
                f" gave {show(op.results, results)}, not {expected}"
            )
    return None


@pytest.mark.parametrize("spelling", JUDGED)
def test_operation_agrees_with_its_oracle(library: LaneLibrary, spelling: str) -> None:
    op = operations()[spelling]
    count = 64 if spelling.split(".")[0] in WIDE_FAMILIES else 256
    rows = rows_for(spelling, op, count)
    assert disagreement(library, spelling, spelling, rows) is None


@cache
def operand(t: str) -> st.SearchStrategy[int]:
    """Raw bits of a PTX type, often an edge."""
    return st.sampled_from(edges(t)) | st.integers(0, (1 << bits_of(t)) - 1)


@pytest.mark.parametrize("family", FAMILIES)
@settings(
    max_examples=examples(12),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(draw=st.data())
def test_family_agrees_on_drawn_operands(
    library: LaneLibrary, family: str, draw: st.DataObject
) -> None:
    spelling = draw.draw(
        st.sampled_from([s for s in JUDGED if s.split(".")[0] == family]), label="opcode"
    )
    rows = draw.draw(
        st.lists(
            st.tuples(*(operand(t) for t in operations()[spelling].arguments)),
            min_size=1,
            max_size=4,
        ),
        label="operands",
    )
    assert disagreement(library, spelling, spelling, rows) is None


@pytest.mark.parametrize(("spelling", "oracle"), MISTAKEN)
def test_wrong_function_is_rejected(library: LaneLibrary, spelling: str, oracle: str) -> None:
    rows = rows_for(oracle, operations()[oracle], 256)
    assert disagreement(library, spelling, oracle, rows) is not None


def test_loops_over_lanes_become_vector_code(library: LaneLibrary) -> None:
    promised = {spelling for spelling, op in library.operations.items() if op.vectorises}
    assert promised
    assert promised - library.vectorised == set()


def test_spelling_without_operation_is_unknown() -> None:
    assert lane_op(("wgmma", "mma_async")) is None


def test_source_count_selects_the_three_input_minimum() -> None:
    assert lane_op(("min", "f32"), 2) == operations()["min.f32"]
    assert lane_op(("min", "f32"), 3) == operations()["min.f32/3"]


def test_spelling_without_oracle_is_an_error() -> None:
    look: Callable[[str], object] = oracle_of
    with pytest.raises(LookupError):
        look("frobnicate.s32")
