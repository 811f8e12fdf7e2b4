"""Searches with sources and verdicts in memory, and models that answer from a list."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from searches import attempt, situation

from cuda_llm.agents.situation import Situation
from cuda_llm.conversation import Call, CallFailed, Reply
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import Bottleneck, LaunchProfile, Profile
from cuda_llm.search import Attempt
from cuda_llm.source_file import SourceSpot

EXAMPLES = Path(__file__).parents[2] / "examples/kernels"
UNPADDED = (EXAMPLES / "transpose_unpadded.cu").read_text()

BANK_CONFLICTS = Bottleneck(
    code="bank_conflicts",
    share=0.4,
    explanation="shared-memory bank conflicts: 32-way",
    spot=SourceSpot(file="solve.cu", line=24, text="output[i] = tile[threadIdx.x][threadIdx.y];"),
    advice="pad the tile by one column (33 instead of 32), or swizzle its index",
)
DRAM = Bottleneck(
    code="dram_bandwidth",
    share=0.68,
    explanation="33.6 MB to and from DRAM take at least 37.0 us",
    advice="move fewer bytes",
)


@dataclass(frozen=True)
class Kept:
    """Sources and verdicts by attempt."""

    sources: Mapping[str, str] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    def source(self, attempt: str) -> str:
        return self.sources.get(attempt, "")

    def verdict(self, attempt: str) -> Verdict:
        return self.verdicts[attempt]


def judged(
    *kept: tuple[Attempt, str, Verdict], incumbent: str | None = None, **fields: Any
) -> Situation:
    """A search after `kept`: attempts with source and verdict, all of one round."""
    attempts = tuple(one for one, _, _ in kept)
    archive = Kept(
        {one.id: source for one, source, _ in kept}, {one.id: verdict for one, _, verdict in kept}
    )
    given = {"round": max(one.round for one in attempts), "archive": archive, **fields}
    return situation(*attempts, incumbent=incumbent, **given)


def failed(name: str, verdict: Verdict, **fields: Any) -> Attempt:
    """An attempt that ended with `verdict`."""
    return attempt(name, code=verdict.code, **fields)


def passed(*bottlenecks: Bottleneck, **fields: Any) -> Passed:
    """A verdict with a profile of one launch."""
    launch = LaunchProfile(
        kernel="transpose",
        grid=(64, 64, 1),
        block=(32, 8, 1),
        shared_bytes=4096,
        occupancy=1.0,
        time_us=41.4,
        figures={"dram_bytes": 33_554_432.0, "useful_byte_share": 1.0, "worst_bank_ways": 32.0},
    )
    return Passed(
        profile=Profile(
            device="emulated RTX 3090 Ti",
            hardware="NVIDIA GeForce RTX 3090 Ti",
            source="modelled",
            launches=(launch,),
            bottlenecks=bottlenecks,
            **fields,
        )
    )


@dataclass
class ScriptedAsk:
    """Answers each call with the next of its list, and remembers what it was asked."""

    answers: list[Reply | CallFailed]
    calls: list[Call] = field(default_factory=list)

    async def __call__(self, call: Call) -> Reply | CallFailed:
        self.calls.append(call)
        return self.answers.pop(0)
