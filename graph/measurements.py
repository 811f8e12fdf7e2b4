"""What a run measured beside verdicts: its baseline, contests, inspections and last checks.

Events report each in one line. Here they are whole, in `measurements/` of the run's folder, under a
hash of the sources they were made of. A node that a kill cut off takes them from there instead of
measuring again; a replay and the benchmark table read them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cuda_llm.codec import decode, decode_verdict, encode, encode_verdict
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tools.device.inspection import KernelCounters
from cuda_llm.tools.judge.bench import Inspected
from cuda_llm.tools.judge.duel import Contest
from cuda_llm.tools.timing.contest import Duel, DuelSize
from cuda_llm.traces.events import BaselineJudged
from cuda_llm.traces.files import broken, read_json, write_json
from cuda_llm.traces.run_folder import UNFIT, RunFolder

BASELINE = "measurements/baseline.json"


def write_baseline(folder: RunFolder, judged: BaselineJudged) -> None:
    """Write the times of the task's own kernel."""
    write_json(folder.path / BASELINE, encode(judged))


def read_baseline(folder: RunFolder) -> BaselineJudged | None:
    """Return the times of the task's own kernel; None before they were taken. Raises UsageError."""
    path = folder.path / BASELINE
    return _read(path, partial(decode, BaselineJudged)) if path.exists() else None


def write_contest(
    folder: RunFolder, round_: int, sources: Sequence[str], found: Contest | InfraFailed
) -> None:
    """Write the contest that these kernels, the incumbent last, held in that round."""
    write_json(_place(folder, "contest", *sources, end=f"-{round_}"), _encode_contest(found))


def read_contest(
    folder: RunFolder, round_: int, sources: Sequence[str]
) -> Contest | InfraFailed | None:
    """Return the contest that these kernels held in that round; None where they held none."""
    path = _place(folder, "contest", *sources, end=f"-{round_}")
    return _read(path, _decode_contest) if path.exists() else None


def read_contests(folder: RunFolder, sources: Sequence[str]) -> list[Contest | InfraFailed]:
    """Return the contests of these kernels, the incumbent last, by round. Raises UsageError."""
    first = _place(folder, "contest", *sources, end="-")
    paths = first.parent.glob(f"{first.stem}*.json")
    return [_read(one, _decode_contest) for one in sorted(paths, key=_round_of)]


def write_inspection(folder: RunFolder, source: str, found: Inspected) -> None:
    """Write the inspection of a kernel; the inspection's files lie in the candidate's folder."""
    about = {
        "fault": None if found.fault is None else encode_verdict(found.fault),
        "notes": list(found.notes),
        "not_inspected": found.not_inspected,
        "files": sorted(found.artefacts),
        "counters": encode(found.counters),
    }
    write_json(_place(folder, "inspection", source), about)


def read_inspection(folder: RunFolder, source: str, candidate: Path) -> Inspected | None:
    """Return the inspection of a kernel, with files of `candidate`; None where the kernel was not
    inspected."""
    path = _place(folder, "inspection", source)
    return _read(path, lambda data: _decode_inspection(data, candidate)) if path.exists() else None


def write_last_check(folder: RunFolder, source: str, verdict: Verdict) -> None:
    """Write the verdict on a winner that was judged again."""
    write_json(_place(folder, "last-check", source), encode_verdict(verdict))


def read_last_check(folder: RunFolder, source: str) -> Verdict | None:
    """Return the verdict on a winner that was judged again; None where the kernel was not judged
    again. Raises UsageError."""
    path = _place(folder, "last-check", source)
    return _read(path, decode_verdict) if path.exists() else None


def _place(folder: RunFolder, kind: str, *sources: str, end: str = "") -> Path:
    key = hashlib.sha256("\0".join(sources).encode(errors="replace")).hexdigest()[:16]
    return folder.path / "measurements" / f"{kind}-{key}{end}.json"


def _round_of(path: Path) -> int:
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _read(path: Path, decoded: Any) -> Any:
    try:
        return decoded(read_json(path))
    except UNFIT:
        raise broken(path) from None


def _decode_inspection(data: Mapping[str, Any], candidate: Path) -> Inspected:
    return Inspected(
        fault=None if data["fault"] is None else decode_verdict(data["fault"]),
        notes=tuple(data["notes"]),
        not_inspected=data["not_inspected"],
        artefacts={name: candidate / name for name in data["files"]},
        counters=tuple(decode(KernelCounters, one) for one in data.get("counters", ())),
    )


def _encode_contest(found: Contest | InfraFailed) -> dict[str, Any]:
    if isinstance(found, InfraFailed):
        return dict(encode(found))
    duels = [_encode_duel(one) for one in found.duels]
    return {"duels": duels, "fastest": found.fastest, "seconds": encode(found.seconds)}


def _encode_duel(duel: Duel | InfraFailed) -> dict[str, Any]:
    if isinstance(duel, InfraFailed):
        return dict(encode(duel))
    # The failed case is part of the verdict by then.
    whole = encode(replace(duel, faults={}, failed=None))
    return {**whole, "faults": {one: encode_verdict(found) for one, found in duel.faults.items()}}


def _decode_contest(data: Mapping[str, Any]) -> Contest | InfraFailed:
    if "duels" not in data:
        return decode(InfraFailed, data)
    duels = tuple(map(_decode_duel, data["duels"]))
    return Contest(duels=duels, fastest=data["fastest"], seconds=data["seconds"])


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
