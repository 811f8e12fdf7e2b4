"""What `run.json` holds: what was asked for, and what it was asked of."""

from typing import Any

from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.parts import Parts
from cuda_llm.graph.runs.task_print import print_task
from cuda_llm.tools.device import Device
from cuda_llm.traces.run_folder import RunFolder

NEEDED = ("request", "brought", "task_files", "forked_from")
"""Keys without which no run can go on."""


def describe_run(parts: Parts) -> dict[str, Any]:
    """The run as plain JSON. `request` alone decides what a resumed run does."""
    from cuda_llm.tools.devices.find import spec_of

    return {
        "run_id": parts.request.run_id,
        "task": parts.task.name,
        "task_files": print_task(parts.task),
        "device": parts.device.name,
        "device_spec": spec_of(parts.device, parts.request.device),
        "hardware": parts.device.hardware.name,
        "time_source": parts.device.capabilities.time_source,
        "generator": parts.generator_choice.name,
        "model": parts.model,
        "strategy": parts.strategy.name,
        "note": note_of(parts),
        "brought": sorted(parts.overrides.given),
        "forked_from": None,
        "request": encode(parts.request),
    }


def check_device(run: dict[str, Any], device: Device) -> None:
    """Raises UsageError where times of `device` could not be ranked beside those of the run."""
    before = (run["hardware"], run["time_source"])
    now = (device.hardware.name, device.capabilities.time_source)
    if now != before:
        name, source = run["device"], run["time_source"]
        raise UsageError(
            f"run {run['run_id']} was judged on {name}, times {source}; here is {device.name}, "
            f"times {device.capabilities.time_source}, and the two are never ranked together: "
            "resume it where that device is, or start a new run"
        )


def note_of(parts: Parts) -> str:
    """What the user should know of how the run was set up, who writes and what judges."""
    return "; ".join(filter(None, (parts.generator_choice.note, *parts.device.notes)))


def read_request(folder: RunFolder, run: dict[str, Any]) -> RunRequest:
    """What run.json asks for. Raises UsageError where it is not as a run writes it."""
    path = folder.path / "run.json"
    lacking = [name for name in NEEDED if name not in run]
    if lacking:
        raise UsageError(f"{path}: lacks {', '.join(lacking)}; expected what a run writes")
    try:
        # Runs that were recorded before `l2` was: all of them were cold.
        return decode(RunRequest, {"l2": "cold", **run["request"]})
    except ValueError as error:
        raise UsageError(f"{path}: request.{error}") from None
