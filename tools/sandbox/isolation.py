"""Finds the isolation that this machine offers, and the GPUs to hide from a program that needs one
GPU."""

import asyncio
import errno
import os
import re
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cuda_llm.tools.sandbox.jail import Jail, JailResult, probe_program, run_jailed

DETACH = "setsid sh -c 'while :; do echo alive > beat; sleep 0.02; done' & sleep 0.1"
"""A grandchild in a session of its own that keeps writing a file."""

_NODE = re.compile(r"nvidia\d+")
_DRIVER_FACT = re.compile(r"^(GPU UUID|Device Minor):\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class IsolationLevel:
    """Protections that held when a jailed program tried to break them."""

    landlock_abi: int
    """ABI version of Landlock; 0 without Landlock."""
    files: bool
    """The jailed program could not read or write a file outside its view."""
    network: bool
    """The jailed program could open no socket."""
    tracing: bool
    """The jailed program could neither trace nor make namespaces: the seccomp filter works."""
    signals: bool
    """The jailed program could not signal a process outside."""
    own_pids: bool
    """The jailed program had its own process namespace, so that no process that it starts outlives
    it."""
    leftovers: bool
    """A detached grandchild had ended when the jail ended."""

    @property
    def full(self) -> bool:
        """Return whether no isolation is missing."""
        return all(
            (self.files, self.network, self.tracing, self.signals, self.own_pids, self.leftovers)
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the missing protections, each as a line with its consequence."""
        meanings = {
            "files": "no Landlock (Linux 5.13 or newer): a compiler can read this user's files",
            "network": "sockets are not denied",
            "tracing": "no seccomp filter",
            "signals": "a jailed process can signal others of this user",
            "own_pids": "no user namespaces: detached processes are ended one by one",
            "leftovers": "a detached process outlived its jail",
        }
        return tuple(text for field, text in meanings.items() if not getattr(self, field))


async def find_isolation_level() -> IsolationLevel:
    """Run a program in a jail that tries forbidden actions. Raises InfrastructureError when no jail
    can be set up."""
    with tempfile.TemporaryDirectory(prefix="cuda-llm-") as base:
        secret, folder = Path(base, "secret"), Path(base, "folder")
        secret.write_text("secret")
        folder.mkdir()
        probe = probe_program()
        jail = Jail(folder=folder, readable=(probe,), wall_s=10)
        errors = _read_errors(await run_jailed([str(probe), str(secret), str(os.getpid())], jail))
        detached = await run_jailed(["/bin/sh", "-c", DETACH], jail)
        gone = await _is_gone(folder)
    denied = {name: code != 0 for name, code in errors.items()}
    return IsolationLevel(
        landlock_abi=detached.landlock_abi,
        files=denied["read"] and denied["write"],
        network=denied["socket"],
        tracing=denied["trace"] and denied["namespace"],
        signals=errors["signal"] in {errno.EPERM, errno.ESRCH},
        own_pids=detached.namespaces,
        leftovers=gone,
    )


async def _is_gone(folder: Path) -> bool:
    beat = folder / "beat"
    before = beat.stat().st_mtime_ns if beat.exists() else 0
    await asyncio.sleep(0.1)
    return before != 0 and beat.stat().st_mtime_ns == before


def _read_errors(result: JailResult) -> dict[str, int]:
    """Read the error number of each attempt of the probe; 0 where it succeeded."""
    pairs = (line.split("=") for line in result.stdout.text.split())
    return {name: int(code) for name, code in pairs}


def landlock_abi() -> int:
    """Return the version of Landlock in this kernel; 0: none."""
    import ctypes

    create_ruleset, version_query = 444, 1
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(create_ruleset, None, ctypes.c_size_t(0), version_query)
    return max(0, int(abi))


@lru_cache
def other_gpus(
    uuid: str, devices: Path = Path("/dev"), driver: Path = Path("/proc/driver/nvidia/gpus")
) -> tuple[str, ...]:
    """Return the device nodes of all GPUs but the GPU `uuid`; empty where the driver does not map
    them.

    A starting driver initialises every GPU that it can open, one after another: on a machine with
    four H200s that took a quarter of the start (docs/evidence.md).
    """
    try:
        files = [path.read_text() for path in driver.glob("*/information")]
    except OSError:
        return ()
    facts = [dict(_DRIVER_FACT.findall(file)) for file in files]
    minors = {one.get("GPU UUID"): one.get("Device Minor") for one in facts}
    own = devices / f"nvidia{minors.get(uuid)}"
    nodes = [path for path in devices.glob("nvidia*") if _NODE.fullmatch(path.name)]
    return tuple(sorted(str(path) for path in nodes if path != own)) if own in nodes else ()
