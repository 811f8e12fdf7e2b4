"""What isolation this machine gives, found by trying, and the GPUs that a program meant for one
does not have to see.
"""

import asyncio
import errno
import os
import re
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cuda_llm.tools.sandbox.jail import Jail, JailResult, probe_program, run_jailed


@dataclass(frozen=True, kw_only=True)
class IsolationLevel:
    """What a jailed program was really kept from."""

    landlock_abi: int
    """0: none."""
    files: bool
    """It could not read or write a file outside its view."""
    network: bool
    """It could make no socket."""
    tracing: bool
    """It could not trace, nor make namespaces: the seccomp filter works."""
    signals: bool
    """It could not signal a process outside."""
    own_pids: bool
    """It had a process namespace of its own, so that nothing it starts can outlive it."""
    leftovers: bool
    """A detached grandchild was gone when the jail ended."""

    @property
    def full(self) -> bool:
        """Whether nothing is missing."""
        return all(
            (self.files, self.network, self.tracing, self.signals, self.own_pids, self.leftovers)
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing, each with what it means, fit for a person."""
        meanings = {
            "files": "no Landlock (Linux 5.13 or newer): a compiler can read this user's files",
            "network": "sockets are not denied",
            "tracing": "no seccomp filter",
            "signals": "a jailed process can signal others of this user",
            "own_pids": "no user namespaces: detached processes are hunted down one by one",
            "leftovers": "a detached process outlived its jail",
        }
        return tuple(text for field, text in meanings.items() if not getattr(self, field))


async def find_isolation_level() -> IsolationLevel:
    """Run a probe in a jail and look. Raises InfrastructureError when no jail can be set up."""
    with tempfile.TemporaryDirectory(prefix="cuda-llm-") as base:
        secret, folder = Path(base, "secret"), Path(base, "folder")
        secret.write_text("secret")
        folder.mkdir()
        probe = probe_program()
        jail = Jail(folder=folder, readable=(probe,), wall_s=10)
        seen = _attempts(await run_jailed([str(probe), str(secret), str(os.getpid())], jail))
        detached = await run_jailed(["/bin/sh", "-c", DETACH], jail)
        gone = await _is_gone(folder)
    denied = {name: code != 0 for name, code in seen.items()}
    return IsolationLevel(
        landlock_abi=detached.landlock_abi,
        files=denied["read"] and denied["write"],
        network=denied["socket"],
        tracing=denied["trace"] and denied["namespace"],
        signals=seen["signal"] in {errno.EPERM, errno.ESRCH},
        own_pids=detached.namespaces,
        leftovers=gone,
    )


DETACH = "setsid sh -c 'while :; do echo alive > beat; sleep 0.02; done' & sleep 0.1"
"""A grandchild in a session of its own that keeps writing a file."""


async def _is_gone(folder: Path) -> bool:
    beat = folder / "beat"
    before = beat.stat().st_mtime_ns if beat.exists() else 0
    await asyncio.sleep(0.1)
    return before != 0 and beat.stat().st_mtime_ns == before


def _attempts(result: JailResult) -> dict[str, int]:
    pairs = (line.split("=") for line in result.stdout.text.split())
    return {name: int(code) for name, code in pairs}


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
