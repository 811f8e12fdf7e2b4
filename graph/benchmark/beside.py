"""Each row beside the playbook on the same task: in the same sweep, or in another benchmark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean

from cuda_llm.graph.benchmark.aggregates import own_speedup
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.graph.benchmark.sweep import spell_setting

GENERATOR, PLAYBOOK = "generator", "playbook"


def beside_playbook(rows: Sequence[TaskRow], other: Iterable[TaskRow] = ()) -> tuple[TaskRow, ...]:
    """Return the rows with `over_playbook`.

    Where the generator is swept, the playbook's run of the same task and other options counts; else
    the runs of that task in `other`, another benchmark, by the geometric mean of their speed-ups.
    """
    own = {_key(row): row for row in rows if row.is_timed}
    elsewhere: dict[tuple[str, str | None], list[float]] = {}
    for row in other:
        if row.is_timed:
            elsewhere.setdefault((row.task, row.time_source), []).append(own_speedup(row))
    means = {key: geometric_mean(found) for key, found in elsewhere.items()}
    return tuple(replace(row, over_playbook=_over(row, own, means)) for row in rows)


def _over(
    row: TaskRow,
    own: Mapping[tuple[str, str], TaskRow],
    means: Mapping[tuple[str, str | None], float],
) -> float | None:
    """Return a row's speed-up over the playbook's; None without one."""
    if not row.is_timed:
        return None
    theirs = means.get((row.task, row.time_source))
    if GENERATOR in row.setting:
        if row.setting[GENERATOR] == PLAYBOOK:
            return None
        same = replace(row, setting={**row.setting, GENERATOR: PLAYBOOK})
        found = own.get(_key(same))
        if found is not None and found.time_source == row.time_source:
            theirs = own_speedup(found)
    return None if theirs is None else own_speedup(row) / theirs


def _key(row: TaskRow) -> tuple[str, str]:
    return row.task, spell_setting(row.setting)
