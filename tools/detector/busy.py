"""What else goes on on a GPU: a display, other people's work. Both spoil times taken meanwhile."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_llm.tools.cuda.nvml import NO_NVML, PROGRAM

LIMIT_S = 10.0
BUSY_PERCENT = 5
"""Of the last sample NVML has, a sixth of a second to a second long."""
QUERY = ("-m", PROGRAM)
OURS = "cuda_llm.tools.referee"
"""In the command line of our referees: whoever waits for their lease does not time beside them."""


@dataclass(frozen=True, kw_only=True)
class Company:
    """What NVML says of one GPU; None and empty where it does not say."""

    display: bool = False
    utilisation: int | None = None
    """Percent of the last moment in which something ran."""
    free_bytes: int | None = None
    processes: tuple[tuple[int, int], ...] = ()
    """Process id and bytes held, ours left out."""
    driver: str = ""
    """E.g. `580.159.03`."""

    @property
    def disturbances(self) -> tuple[str, ...]:
        """One line for each thing that a time would suffer from."""
        found = []
        if self.display:
            found.append("it drives a display")
        if self.processes:
            shown = ", ".join(_shown(pid, held) for pid, held in self.processes[:3])
            found.append(f"other processes use it: {shown}")
        if self.utilisation is not None and self.utilisation >= BUSY_PERCENT:
            found.append(f"it is {self.utilisation} % busy")
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Companies:
    """All GPUs NVML knows, or why it could not be asked."""

    by_uuid: Mapping[str, Company]
    unknown: str = ""

    @property
    def driver(self) -> str:
        """The one driver of this machine."""
        return next((one.driver for one in self.by_uuid.values()), "")


def find_company(query: Sequence[str] = QUERY) -> Companies:
    """Ask NVML in a process of its own. Nothing it does is an error: it is only less to know."""
    command = [sys.executable, "-P", *query]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return Companies(by_uuid={}, unknown=f"NVML did not answer within {LIMIT_S:g} s")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        said = lines[-1] if lines and done.returncode == NO_NVML else f"status {done.returncode}"
        return Companies(by_uuid={}, unknown=f"NVML cannot be asked ({said})")
    answer: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return Companies(by_uuid={uuid: _read(told) for uuid, told in answer.items()})


def _read(told: Mapping[str, Any]) -> Company:
    others = tuple((pid, held) for pid, held in told.get("processes", ()) if not _is_ours(pid))
    return Company(**{**told, "processes": others})


def _is_ours(pid: int) -> bool:
    return pid == os.getpid() or OURS in _command_line(pid)


def _command_line(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


def _shown(pid: int, held: int) -> str:
    name = _command_line(pid).partition(" ")[0].rpartition("/")[2]
    return f"{pid}{f' {name}' if name else ''} ({held / 2**30:.1f} GiB)"
