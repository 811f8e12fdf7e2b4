"""GPUs that stayed broken: nothing runs on them until somebody has looked."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from cuda_llm.atomic_file import write_atomically
from cuda_llm.log import Log
from cuda_llm.tools.native import cache_dir, cache_folder, unwritable

_log = Log(__name__)

FOLDER = "quarantine"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """Why a GPU is not used."""

    gpu: str
    """Its UUID."""
    label: str
    reason: str
    since: str
    """Local time."""
    boot: str
    """Of this start of the machine; the next one begins anew."""


def put_in_quarantine(gpu: str, label: str, reason: str) -> Quarantine:
    """Keep a GPU from being used, by any process with this cache. Raises MissingError."""
    made = Quarantine(
        gpu=gpu,
        label=label,
        reason=reason,
        since=time.strftime("%Y-%m-%d %H:%M:%S"),
        boot=_boot(),
    )
    path = cache_folder(FOLDER) / f"{gpu}.json"
    try:
        write_atomically(path, json.dumps(asdict(made)))
    except OSError as error:
        raise unwritable(error) from error
    _log.warning("quarantined", gpu=label, uuid=gpu, reason=reason)
    return made


def find_quarantine(gpu: str) -> Quarantine | None:
    """Why the GPU must not be used, or None."""
    try:
        kept = Quarantine(**json.loads((cache_dir() / FOLDER / f"{gpu}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return kept if kept.boot == _boot() else None


def list_quarantined() -> list[Quarantine]:
    """All that are in force."""
    files = sorted((cache_dir() / FOLDER).glob("*.json"))
    return [found for file in files if (found := find_quarantine(file.stem)) is not None]


def lift_quarantine(name: str) -> list[Quarantine]:
    """Let a GPU be used again, by its UUID or as it was called when it was put away; which ones."""
    lifted = [one for one in list_quarantined() if name in (one.gpu, one.label)]
    for one in lifted:
        _log.info("quarantine lifted", gpu=one.label, uuid=one.gpu)
        (cache_dir() / FOLDER / f"{one.gpu}.json").unlink(missing_ok=True)
    return lifted


def quarantine_mend(label: str) -> str:
    """What a person can do."""
    return f"look at nvidia-smi, restart the machine if need be; `cuda-llm doctor --lift {label}`"


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
