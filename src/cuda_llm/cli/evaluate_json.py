"""The JSON document of `evaluate` (docs/schemas/evaluate.schema.json)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from cuda_llm.cli.json_text import json_text
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import Profile, SizeTime
from cuda_llm.tasks.task import Task
from cuda_llm.tools.counters.inspect import Inspection
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.judged import Judged

SCHEMA = 1
CERTAINTY = (
    *("spread", "baseline_spread", "speedup_low", "speedup_high", "outcome", "floor"),
    *("time_class", "l2", "blocks", "clocks", "stepwise_us", "peak_bytes", "note"),
)
"""Fields of a SizeTime that say how sure a time is and how it was obtained."""


def document(
    task: Task,
    device: Device,
    judged: Sequence[Judged],
    looked: Mapping[int, Inspection] = MappingProxyType({}),
) -> str:
    """All results as one JSON text. Numbers that are not finite become null."""
    whole = {
        "schema": SCHEMA,
        "task": task.name,
        "device": device.name,
        "hardware": device.hardware.name,
        "time_source": device.capabilities.time_source,
        "notes": list(device.notes),
        "results": [result(one, looked.get(number)) for number, one in enumerate(judged)],
    }
    return json_text(whole)


def result(judged: Judged, found: Inspection | None) -> dict[str, Any]:
    """One candidate."""
    profile = judged.verdict.profile if isinstance(judged.verdict, Passed) else None
    compiled = judged.compiled
    return {
        "file": judged.name,
        "verdict": verdict_fields(judged.verdict),
        "speedup": None if profile is None else profile.speedup,
        "written_by": "human",
        "sizes": [] if profile is None else [size_fields(size) for size in profile.sizes],
        "profile": None if profile is None else profile_fields(profile),
        "resources": [] if compiled is None else [asdict(kernel) for kernel in compiled.kernels],
        "seconds": dict(judged.seconds),
        "isolation": judged.isolation,
        "inspection": None if found is None else inspection_fields(found),
    }


def inspection_fields(found: Inspection) -> dict[str, Any]:
    """What counters, sanitizers and the emulated device found."""
    return {
        "fault": None if found.fault is None else found.fault.code,
        "counters": [asdict(kernel) for kernel in found.counters],
        "notes": list(found.notes),
        "artefacts": {name: str(path) for name, path in found.artefacts.items()},
    }


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """Code and fields; a pass without its profile, which stands beside it."""
    fields = asdict(verdict)
    fields.pop("profile", None)
    return {"code": verdict.code, **fields}


def size_fields(size: SizeTime) -> dict[str, Any]:
    """One timed size."""
    return {
        "dims": dict(size.dims),
        "time_us": size.time_us,
        "baseline_us": size.baseline_us,
        "speedup": size.speedup,
        "source": size.source,
        **{name: getattr(size, name) for name in CERTAINTY},
    }


def profile_fields(profile: Profile) -> dict[str, Any]:
    """Why it is as fast as it is."""
    fields = asdict(profile)
    return {key: fields[key] for key in ("device", "source", "launches", "bottlenecks", "checked")}
