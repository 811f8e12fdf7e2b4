"""Do lessons of other tasks say what comes of an order?

    PYTHONPATH=tests/support python benchmarks/lessons_held_back.py
    python benchmarks/lessons_held_back.py RUN [RUN ...]

Each task is held back in turn: the orders of all others are the store, and for each of its own
orders that a lesson is about (`LEAST_TRIED` orders or more) the lesson's majority says gain or
none. Printed is how often that came true, and how often the commoner outcome alone would have;
by lessons of all tasks, as prompts hold them, and by lessons of tasks with such work alone.

Where no model followed an order, kernels stand in for orders: of two kernels of a task whose texts
differ by one sign, the one with the sign followed the technique that shows it. Without runs these
are the honest kernels of tests/fixtures, with the times that `results/h200_corpus_all_tasks.json`
has of them at the largest size, and what limits them is not known. With runs, whose folders hold
kernels of a playbook or of a model, they are those kernels, against what limits the other.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path

from record import RESULTS

from cuda_llm.agents.kernel_facts import SourceFacts, signs_of
from cuda_llm.agents.lessons import lessons_for, tried_orders
from cuda_llm.agents.limits import deciding_limiter
from cuda_llm.agents.prompting.describe_lessons import LEAST_TRIED
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import TIE
from cuda_llm.agents.techniques.catalogue import CHANGES
from cuda_llm.agents.techniques.task_kind import WORK, TaskKind, kind_of, work_of
from cuda_llm.capabilities import Capabilities
from cuda_llm.codec import decode
from cuda_llm.graph.runs.replay import recorded_hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.lessons import TriedOrder
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import BaselineJudged
from cuda_llm.traces.run_folder import RunFolder

FIXTURES = Path(__file__).parents[1] / "tests/fixtures"
CORPUS = RESULTS / "h200_corpus_all_tasks.json"
Outcome = tuple[bool, bool]
"""Whether the lesson said gain, and whether the order gained."""


class Corpus:
    """Reads the kernels of tests/fixtures by their names in the corpus."""

    def source(self, attempt: str) -> str:
        """Return the text of the kernel."""
        return (FIXTURES / f"{attempt}.cu").read_text()

    def verdict(self, attempt: str) -> object:
        """Raise KeyError: the corpus keeps no profiles."""
        raise KeyError(attempt)


def corpus_situations() -> Iterator[Situation]:
    """Yield the honest kernels of each task as a search of one round on an H200."""
    rows = [one for one in json.loads(CORPUS.read_text())["rows"] if one["largest_us"]]
    names = {one["name"]: one for one in rows if one["name"].startswith("honest/")}
    for task in sorted({name.split("/")[1] for name in names}):
        own = [one for name, one in names.items() if name.split("/")[1] == task]
        yield Situation(
            task=load_task(task),
            hardware=find_hardware("H200"),
            device="cuda:0",
            capabilities=Capabilities(measures_time=True),
            config=RunConfig(),
            round=1,
            attempts=tuple(
                Attempt(
                    id=one["name"],
                    round=1,
                    index=index,
                    kind=Kind.FIRST,
                    written_by="human",
                    code="PASSED",
                    speedup=one["largest_baseline_us"] / one["largest_us"],
                )
                for index, one in enumerate(own, start=1)
            ),
            archive=Corpus(),  # type: ignore[arg-type]
        )


def situation_of(folder: RunFolder) -> Situation:
    """Return the situation at the end of a run."""
    run = folder.read_run()
    recorded = (one.event for one in read_events(folder.events))
    baseline = next(one for one in recorded if isinstance(one, BaselineJudged))
    return Situation(
        task=load_task(run["task"]),
        hardware=recorded_hardware(folder),
        device=run["device"],
        capabilities=decode(Capabilities, run["device_details"]["capabilities"]),
        config=RunConfig(),
        round=1,
        attempts=tuple(filter(None, map(folder.attempt, folder.candidates()))),
        sizes=baseline.sizes,
        baseline_us=baseline.times_us,
        archive=folder,
    )


def orders_of(situation: Situation) -> tuple[TriedOrder, ...]:
    """Return the orders that a model followed, or else those that kernels stand in for."""
    folder, judged = situation.archive, situation.attempts
    if isinstance(folder, RunFolder) and any(one.written_by == "model" for one in judged):
        briefs = {one.id: folder.brief(one.id) for one in judged}
        return tried_orders(situation, {key: one for key, one in briefs.items() if one}, "run")
    return tuple(pairs_of(situation))


def pairs_of(situation: Situation) -> Iterator[TriedOrder]:
    """Yield an order for each pair of kernels that passed and differ by one sign."""
    passed = [one for one in situation.attempts if one.passed]
    shown = {one.id: signs_of(SourceFacts(situation.archive.source(one.id))) for one in passed}
    for before, after in permutations(passed, 2):
        added = shown[after.id] - shown[before.id]
        if len(added) != 1 or shown[before.id] - shown[after.id]:
            continue
        known = isinstance(situation.archive, RunFolder)
        limit = deciding_limiter(situation, before)[0] if known else ""
        had = 1.0 - (before.speedup or 1.0) / (after.speedup or 1.0)
        fitting = (one for one in CHANGES if one.shown_by in added)
        technique = next((one for one in fitting if limit in (*one.against, "")), None)
        if technique:
            yield TriedOrder(
                run="run",
                candidate=f"{before.id} {after.id}",
                gpu=situation.hardware.name,
                time_source=situation.capabilities.time_source,
                task=situation.task.name,
                task_kind=kind_of(situation.task),
                kind=Kind.IMPROVE,
                technique=technique.text,
                against=limit,
                had=had,
                gained=had > TIE,
            )


def compare(situation: Situation, orders: Sequence[TriedOrder]) -> list[Outcome]:
    """Return lesson and outcome of each order of the held-back task that a lesson is about."""
    lessons = {
        (one.kind, one.technique, one.against): one
        for one in lessons_for(situation, orders)
        if one.tried >= LEAST_TRIED
    }
    own = (one for one in orders if one.task == situation.task.name)
    found = ((lessons.get((one.kind, one.technique, one.against)), one) for one in own)
    return [(2 * lesson.gained > lesson.tried, one.gained) for lesson, one in found if lesson]


def with_such_work(situation: Situation, orders: Sequence[TriedOrder]) -> list[TriedOrder]:
    """Return the orders of tasks whose outputs depend on their inputs as this task's do."""
    work = work_of(situation.task)
    return [one for one in orders if WORK[TaskKind(one.task_kind)] == work]


