"""What a run judges of a corpus: the same few members each time, of every kind at least one."""

import pytest
from corpus_sample import EVIDENCE, sample
from hypothesis import given
from hypothesis import strategies as st

MEMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)))


@given(members=MEMBERS, every=st.integers(1, 9))
def test_every_kind_is_judged_and_none_by_more_than_its_share(
    members: list[tuple[int, int]], every: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(EVIDENCE, raising=False)
        chosen = sample(members, kind=lambda one: one[0], every=every)
        assert chosen == sample(members, kind=lambda one: one[0], every=every)
    for kind in {one[0] for one in members}:
        of_all, of_chosen = (sum(one[0] == kind for one in group) for group in (members, chosen))
        assert 1 <= of_chosen <= -(-of_all // every)


def test_kinds_begin_at_different_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EVIDENCE, raising=False)
    styles = [f"{task}{number}" for task in "abc" for number in range(4)]
    assert sample(styles, kind=lambda one: one[0], every=4) == ["a0", "b1", "c2"]


@given(members=MEMBERS, every=st.integers(1, 9))
def test_a_run_of_the_whole_leaves_nothing_out(members: list[tuple[int, int]], every: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(EVIDENCE, "1")
        assert sample(members, kind=lambda one: one[0], every=every) == members
