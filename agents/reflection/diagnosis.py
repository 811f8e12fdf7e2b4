"""What is known about one failure or one slow kernel, and the hint that it becomes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.agents.kernel_text.facts import SourceFacts
from cuda_llm.agents.prompting.quote import join_parts, one_line, quote_line
from cuda_llm.agents.situation import Situation
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import CudaError, Replay, ThreadSpot
from cuda_llm.search import Attempt, Hint
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.task import Task
from cuda_llm.verdict_wording import UNPLACED, describe_error, describe_replay


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """A cause with its evidence. The fields mean what they mean in a `Hint`."""

    code: str
    cause: str
    text: str
    evidence: str = ""
    hardware_text: str = ""
    hardware_evidence: str = ""
    avoid: tuple[str, ...] = ()
    rules_out: tuple[str, ...] = ()

    def as_hint(self, round: int, about: str, times: int = 1) -> Hint:
        """Return the hint of a round about an attempt; `about` is empty where it concerns all."""
        return Hint(
            round=round,
            about=about,
            code=self.code,
            cause=self.cause,
            times=times,
            text=self.text,
            evidence=self.evidence,
            hardware_text=self.hardware_text,
            hardware_evidence=self.hardware_evidence,
            avoid=self.avoid,
            rules_out=self.rules_out,
        )


@dataclass(frozen=True, kw_only=True)
class FailureContext:
    """Where a candidate failed: its source, its task, its GPU."""

    source: SourceFacts
    task: Task
    hardware: Hardware
    may_quote: bool = True
    """False for kernels of a playbook: no prompt ever contains their lines."""

    def quote_line(self, spot: SourceSpot | None) -> str:
        """Return ``line 14: `source` ``, the number alone, of another file its name, or nothing."""
        if spot is not None and not spot.text:
            return one_line(str(spot), 80)
        if spot is None or self.may_quote:
            return quote_line(spot)
        return f"line {spot.line}"

    def quote(self, code: str, most: int = 100) -> str:
        """Return ``: `code` ``, or nothing where no line may be quoted."""
        return f": `{one_line(code, most)}`" if self.may_quote else ""

    def launch_of(self, kernel: str | None) -> str:
        """Return the line that launches a kernel, given by name or symbol; empty if none does."""
        for launch in self.source.launches:
            names = {launch.kernel, f"_Z{len(launch.kernel)}{launch.kernel}"}
            if kernel and any(kernel == one or kernel.startswith(one) for one in names):
                how = ", ".join(one for one in (launch.grid, launch.block, launch.shared) if one)
                return f"line {launch.line}{self.quote(f'{launch.kernel}<<<{how}>>>', 120)}"
        return ""

    def shared_array(self, spot: SourceSpot | None) -> str:
        """Return where the shared array is declared that a line names; empty if it names none."""
        for array in self.source.shared_arrays:
            if spot is not None and re.search(rf"\b{re.escape(array.name)}\b", spot.text):
                name = f"`{one_line(array.name + array.extents, 60)}`" if self.may_quote else "it"
                return f"{name} is declared in line {array.line}"
        return ""

    def gpu_report(self, error: CudaError | None, replay: Replay | None, *, placed: bool) -> str:
        """Return what a GPU reported, which kernel ran, and where the place comes from."""
        reported = one_line(describe_error(error), 240) if error is not None else ""
        if placed:
            return reported
        launch = self.launch_of(error.kernel) if error is not None else ""
        how = one_line(describe_replay(replay), 240) if replay is not None else ""
        return join_parts(reported, launch, how or (UNPLACED if error is not None else ""))


def name_thread(thread: ThreadSpot | None) -> str:
    """Return `thread (7, 0, 0) of block (1, 0, 0)`, or nothing."""
    return "" if thread is None else f"thread {thread.thread} of block {thread.block}"


def context_of(situation: Situation, attempt: Attempt) -> FailureContext:
    """Return source, task and GPU of an attempt."""
    return FailureContext(
        source=SourceFacts(situation.archive.source(attempt.id)),
        task=situation.task,
        hardware=situation.hardware,
        may_quote=attempt.written_by != "playbook",
    )


REMEDIES: Mapping[str, tuple[str, str]] = {
    "partial-mask": (
        "partial mask",
        "A warp collective needs every lane of its mask to arrive: call it outside the branch "
        "that some lanes skip, or build the mask with __ballot_sync before the branch.",
    ),
    "phase-incomplete": (
        "phase never completes",
        "A phase of an mbarrier is waited for that cannot complete: let as many threads arrive as "
        "it was made for, expect exactly the bytes that the bulk copies bring, and flip the parity "
        "each time the stage comes round.",
    ),
    "too-many-arrivals": (
        "too many arrivals",
        "More threads arrive at an mbarrier in one phase than it was made for: elect those that "
        "arrive, or make it for as many.",
    ),
    "cluster-incomplete": (
        "cluster barrier",
        "Threads wait for their cluster while others of it never arrive: let all threads of all "
        "its blocks pass the same barriers of the cluster.",
    ),
    "unpaired-cluster-barrier": (
        "cluster barrier",
        "barrier.cluster.arrive and barrier.cluster.wait have to take turns in every thread.",
    ),
    "missing-warps": (
        "incomplete warpgroup",
        "All four warps of a warpgroup, the first one a multiple of four, execute each wgmma: let "
        "them take the same branches, and launch whole warpgroups.",
    ),
    "different-operands": (
        "incomplete warpgroup",
        "All warps of a warpgroup execute the same wgmma instructions with the same descriptors: "
        "compute what goes into them from the warpgroup's number alone.",
    ),
    "unwaited": (
        "missing wgmma wait",
        "A product of a warpgroup owns its registers until wgmma.commit_group and a "
        "wgmma.wait_group that leaves fewer groups open: touch them after that wait.",
    ),
    "unfenced product": (
        "missing wgmma fence",
        "Before the first product, and where registers of one were written since, the warpgroup "
        "executes wgmma.fence.",
    ),
    "unfenced": (
        "missing proxy fence",
        "Bulk copies and wgmma do not see plain stores to shared memory by themselves: every "
        "thread that stores calls fence.proxy.async (cuda::ptx::fence_proxy_async), then all meet, "
        "then one issues the copy.",
    ),
}
"""Cause and remedy of what is wrong with how threads and copies wait for each other."""
_OF_KIND = {
    "partial-mask": "partial-mask",
    "unwaited": "unwaited",
    "unfenced": "unfenced product",
}
"""Which of them, where the kind of a verdict says more than its reason."""


def find_remedy(kind: str, reason: str | None) -> tuple[str, str] | None:
    """Return cause and remedy of a wait that went wrong; None where neither says enough."""
    return REMEDIES.get(_OF_KIND.get(kind, reason or ""))
