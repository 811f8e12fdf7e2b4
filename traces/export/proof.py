"""What is known of an exported kernel: how fast, than what, on what, who wrote it."""

import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from cuda_llm.codec import encode
from cuda_llm.traces.export.winner import Winner
from cuda_llm.traces.verify import verify_command

SCHEMA = 1


def prove(winner: Winner) -> dict[str, Any]:
    """The contents of proof.json."""
    attempt, profile = winner.attempt, winner.verdict.profile
    again = winner.remeasured
    return {
        "schema": SCHEMA,
        "task": winner.task.name,
        "kernel": {
            "id": attempt.id,
            "written_by": attempt.written_by,
            "model": author(winner),
            "idea": attempt.idea,
            "tunables": dict(attempt.tunables),
            "source_sha256": hashlib.sha256(winner.source.encode(errors="replace")).hexdigest(),
        },
        "verdict": winner.verdict.code,
        "differential": winner.verdict.differential,
        "checked": dict(profile.checked) if profile else {},
        "device": profile.device if profile else winner.run.get("device", ""),
        "hardware": profile.hardware if profile else winner.run.get("hardware", ""),
        "times": profile.source if profile else winner.run.get("time_source", ""),
        "speedup": attempt.speedup,
        "sizes": encode(profile.sizes) if profile else [],
        "remeasured": None if again is None else encode(again),
        "run": {"id": winner.run_id, "state": winner.state},
        "verify": verify_command(winner.run),
        "exported_by": f"cuda-llm {version('cuda-llm')}",
    }


def say_proof(winner: Winner) -> Iterator[str]:
    """The same in a few lines for a person."""
    profile, again = winner.verdict.profile, winner.remeasured
    model = author(winner)
    yield f"Written by: {winner.attempt.written_by}" + (f" ({model})" if model else "")
    if profile is not None:
        modelled = ", whose times are modelled, not measured" * (profile.source == "modelled")
        speedup = again.speedup if again and again.speedup else winner.attempt.speedup
        faster = f"{speedup:.2f}x the baseline's speed " if speedup else ""
        yield f"Judged: {faster}on {profile.device}{modelled}"
        checked = ", ".join(f"{count:,} {what}" for what, count in profile.checked.items())
        oracle = "the task's baseline" if winner.verdict.differential else "a float64 reference"
        yield f"Checked against {oracle}" + (f": {checked}" if checked else "")
    yield f"From run {winner.run_id}, candidate {winner.attempt.id}"
    if winner.state != "finished":
        yield f"The run is {winner.state}, not finished: this is its best so far"


def author(winner: Winner) -> str:
    """Name of the model that wrote it, where one did."""
    return str(winner.run.get("model", "")) if winner.attempt.written_by == "model" else ""
