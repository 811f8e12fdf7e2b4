"""Situations of real runs on the emulated device, one a round: what each round's briefs were
decided on.

A model's replies were a plan of kernels of tests/fixtures/honest, some of them broken on purpose.
"""

import asyncio
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from cuda_llm.agents.researcher.research import hardware_research
from cuda_llm.agents.situation import Situation
from cuda_llm.capabilities import Capabilities
from cuda_llm.codec import decode, decode_verdict
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Hint
from cuda_llm.tasks.loader import load_task

FOLDER = Path(__file__).parents[1] / "fixtures/situations"
RECORDED = tuple(sorted(path.name.removesuffix(".json.xz") for path in FOLDER.glob("*.json.xz")))


@dataclass(frozen=True)
class RecordedArchive:
    """Sources and verdicts of a recorded run."""

    sources: Mapping[str, str]
    verdicts: Mapping[str, Verdict]

    def source(self, attempt: str) -> str:
        return self.sources[attempt]

    def verdict(self, attempt: str) -> Verdict:
        return self.verdicts[attempt]


@cache
def recorded_rounds(name: str) -> tuple[Situation, ...]:
    """What the generators of each round saw, the hardware researched anew."""
    recorded = json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))
    archive = RecordedArchive(
        recorded["sources"],
        {key: decode_verdict(one) for key, one in recorded["verdicts"].items()},
    )
    attempts = {key: decode(Attempt, one) for key, one in recorded["attempts"].items()}
    hints = {key: decode(Hint, one) for key, one in recorded["hints"].items()}
    return tuple(
        _situation(recorded, seen, attempts, hints, archive) for seen in recorded["rounds"]
    )


def _situation(
    recorded: Mapping[str, Any],
    seen: Mapping[str, Any],
    attempts: Mapping[str, Attempt],
    hints: Mapping[str, Hint],
    archive: RecordedArchive,
) -> Situation:
    incumbent = seen.get("incumbent")
    bare = Situation(
        task=load_task(recorded["task"]),
        hardware=find_hardware(recorded["gpu"]),
        device=f"emulated {recorded['gpu']}",
        capabilities=Capabilities(full_isa=False),
        config=RunConfig(candidates=3, rounds=3),
        round=seen["round"],
        attempts=tuple(attempts[one] for one in seen["attempts"]),
        incumbent=attempts[incumbent] if incumbent else None,
        sizes=tuple(seen["baseline"]["sizes"]),
        baseline_us=tuple(seen["baseline"]["times_us"]),
        error_hints=tuple(hints[one] for one in seen.get("error_hints", ())),
        performance_hints=tuple(hints[one] for one in seen.get("performance_hints", ())),
        archive=archive,
    )
    note = asyncio.run(hardware_research(bare)).note
    assert note is not None
    return replace(bare, notes={"hardware_research": note})
