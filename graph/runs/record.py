"""The content of `run.json`: the configuration, the parts of the run, and digests of the task's
files."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda_llm.agents.playbook.source import read_playbook
from cuda_llm.codec import encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.parts import RunParts
from cuda_llm.run_config import RunConfig, read_config
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.traces.run_folder import RunFolder

DECIDING_FILES = (
    "task.toml",
    "description.md",
    "reference.py",
    "inputs.py",
    "baseline.cu",
    "baseline.py",
    "host.cu",
    "playbook.cu",
)
REQUIRED_KEYS = (
    "request",
    "brought",
    "task_files",
    "forked_from",
    "device_spec",
    "device_details",
)
"""Keys without which no run can go on."""
_PUBLISHED = re.compile(rb"\n\[published\]\n.*?(?=\n\[|\Z)", re.DOTALL)
"""Pattern of the table `published` of `task.toml`, up to the next table."""


def task_digests(task: Task) -> dict[str, str]:
    """Return the SHA-256 of each file of the task that decides a run, by file name.

    What others have published of the task decides nothing.
    """
    found = (task.folder / name for name in DECIDING_FILES)
    return {
        file.name: hashlib.sha256(_PUBLISHED.sub(b"", _content(file))).hexdigest()
        for file in found
        if file.is_file()
    }


def _content(file: Path) -> bytes:
    """Return the bytes of a file, with the shared headers that a playbook includes."""
    return read_playbook(file).encode() if file.name == "playbook.cu" else file.read_bytes()


def changed_files(task: Task, before: Mapping[str, str]) -> list[str]:
    """Return the names of deciding files that are not as these digests say."""
    now = task_digests(task)
    return sorted(name for name in {*now, *before} if now.get(name) != before.get(name))


def check_task_unchanged(task: Task, before: Mapping[str, str]) -> None:
    """Compare digests. Raises UsageError naming the files that changed since the run began."""
    if changed := changed_files(task, before):
        files = ", ".join(changed)
        msg = f"task {task.name} has changed since the run began ({files}); start a new run"
        raise UsageError(msg)


def describe_run(parts: RunParts) -> dict[str, Any]:
    """Describe the run as plain JSON. `request` alone decides what a resumed run does."""
    from cuda_llm.tools.open_device import spec_of

    is_recorded = parts.replay is not None and parts.replay.device is not None
    return {
        "run_id": parts.run_id,
        "task": parts.task.name,
        "task_files": task_digests(parts.task),
        "device": parts.device.name,
        "device_spec": spec_of(parts.device, "auto" if is_recorded else parts.config.device),
        "device_details": device_details(parts.device),
        "hardware": parts.device.hardware.name,
        "time_source": parts.device.capabilities.time_source,
        "generator": parts.generator_choice.name,
        "model": parts.model,
        "strategy": parts.strategy.name,
        "note": parts.note,
        "brought": sorted(parts.brought.given),
        "forked_from": None,
        "request": parts.config.model_dump(mode="json"),
    }


def device_details(device: Device) -> dict[str, Any]:
    """Describe a device, so that a replay can stand in for the device."""
    major, minor = device.hardware.compute_capability
    return {
        "hardware": {**encode(device.hardware), "compute_capability": f"{major}.{minor}"},
        "target": device.hardware.target,
        "capabilities": encode(device.capabilities),
        "notes": list(device.notes),
    }


def check_device(run: dict[str, Any], device: Device) -> None:
    """Raise UsageError where times of `device` could not be ranked beside those of the run."""
    before = (run["hardware"], run["time_source"])
    now = (device.hardware.name, device.capabilities.time_source)
    if now != before:
        name, source = run["device"], run["time_source"]
        raise UsageError(
            f"run {run['run_id']} was judged on {name}, times {source}; here is {device.name}, "
            f"times {device.capabilities.time_source}, and the two are never ranked together: "
            "resume it where that device is, or start a new run"
        )


def recorded_config(folder: RunFolder, run: dict[str, Any]) -> RunConfig:
    """Read the configuration in run.json. Raises UsageError for a configuration that no run
    writes."""
    path = folder.path / "run.json"
    lacking = [name for name in REQUIRED_KEYS if name not in run]
    if lacking:
        raise UsageError(f"{path}: lacks {', '.join(lacking)}; expected what a run writes")
    try:
        return read_config(run["request"], RunConfig)
    except UsageError as error:
        raise UsageError(f"{path}: request: {error}") from None