def report(name: str, found: Mapping[str, Sequence[Outcome]]) -> None:
    """Print the agreement of all tasks, of each that has any, and by what lessons said."""
    total = [outcome for outcomes in found.values() for outcome in outcomes]
    commoner = max(Counter(gained for _, gained in total).values(), default=0)
    print(f"lessons of {name}: {agreement(total)}, the commoner outcome {commoner}")
    for said in (True, False):
        chosen = [one for one in total if one[0] is said]
        print(f"    that said {'gain' if said else 'none'}: {agreement(chosen)}")
    for task, outcomes in found.items():
        if outcomes:
            print(f"    {task}: {agreement(outcomes)}")


def agreement(outcomes: Sequence[Outcome]) -> str:
    """Return how many outcomes were as the lesson said."""
    return f"{sum(said == gained for said, gained in outcomes)} of {len(outcomes)} came true"


def main() -> None:
    """Print the agreement over the corpus, or over runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path, help="folders of finished runs")
    paths = parser.parse_args().runs
    ended = [situation_of(RunFolder(one)) for one in paths] or list(corpus_situations())
    orders = [one for situation in ended for one in orders_of(situation)]
    print(f"{len(orders)} orders of {len({one.task for one in orders})} tasks")
    held_back = {one.task.name: one for one in ended}
    report("all tasks", {name: compare(one, orders) for name, one in held_back.items()})
    alike = {name: with_such_work(one, orders) for name, one in held_back.items()}
    report(
        "tasks with such work",
        {name: compare(one, alike[name]) for name, one in held_back.items()},
    )


if __name__ == "__main__":
    main()
