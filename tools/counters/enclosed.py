"""A tool and the untrusted program it watches, with a deadline, confined as far as the tool works.

Profilers speak to the program they watch over sockets and inject code into it, so the system call
filters of the compiler's jail and of the runner would stop them. What is left: namespaces without a
network or any process of ours, Landlock in the driver from before it loads the candidate, nothing
inherited, and an end by the clock that nothing survives.
"""

import asyncio
import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.sandbox.jail import end_enclosed
from cuda_llm.tools.sandbox.other_gpus import other_gpus
from cuda_llm.tools.sandbox.outlet import capture
from cuda_llm.tools.sandbox.programs import enclosing_program

OWN_SPACES = 15
"""Process, network and IPC namespaces and a /proc to match, as `sandbox.h` numbers them."""
OUTPUT_BYTES = 4 << 20
_LANDLOCK_CREATE_RULESET = 444

_PASSED_ON = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Where the driver lies, and which GPU is meant: without them some machines have none."""


@dataclass(frozen=True, kw_only=True)
class ToolRun:
    """What became of one command. It has no process left where it had a process namespace."""

    exit_code: int | None
    """None where it was ended by the clock."""
    output: str
    """Both streams, in the order of writing, bounded."""
    missing: tuple[str, ...] = ()
    """What of the confinement this machine does not grant, each fit for a person."""

    @property
    def timed_out(self) -> bool:
        """Whether the clock ended it."""
        return self.exit_code is None


async def run_enclosed(
    command: Sequence[str],
    folder: Path,
    *,
    wall_s: float,
    environment: Mapping[str, str] | None = None,
) -> ToolRun:
    """Run `command` in `folder`, which is its HOME and TMPDIR; when this ends, so has it.

    Raises InfrastructureError where it cannot be started, MissingError without g++.
    """
    report_in, report_out = os.pipe()
    hidden = ":".join(other_gpus(os.environ.get("CUDA_VISIBLE_DEVICES", "")))
    words = [str(os.getpid()), str(OWN_SPACES), str(report_out), hidden, *command]
    try:
        process = await asyncio.create_subprocess_exec(
            str(enclosing_program()),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,
            env=_environment(folder, environment or {}),
            pass_fds=(report_out,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(report_in)
        raise InfrastructureError("counters", f"{command[0]} does not start: {error}") from error
    finally:
        os.close(report_out)
    captured = asyncio.create_task(capture(process.stdout, OUTPUT_BYTES))
    timed_out = False
    try:
        async with asyncio.timeout(wall_s):
            await asyncio.shield(captured)
            await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        await asyncio.shield(end_enclosed(process))
        with os.fdopen(report_in, "rb") as report:
            reached = report.read(1)
    return ToolRun(
        exit_code=None if timed_out else process.returncode,
        output=(await captured).text,
        missing=_missing(reached),
    )


def has_landlock() -> bool:
    """Whether this kernel can keep files from a process."""
    return bool(ctypes.CDLL(None).syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1) > 0)


def _missing(reached: bytes) -> tuple[str, ...]:
    lacking = []
    if not reached or reached[0] != OWN_SPACES:
        lacking.append("namespaces of their own")
    if not has_landlock():
        lacking.append("Landlock: they could read and write this user's files")
    return tuple(lacking)


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C"}
    return own | passed | dict(more)
