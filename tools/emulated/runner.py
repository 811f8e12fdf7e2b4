"""The runner of the emulated device: its program, and how both of its parts are started."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.native import build
from cuda_llm.tools.runner.child import RunnerSocket, spawn
from cuda_llm.tools.runner.runner import Runner

_TOOLS = Path(__file__).parent.parent
_NATIVE = _TOOLS / "runner" / "native"
_SANDBOX = _TOOLS / "sandbox" / "native"
_SANDBOX_PARTS = ("calls", "filter", "landlock", "limits", "seccomp", "violation")
_RUNTIME = _TOOLS / "emulator" / "runtime"


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """What the two parts of a runner of the emulated device load, in this order each."""

    emulator: Path
    kernels: Path
    cudart: Path
    candidate: Path


def start_emulated_runner(program: Path, libraries: Libraries, arena: int, report: int) -> Runner:
    """Start both parts of a runner, each with its own group and empty folder, and a link between.

    The memory files and our socket go to the device part alone. No environment and no other
    descriptor of ours goes along. Raises InfrastructureError where one cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link, far_link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    with theirs, link, far_link:
        device = (theirs.fileno(), link.fileno(), parent, arena, report)
        host = (far_link.fileno(), parent)
        try:
            first = spawn(
                [program, "device", *map(str, device), libraries.emulator, libraries.kernels],
                (theirs.fileno(), link.fileno(), arena, report),
            )
            try:
                second = spawn(
                    [program, "host", *map(str, host), libraries.cudart, libraries.candidate],
                    (far_link.fileno(),),
                )
            except BaseException:
                first.process.kill()
                first.process.wait()
                raise
        except OSError as error:
            ours.close()
            raise InfrastructureError("runner", f"cannot be started: {error}") from error
    return Runner(first, [second], RunnerSocket(ours), alarm=True)


def runner_program() -> Path:
    """Path of the runner. Raises MissingError without g++."""
    sandbox = [_SANDBOX / f"{part}.c" for part in _SANDBOX_PARTS]
    sources = [*sorted(_NATIVE.glob("*.cpp")), *sandbox]
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{folder}" for folder in (_NATIVE, _RUNTIME, _SANDBOX)]
    # What candidates need is in the process before it is confined: they open no file but their own.
    libraries = ["-Wl,--no-as-needed", "-lstdc++", "-lm", "-lgcc_s", "-ldl", "-Wl,-z,now"]
    watch = [_NATIVE, _SANDBOX, _RUNTIME / "emu"]
    return build("runner", sources, [*flags, *includes, *libraries], watch)
