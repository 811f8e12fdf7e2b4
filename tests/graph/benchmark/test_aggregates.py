"""Figures over many tasks: means that never mix what must not be mixed."""

from math import isclose
from statistics import geometric_mean

from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.graph.benchmark.aggregates import aggregate, total
from cuda_llm.graph.benchmark.row import LibraryTime, SizeRow, TaskRow
from cuda_llm.profile import TimeSource
from cuda_llm.tasks.task import PublishedSpeedup

FACTORS = st.floats(min_value=0.1, max_value=1000)
EXAMPLES = settings(max_examples=examples(60))
TIMES = st.floats(min_value=0.5, max_value=1e6)


@st.composite
def rows(draw: st.DrawFn) -> list[TaskRow]:
    """Tasks of both sources, some of which failed or kept their baseline."""
    return [draw(row(f"task{number}")) for number in range(draw(st.integers(1, 8)))]


def row(name: str) -> st.SearchStrategy[TaskRow]:
    published = st.lists(
        st.builds(
            PublishedSpeedup,
            gpu=st.sampled_from(["A", "B"]),
            factor=FACTORS,
            source=st.just("the authors"),
        ),
        max_size=2,
        unique_by=lambda one: one.gpu,
    )
    library = st.none() | st.builds(LibraryTime, name=st.just("torch.sum"), time_us=TIMES)
    size = st.builds(
        SizeRow,
        dims=st.just({"n": 7}),
        baseline_us=TIMES,
        best_us=st.none() | TIMES,
        least_us=TIMES,
        library=library,
    )
    return st.builds(
        TaskRow,
        task=st.just(name),
        state=st.sampled_from(["done", "done", "done", "failed", "stopped", "waiting"]),
        time_source=st.sampled_from(["measured", "modelled"]),
        sizes=st.lists(size, min_size=1, max_size=3).map(tuple),
        speedup=st.none() | FACTORS,
        published=published.map(tuple),
        usd=st.none() | st.floats(min_value=0, max_value=9),
    )


def test_fast_p_counts_right_kernels_beyond_p_over_all_tasks_that_are_done() -> None:
    """As KernelBench defines it: more than p times as fast, a wrong kernel at no p."""
    figures = {"a": 2.0, "b": 1.2, "c": 0.6, "d": None, "e": 3.0}
    given_rows = [
        TaskRow(
            task=name,
            state="waiting" if name == "e" else "done",
            time_source="measured",
            sizes=(SizeRow(dims={"n": 7}, baseline_us=9.0, best_us=4.5, least_us=1.0),),
            best="" if factor is None else "r1-c1",
            speedup=factor,
        )
        for name, factor in figures.items()
    ]
    (found,) = aggregate(given_rows)
    shares = {"0": 0.75, "0.5": 0.75, "0.8": 0.5, "1": 0.5, "1.5": 0.25, "2": 0.0}
    assert dict(found.fast_p) == shares


@EXAMPLES
@given(rows())
def test_measured_and_modelled_tasks_are_never_in_one_mean(given_rows: list[TaskRow]) -> None:
    found = {one.time_source: one for one in aggregate(given_rows)}
    sources: tuple[TimeSource, ...] = ("measured", "modelled")
    for source in sources:
        own = [one for one in given_rows if one.state == "done" and one.time_source == source]
        assert (source in found) == bool(own)
        if own:
            mean = geometric_mean([one.speedup or 1.0 for one in own])
            assert isclose(found[source].speedup.geometric_mean, mean)
            assert found[source].tasks == len(own)


@EXAMPLES
@given(rows())
def test_a_mean_lies_between_the_worst_and_the_best_and_names_the_worst(
    given_rows: list[TaskRow],
) -> None:
    by_name = {one.task: one.speedup or 1.0 for one in given_rows}
    for one in aggregate(given_rows):
        worst = one.speedup.worst
        assert by_name[one.speedup.worst_task] == worst
        assert worst <= one.speedup.median
        assert worst <= one.speedup.geometric_mean * (1 + 1e-9)


@EXAMPLES
@given(rows())
def test_capped_at_what_is_published_neither_side_gains(given_rows: list[TaskRow]) -> None:
    for one in aggregate(given_rows):
        for beside in one.beside_published:
            slack = 1 + 1e-9
            assert beside.capped.geometric_mean <= beside.ours.geometric_mean * slack
            assert beside.capped.geometric_mean <= beside.published.geometric_mean * slack
            assert beside.capped.count == beside.ours.count == beside.published.count


@EXAMPLES
@given(rows())
def test_one_unknown_price_makes_the_sum_unknown(given_rows: list[TaskRow]) -> None:
    known = all(one.usd is not None for one in given_rows)
    assert (total(given_rows).usd is not None) == known


def test_without_a_finished_task_there_is_no_mean() -> None:
    assert aggregate([]) == ()
    assert aggregate([TaskRow(task="a", state="failed", error="no nvcc")]) == ()
