"""What `run.json` holds: what was asked for, and what it was asked of."""

from typing import Any

from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.parts import Parts
from cuda_llm.graph.runs.task_print import print_task
from cuda_llm.traces.run_folder import RunFolder

NEEDED = ("request", "brought", "task_files", "forked_from")
"""Keys without which no run can go on."""


def describe_run(parts: Parts) -> dict[str, Any]:
    """The run as plain JSON. `request` alone decides what a resumed run does."""
    return {
        "run_id": parts.request.run_id,
        "task": parts.task.name,
        "task_files": print_task(parts.task),
        "device": parts.device.name,
        "device_spec": device_spec(parts),
        "hardware": parts.device.hardware.name,
        "time_source": parts.device.time_source,
        "generator": parts.chosen.name,
        "model": parts.model,
        "strategy": parts.strategy.name,
        "note": parts.chosen.note,
        "brought": sorted(parts.overrides.given),
        "forked_from": None,
        "request": encode(parts.request),
    }


def device_spec(parts: Parts) -> str:
    """What names this very device on the command line, `auto` resolved."""
    from cuda_llm.tools.devices.facts import short_name

    if parts.device.time_source == "modelled":
        return f"emulated:{short_name(parts.device.hardware)}"
    return parts.request.device


def read_request(folder: RunFolder, run: dict[str, Any]) -> RunRequest:
    """What run.json asks for. Raises UsageError where it is not as a run writes it."""
    path = folder.path / "run.json"
    lacking = [name for name in NEEDED if name not in run]
    if lacking:
        raise UsageError(f"{path}: lacks {', '.join(lacking)}; expected what a run writes")
    try:
        return decode(RunRequest, run["request"])
    except ValueError as error:
        raise UsageError(f"{path}: request.{error}") from None
