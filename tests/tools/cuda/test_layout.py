"""Nothing that lies in a session's memory lies in anything else."""

from itertools import pairwise

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.tools.cuda.layout import ALIGNMENT, GUARD_BYTES, SlotLayout, lay_out
from cuda_llm.tools.cuda.memory import MemoryFull
from cuda_llm.tools.device.buffers import BufferSpec, Role

SPECS = st.lists(
    st.tuples(
        st.sampled_from(list(Role)),
        st.sampled_from(["uint8", "float16", "float32", "int64"]),
        st.integers(1, 5000),
    ),
    min_size=1,
    max_size=6,
)


def specs(drawn: list[tuple[Role, str, int]]) -> list[BufferSpec]:
    return [
        BufferSpec(name=f"b{number}", role=role, dtype=dtype, shape=(count,))
        for number, (role, dtype, count) in enumerate(drawn)
    ]


def ranges(layout: SlotLayout) -> list[tuple[int, int]]:
    """All that is written: guards, buffers, sealed contents, tags, scratch."""
    found = []
    for slot in range(layout.slots):
        base = slot * layout.stride
        for name, span in layout.spans.items():
            found += [
                (base + span.before, base + span.begin),
                (base + span.begin, base + span.end),
                (base + span.end, base + span.after),
            ]
            if name in layout.sealed:
                begin = base + layout.sealed[name]
                found.append((begin, begin + span.spec.nbytes))
    found.append((layout.tags, layout.tags + 256 * 24 * 8))
    found.append((layout.scratch, layout.scratch + layout.scratch_bytes))
    return sorted(found)


@settings(max_examples=examples(60))
@given(SPECS, st.integers(1, 7), st.booleans())
def test_everything_lies_apart_and_aligned(
    drawn: list[tuple[Role, str, int]], slots: int, seals: bool
) -> None:
    layout = lay_out(specs(drawn), scratch_bytes=1 << 20, slots=slots, seals=seals)

    assert all(one[1] <= other[0] for one, other in pairwise(ranges(layout)))
    assert ranges(layout)[-1][1] == layout.wanted_bytes
    for span in layout.spans.values():
        assert span.begin % ALIGNMENT == 0
        assert span.begin - span.before >= GUARD_BYTES
        assert span.after - span.end >= GUARD_BYTES
        assert span.end - span.begin == span.spec.nbytes
    offsets = [layout.stride, layout.tags, layout.scratch, *layout.sealed.values()]
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    inputs = {one.name for one in specs(drawn) if one.is_filled}
    assert set(layout.sealed) == (inputs if seals else set())


def test_room_for_solve_shrinks_to_what_is_left_and_the_rest_does_not() -> None:
    layout = lay_out(specs([(Role.IN, "uint8", 1 << 20)]), scratch_bytes=1 << 30)
    small = layout.within(layout.least_bytes + 10_000)

    assert small.scratch_bytes <= 10_000
    assert small.quota(1 << 30) < small.scratch_bytes
    assert layout.quota(1 << 30) == 1 << 30
    assert layout.quota(5) == 5
    with pytest.raises(MemoryFull):
        layout.within(layout.least_bytes - 1)


def test_a_call_that_wants_more_gets_all_of_it_and_one_that_wants_little_no_more_than_ever() -> (
    None
):
    layout = lay_out(specs([(Role.IN, "uint8", 1)]), scratch_bytes=3 << 30)
    large = layout.within(layout.wanted_bytes + (4 << 30))

    assert layout.quota(3 << 30) == 3 << 30
    assert large.scratch_bytes == layout.scratch_bytes + (4 << 30)
    assert large.quota(6 << 30) == 6 << 30
    assert large.room(5) == large.room(1 << 30) == layout.room(5) < 5 << 28


def test_two_buffers_of_one_name_are_refused() -> None:
    twice = specs([(Role.IN, "uint8", 1)]) * 2
    with pytest.raises(ValueError, match="two buffers are called b0"):
        lay_out(twice, scratch_bytes=0)


@pytest.mark.parametrize("slots", [0, 257])
def test_slots_are_as_many_as_a_batch_has_steps(slots: int) -> None:
    with pytest.raises(ValueError, match="slots"):
        lay_out(specs([(Role.IN, "uint8", 1)]), scratch_bytes=0, slots=slots)
