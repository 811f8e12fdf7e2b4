"""GPUs that are broken: no process with this cache uses them until the machine is restarted."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from cuda_llm.log import Log
from cuda_llm.tools.native import cache_dir, write_cached

_log = Log(__name__)

QUARANTINE_FOLDER = "quarantine"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """Why a GPU is not used."""

    gpu: str
    """UUID of the GPU."""
    label: str
    reason: str
    since: str
    """Local time at which the quarantine began, as `YYYY-MM-DD HH:MM:SS`."""
    boot: str
    """Boot id of the machine; a quarantine ends at the next boot."""


def put_in_quarantine(gpu: str, label: str, reason: str) -> Quarantine:
    """Keep every process with this cache from using a GPU. Raises MissingError."""
    made = Quarantine(
        gpu=gpu,
        label=label,
        reason=reason,
        since=time.strftime("%Y-%m-%d %H:%M:%S"),
        boot=_boot(),
    )
    write_cached(json.dumps(asdict(made)), f"{gpu}.json", QUARANTINE_FOLDER)
    _log.warning("quarantined", gpu=label, uuid=gpu, reason=reason)
    return made


def find_quarantine(gpu: str) -> Quarantine | None:
    """Return why the GPU must not be used, or None."""
    try:
        found = Quarantine(
            **json.loads((cache_dir() / QUARANTINE_FOLDER / f"{gpu}.json").read_text())
        )
    except (OSError, ValueError, TypeError):
        return None
    return found if found.boot == _boot() else None


def list_quarantined() -> list[Quarantine]:
    """Return all quarantines in force."""
    files = sorted((cache_dir() / QUARANTINE_FOLDER).glob("*.json"))
    return [found for file in files if (found := find_quarantine(file.stem)) is not None]


def lift_quarantine(name: str) -> list[Quarantine]:
    """Let a GPU be used again, by its UUID or its label in quarantine; return those lifted."""
    lifted = [one for one in list_quarantined() if name in (one.gpu, one.label)]
    for one in lifted:
        _log.info("quarantine lifted", gpu=one.label, uuid=one.gpu)
        (cache_dir() / QUARANTINE_FOLDER / f"{one.gpu}.json").unlink(missing_ok=True)
    return lifted


def quarantine_remedy(label: str) -> str:
    """Return the steps by which a person can end the quarantine of a GPU."""
    return f"look at nvidia-smi, restart the machine if need be; `cuda-llm doctor --lift {label}`"


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
