"""What a bench finds beside the verdicts of candidates, kept in the run's folder: contests,
inspections and the last check.

Events tell of them in a line each; here they are whole, by the sources that they were made of.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cuda_llm.codec import decode, decode_verdict, encode, encode_verdict
from cuda_llm.graph.runs.parts import RunParts
from cuda_llm.outcomes import InfraFailed, PublishedCheck, Verdict
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Bench, DuelBench, Inspected, PublishedBench
from cuda_llm.tools.judge.duel import Contest, Duel, DuelSize
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.files import broken, read_json, write_json
from cuda_llm.traces.run_folder import UNFIT

FOLDER = "measurements"
"""Of a run's folder."""


@dataclass(frozen=True)
class Measurements:
    """The files of one run; each is written when what it tells has happened."""

    folder: Path
    _held: Counter[str] = field(default_factory=Counter)

    def place_contest(self, contenders: Sequence[Compiled], incumbent: Compiled) -> Path:
        """Return where the next contest of these kernels is kept: they may meet more than once."""
        key = _key(*(one.source for one in (*contenders, incumbent)))
        self._held[key] += 1
        return self.folder / f"contest-{key}-{self._held[key]}.json"

    def place_inspection(self, source: str) -> Path:
        """Return where the inspection of a kernel is kept."""
        return self.folder / f"inspection-{_key(source)}.json"

    def place_last_check(self, source: str) -> Path:
        """Return where the verdict of a kernel's last check is kept."""
        return self.folder / f"last-check-{_key(source)}.json"


def _key(*sources: str) -> str:
    whole = "\0".join(sources).encode(errors="replace")
    return hashlib.sha256(whole).hexdigest()[:16]


def open_run_bench(parts: RunParts) -> Bench:
    """Return what answers from a record, the caller's own bench or the one that ships, kept."""
    recorded = None if parts.replay is None else parts.replay.bench
    return keep_measurements(recorded or parts.overrides.bench or open_bench(parts), parts.run)


def open_bench(parts: RunParts) -> Bench:
    """Open the bench that ships. Candidates' inputs follow from the seed, so that a run repeats."""
    from cuda_llm.tools.judge import device_bench
    from cuda_llm.tools.timing.options import L2, MeasureOptions

    request, options = parts.request, MeasureOptions(l2=L2(parts.request.l2))
    return device_bench.open_bench(parts.task, parts.device, seed=request.seed, options=options)


def keep_measurements(bench: Bench, run: Path) -> Bench:
    """Return the bench that also keeps, below the run's folder, what is not in its events."""
    kind = KeepingDuelBench if isinstance(bench, DuelBench) else KeepingBench
    return kind(bench=bench, kept=Measurements(run / FOLDER))


@dataclass(frozen=True, kw_only=True)
class KeepingBench:
    """Passes everything on; keeps the verdict where it is the last check."""

    bench: Any
    """The bench that works."""
    kept: Measurements
    is_last_check: bool = False

    async def time_baseline(self) -> KernelTimes:
        """See `Bench.time_baseline`."""
        timed: KernelTimes = await self.bench.time_baseline()
        return timed

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """See `Bench.compile`."""
        made: Compiled | Verdict = await self.bench.compile(source, name)
        return made if isinstance(made, Compiled) else self._keep_end(source, made)

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """See `Bench.validate`."""
        found: Validated | Verdict = await self.bench.validate(compiled)
        return found if isinstance(found, Validated) else self._keep_end(compiled.source, found)

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """See `Bench.profile`."""
        found: Verdict = await self.bench.profile(compiled, validated, baseline)
        return self._keep_end(compiled.source, found)

    async def check_as_published(
        self, compiled: Compiled, verdict: Verdict
    ) -> PublishedCheck | None:
        """See `PublishedBench.check_as_published`; None from a bench that cannot."""
        if not isinstance(self.bench, PublishedBench):
            return None
        return await self.bench.check_as_published(compiled, verdict)

    def with_fresh_inputs(self) -> Bench:
        """See `Bench.with_fresh_inputs`: what that bench judges is the last check of a winner."""
        return replace(self, bench=self.bench.with_fresh_inputs(), is_last_check=True)

    def _keep_end(self, source: str, verdict: Verdict) -> Verdict:
        if self.is_last_check:
            write_json(self.kept.place_last_check(source), encode_verdict(verdict))
        return verdict


@dataclass(frozen=True, kw_only=True)
class KeepingDuelBench(KeepingBench):
    """The same of a bench that measures."""

    async def contest(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """See `DuelBench.contest`."""
        found: Contest | InfraFailed = await self.bench.contest(contenders, incumbent)
        write_json(self.kept.place_contest(contenders, incumbent), _encode_contest(found))
        return found

    async def inspect(self, compiled: Compiled) -> Inspected:
        """See `DuelBench.inspect`."""
        found: Inspected = await self.bench.inspect(compiled)
        fault = None if found.fault is None else encode_verdict(found.fault)
        told = {
            "fault": fault,
            "notes": list(found.notes),
            "not_inspected": found.not_inspected,
            "files": sorted(found.artefacts),
        }
        write_json(self.kept.place_inspection(compiled.source), told)
        return found


def read_last_check(path: Path) -> Verdict | None:
    """Return the verdict kept there; None where there is none. Raises UsageError: it is damaged."""
    data = read_json(path)
    try:
        return None if data is None else decode_verdict(data)
    except UNFIT:
        raise broken(path) from None


def read_inspection(path: Path, candidate: Path) -> Inspected | None:
    """Return the findings kept there, with files of the candidate's folder; None without any."""
    data = read_json(path)
    try:
        if data is None:
            return None
        return Inspected(
            fault=None if data["fault"] is None else decode_verdict(data["fault"]),
            notes=tuple(data["notes"]),
            not_inspected=data.get("not_inspected", ""),
            artefacts={name: candidate / name for name in data["files"]},
        )
    except UNFIT:
        raise broken(path) from None


def read_contest(path: Path) -> Contest | InfraFailed | None:
    """Return the contest kept there; None where there is none. Raises UsageError: damaged."""
    data = read_json(path)
    try:
        if data is None:
            return None
        if "duels" not in data:
            return decode(InfraFailed, data)
        duels = tuple(map(_decode_duel, data["duels"]))
        return Contest(duels=duels, fastest=data["fastest"], seconds=data["seconds"])
    except UNFIT:
        raise broken(path) from None


def _encode_contest(found: Contest | InfraFailed) -> dict[str, Any]:
    if isinstance(found, InfraFailed):
        return dict(encode(found))
    duels = [_encode_duel(one) for one in found.duels]
    return {"duels": duels, "fastest": found.fastest, "seconds": encode(found.seconds)}


def _encode_duel(duel: Duel | InfraFailed) -> dict[str, Any]:
    if isinstance(duel, InfraFailed):
        return dict(encode(duel))
    # Whoever held the contest has told of the failed case by then: it is in the verdict.
    whole = encode(replace(duel, faults={}, failed=None))
    return {**whole, "faults": {one: encode_verdict(found) for one, found in duel.faults.items()}}


def _decode_duel(data: Mapping[str, Any]) -> Duel | InfraFailed:
    if "sizes" not in data:
        return decode(InfraFailed, data)
    return Duel(
        sizes=tuple(decode(DuelSize, one) for one in data["sizes"]),
        ratio=float(data["ratio"]),
        low=float(data["low"]),
        high=float(data["high"]),
        outcome=data["outcome"],
        source=data["source"],
        faults={one: decode_verdict(found) for one, found in data["faults"].items()},
    )
