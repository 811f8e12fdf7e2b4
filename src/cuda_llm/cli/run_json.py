"""The JSON document of `run` and `resume` (docs/schemas/run.schema.json)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cuda_llm.agents.llm.budget import Spent
from cuda_llm.cli.json_text import json_text
from cuda_llm.graph.runs.result import Result
from cuda_llm.search import Attempt

SCHEMA = 1


def run_document(result: Result) -> str:
    """Spell a run as one JSON text. Numbers that are not finite become null."""
    whole = {
        "schema": SCHEMA,
        "run_id": result.run_id,
        "run_dir": str(result.run_dir),
        "task": result.task,
        "device": result.device,
        "hardware": result.hardware,
        "time_source": result.time_source,
        "l2": result.l2,
        "generator": result.generator,
        "model": result.model,
        "strategy": result.strategy,
        "seed": result.seed,
        "note": result.note,
        "finished": result.finished,
        "reason": result.reason,
        "rounds": rounds(result.attempts),
        "best": best(result),
        "usage": usage(result.usage),
        "seconds": dict(result.seconds),
    }
    return json_text(whole)


def rounds(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the candidates by round, in order."""
    found: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.round].append(attempt)
    return [
        {"round": number, "candidates": [candidate(one) for one in found[number]]}
        for number in sorted(found)
    ]


def candidate(attempt: Attempt) -> dict[str, Any]:
    """Return the short form of one candidate."""
    return {
        "id": attempt.id,
        "kind": attempt.kind.value,
        "parent": attempt.parent,
        "written_by": attempt.written_by,
        "code": attempt.code,
        "speedup": attempt.speedup,
        "limited_by": attempt.limited_by,
    }


def best(result: Result) -> dict[str, Any] | None:
    """Return the fastest kernel; None while none has passed."""
    if result.best is None:
        return None
    again = result.remeasured
    return {
        "candidate": result.best.id,
        "speedup": result.best.speedup,
        "times_us": list(result.best.times_us),
        "remeasured_speedup": None if again is None else again.speedup,
        "written_by": result.best.written_by,
        "source": result.source,
        "file": str(result.file),
    }


def usage(spent: Spent) -> dict[str, Any]:
    """Return the sum of all model calls; `usd` is None where the price of one is unknown."""
    return {**asdict(spent), "usd": None if spent.unpriced_calls else spent.usd}
