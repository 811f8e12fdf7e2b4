"""With how many secrets does a wrong kernel pass, and with how many is an honest one refused?

    PYTHONPATH=src:tests/support python benchmarks/missed_secrets.py --out rows.jsonl --secrets 100

Inputs and hidden sizes of a validation follow from a secret, so that a wrong kernel may
be lucky. Judged are the seeded wrong kernels that are functions on arrays (tests/fixtures/mutants)
and the honest arithmetic beside them, by the validator itself. A line of `--out` is one secret
of one task, and those that stand there are not judged again. Secrets are numbered: two runs draw
the same. `--shard` takes a part of the tasks; `--summary` writes the result of what is there.
"""

import argparse
import asyncio
import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import record
from measured_site import MeasuredSession
from task_fixtures import ArraySession, Row, array_kernels, mutant_rows, wrong_session

from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.validate import Validated, validate

LIKELIHOOD = 0.05
"""Of no miss at all, were a mutant missed as often as the bound says."""


def array_rows(task: str) -> list[Row]:
    """Return the wrong kernels of a task that are functions on arrays."""
    return [row for row in mutant_rows(task) if row["how"] == "python"]


def sessions(task: Task) -> Iterator[tuple[str, bool, MeasuredSession]]:
    """Yield name, whether it is honest, and session of each kernel of a task."""
    written = array_kernels(task.name)
    for row in array_rows(task.name):
        yield row["kind"], False, wrong_session(task, row["kind"])
    for name, kernel in ({} if written is None else written.honest).items():
        yield name, True, ArraySession(task, kernel)


def judge_secret(task: str, number: int) -> dict[str, Any]:
    """Judge all kernels of a task with one secret."""
    loaded = load_task(task)
    nonce = hashlib.blake2b(f"{task}/{number}".encode(), digest_size=16).digest()
    missed: list[str] = []
    refused: list[str] = []
    judged: Counter[bool] = Counter()
    for name, is_honest, session in sessions(loaded):
        passed = isinstance(asyncio.run(validate(loaded, session, nonce=nonce)), Validated)
        judged[is_honest] += 1
        if passed and not is_honest:
            missed.append(name)
        elif is_honest and not passed:
            refused.append(name)
    counts = {"wrong": judged[False], "honest": judged[True]}
    return {"task": task, "secret": number, **counts, "missed": missed, "refused": refused}


def most_missed(secrets: int) -> float:
    """Return the largest share of secrets that none missed of `secrets` leaves likely enough."""
    return 1 - math.pow(LIKELIHOOD, 1 / secrets)


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return by task what was judged, and by kernel how many secrets missed or refused it."""
    tasks: dict[str, Any] = {}
    for task in sorted({row["task"] for row in rows}):
        own = [row for row in rows if row["task"] == task]
        tasks[task] = {
            "secrets": len(own),
            "wrong": own[0]["wrong"],
            "honest": own[0]["honest"],
            "missed": dict(Counter(name for row in own for name in row["missed"])),
            "refused": dict(Counter(name for row in own for name in row["refused"])),
            "most_missed": round(most_missed(len(own)), 4),
        }
    return {
        "judged_wrong": sum(row["wrong"] for row in rows),
        "judged_honest": sum(row["honest"] for row in rows),
        "tasks": tasks,
    }


def main() -> None:
    """Judge secret after secret of each task until the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--secrets", type=int, default=100)
    parser.add_argument("--shard", default="1/1", help="which tasks: i/n")
    parser.add_argument("--limit-s", type=float, default=math.inf)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    chosen = parser.parse_args()
    deadline_s = time.monotonic() + chosen.limit_s
    done = {(row["task"], row["secret"]) for row in record.read_rows(chosen.out)}
    tasks = record.sharded(chosen.tasks or list_tasks(), chosen.shard)
    for task, number in ((task, k) for k in range(chosen.secrets) for task in tasks):
        if chosen.summary or time.monotonic() > deadline_s:
            break
        if (task, number) not in done:
            record.add_row(chosen.out, judge_secret(task, number))
    if chosen.summary:
        print(
            record.write("missed_secrets", summarise(record.read_rows(chosen.out)), chosen.results)
        )


if __name__ == "__main__":
    main()
