"""Finds NVIDIA's tools, and runs an untrusted program under a tool, confined as far as possible.

Profilers communicate with the profiled program over sockets and inject code into it, so the
system-call filters of the compiler's jail and of the runner would stop profilers. The remaining
confinement: namespaces without a network and without other processes, Landlock in the driver from
before it loads the candidate, no inherited descriptors, and a time limit that no process survives.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.nvcc import Toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.cuda.solve_driver import program_words
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.sandbox.isolation import landlock_abi, other_gpus
from cuda_llm.tools.sandbox.jail import capture, enclosing_program, end_jail

_ELSEWHERE = {
    "ncu": ("/opt/nvidia/nsight-compute/*/ncu",),
    "compute-sanitizer": (),
    "cuobjdump": (),
    "nvdisasm": (),
}
_REMEDIES = {
    "ncu": "install Nsight Compute (package cuda-nsight-compute-*) and put ncu on PATH",
    "compute-sanitizer": "install it (package cuda-sanitizer-*) and put it on PATH",
    "cuobjdump": "install it (package cuda-cuobjdump-*) and put it on PATH",
    "nvdisasm": "install it (package cuda-nvdisasm-*) and put it on PATH",
}

OWN_SPACES = 15
"""Process, network and IPC namespaces and a /proc to match, as `sandbox.h` numbers them."""
OUTPUT_BYTES = 4 << 20
_PASSED_ON = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Environment variables with the driver's folder and the chosen GPU: without them some machines
find no GPU."""
NO_LANDLOCK = "Landlock, with which {} does not work here: files are protected by the user's rights"
_SOURCE = """__global__ void write(float* out)
{
    out[threadIdx.x] = 1.0f;
}

extern "C" void solve(float* out)
{
    write<<<1, 32>>>(out);
}
"""
_known: dict[tuple[Path, str], bool] = {}
"""Results by tool and target, kept while this process lives."""


def find_tool(name: str, toolkit: Toolkit) -> Path | None:
    """Return the path of a tool above, from CUDA_HOME, PATH, the toolkit or its usual place; None
    without the tool.

    Links and wrappers are not resolved: some of the tools look for their parts beside the link.
    """
    for path in _candidates(name, toolkit):
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()
    return None


def missing_note(name: str, for_what: str) -> str:
    """Return a sentence for a person who lacks a tool."""
    return f"no {for_what}: {name} is not installed; {_REMEDIES[name]}"


def _candidates(name: str, toolkit: Toolkit) -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin", name)
    on_path = shutil.which(name)
    if on_path:
        yield Path(on_path)
    yield toolkit.root / "bin" / name
    for pattern in _ELSEWHERE[name]:
        yield from sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)


@dataclass(frozen=True, kw_only=True)
class ToolRun:
    """Exit and output of one command. No process of the command remains where it had a process
    namespace."""

    exit_code: int | None
    """Exit status; None where the command reached its time limit."""
    output: str
    """Standard output and error in the order of writing, bounded."""
    missing: tuple[str, ...] = ()
    """Parts of the confinement that this machine does not grant, each worded for a person."""

    @property
    def timed_out(self) -> bool:
        """True where the command reached its time limit."""
        return self.exit_code is None


async def run_untrusted(
    command: Sequence[str],
    folder: Path,
    *,
    wall_s: float,
    environment: Mapping[str, str] | None = None,
) -> ToolRun:
    """Run `command` in `folder`, which is its HOME and TMPDIR; all its processes have ended after.

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
        await asyncio.shield(end_jail(process))
        with os.fdopen(report_in, "rb") as report:
            reached = report.read(1)
    return ToolRun(
        exit_code=None if timed_out else process.returncode,
        output=(await captured).text,
        missing=_missing(reached),
    )


def _missing(reached: bytes) -> tuple[str, ...]:
    lacking = []
    if not reached or reached[0] != OWN_SPACES:
        lacking.append("namespaces of their own")
    if not landlock_abi():
        lacking.append("Landlock: they could read and write this user's files")
    return tuple(lacking)


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C"}
    return own | passed | dict(more)


async def works_confined(
    tool: Path,
    options: Sequence[str],
    is_right: Callable[[ToolRun], bool],
    toolkit: Toolkit,
    target: str,
    *,
    wall_s: float,
) -> bool:
    """Return whether to confine programs that `tool` watches: always, unless a program runs only
    without confinement.

    `is_right` judges a run of the tool on a kernel without fault. Raises MissingError without nvcc,
    g++ or a writable cache.
    """
    key = (tool, target)
    if key not in _known:
        request = CompileRequest(source=_SOURCE, name="trial.cu", target=target)
        compiled = await compile_candidate(request)
        if not isinstance(compiled, Compiled):
            return True

        async def works(confined: bool) -> bool:
            words = program_words(
                toolkit, compiled.library, ["out:128"], seed=1, warm_ups=0, confined=confined
            )
            with private_folder() as folder:
                run = await run_untrusted([str(tool), *options, *words], folder, wall_s=wall_s)
            return is_right(run)

        _known[key] = await works(confined=True) or not await works(confined=False)
    return _known[key]
