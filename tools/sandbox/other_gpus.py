"""The device nodes of every GPU but one: what a program meant for that one does not have to see."""

import re
from functools import lru_cache
from pathlib import Path

_NODE = re.compile(r"nvidia\d+")
_FACT = re.compile(r"^(GPU UUID|Device Minor):\s*(\S+)", re.MULTILINE)


@lru_cache
def other_gpus(
    uuid: str, devices: Path = Path("/dev"), told: Path = Path("/proc/driver/nvidia/gpus")
) -> tuple[str, ...]:
    """Their paths; none where the driver does not tell which node is whose.

    A driver that starts asks every GPU it can open, one process after the other: on a machine with
    four H200s that was a quarter of the time (`h200_runner_starts.json`).
    """
    try:
        facts = [dict(_FACT.findall(path.read_text())) for path in told.glob("*/information")]
    except OSError:
        return ()
    minors = {one.get("GPU UUID"): one.get("Device Minor") for one in facts}
    own = devices / f"nvidia{minors.get(uuid)}"
    nodes = [path for path in devices.glob("nvidia*") if _NODE.fullmatch(path.name)]
    return tuple(sorted(str(path) for path in nodes if path != own)) if own in nodes else ()
