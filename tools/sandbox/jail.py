"""Runs a command in a jail, with limited files and resources, and reports how it ended.

The native programs that confine the command are built at first use, or supplied.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast

from cuda_llm.errors import InfrastructureError
from cuda_llm.log import Log
from cuda_llm.tools.native import build, build_in_thread, built_or_given, cache_dir

NATIVE = Path(__file__).parent / "native"
FLAGS = ("-O2", "-std=c++17", "-Wall", "-Wextra", "-Werror")
CONFINE = ("limits.c", "landlock.c", "namespaces.c", "seccomp.c", "filter.c", "calls.c")

GRACE_S = 10.0
"""Seconds that the jail program may take to clean up after the wall-clock limit."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache",
          "/etc/alternatives", "/dev/zero", "/dev/urandom")  # fmt: skip
"""Files that any program needs to start; they hold no user's data."""

SHELL_SIGNAL = 128
"""A shell exits with this and the signal's number."""

JailEnd = Literal["exited", "signalled", "wall", "processes"]
"""End of a command: by itself, by a signal, at the wall-clock limit, by too many processes."""

_log = Log(__name__)


def sandbox_sources() -> list[Path]:
    """Return the sources of `sandbox.h`, for native programs that confine themselves."""
    return [NATIVE / file for file in (*CONFINE, "violation.c")]


def jail_program() -> Path:
    """Return the path of the `jail` program."""
    return _program("jail", cache_dir())


def probe_program() -> Path:
    """Return the path of the program that tries actions that a jail forbids."""
    return _program("probe", cache_dir())


def enclosing_program() -> Path:
    """Return the path of the program that runs another program in its own namespaces."""
    return _program("enclose", cache_dir())


@lru_cache
def _program(name: str, cache: Path) -> Path:
    own = {
        "jail": ("jail.c", "options.c", "tree.c", *CONFINE),
        "probe": ("probe.c",),
        "enclose": ("enclose.c", "limits.c", "namespaces.c"),
    }[name]
    sources = [NATIVE / file for file in own]
    return built_or_given(name, lambda: build(name, sources, FLAGS, NATIVE))


@dataclass(frozen=True, kw_only=True)
class CapturedStream:
    """The beginning of a stream."""

    text: str
    """Undecodable bytes are replaced."""
    omitted_bytes: int = 0
    """Number of bytes that were left out after the captured beginning."""


async def capture(stream: asyncio.StreamReader | None, limit_bytes: int) -> CapturedStream:
    """Read `stream` to its end and return the first `limit_bytes`: the writer never blocks."""
    beginning = bytearray()
    omitted = 0
    while stream is not None and (chunk := await stream.read(1 << 16)):
        room = limit_bytes - len(beginning)
        beginning += chunk[:room]
        omitted += max(0, len(chunk) - room)
    return CapturedStream(text=beginning.decode(errors="replace"), omitted_bytes=omitted)


@dataclass(frozen=True, kw_only=True)
class ProgramLimit:
    """Limit of processor time of each process that runs a program."""

    name: str
    """Name of the program, of which at most 15 characters count."""
    cpu_s: float
    until: Path | None = None
    """File whose appearance ends the limit; None: the limit always holds."""


@dataclass(frozen=True, kw_only=True)
class Jail:
    """Files and resources of a command. No other part of the file system exists for it, and no
    network."""

    folder: Path
    """The only private folder, which is writable: working directory, HOME and TMPDIR."""
    readable: tuple[Path, ...] = ()
    """Files and folders that the command may read and execute, besides the system's programs and
    libraries."""
    path: tuple[Path, ...] = (Path("/usr/bin"), Path("/bin"))
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to PATH, HOME, TMPDIR and LANG; nothing is inherited."""
    wall_s: float = 60.0
    cpu_s: float = 60.0
    """Processor seconds of each process."""
    programs: tuple[ProgramLimit, ...] = ()
    """Programs with a smaller limit of processor time."""
    memory_bytes: int = 4 << 30
    """Address space per process."""
    file_bytes: int = 64 << 20
    """Bytes of the largest file that the command may write."""
    processes: int = 256
    """Largest number of processes at once."""
    output_bytes: int = 1 << 20
    """Bytes captured of stdout and of stderr; the rest is read and counted."""


@dataclass(frozen=True, kw_only=True)
class JailResult:
    """End of a jailed command, all of whose processes have ended."""

    command: tuple[str, ...]
    end: JailEnd
    exit_code: int | None
    """Exit status; None unless the command exited by itself."""
    signal: int | None
    """Signal that ended the command; None without a signal."""
    stdout: CapturedStream
    stderr: CapturedStream
    wall_s: float
    cpu_s: float
    peak_bytes: int
    """Resident memory of its largest process."""
    landlock_abi: int
    """ABI version of Landlock; 0: this kernel has no Landlock, and the file system was not
    confined."""
    namespaces: bool
    """Whether the command had its own process, network and ipc namespaces."""

    @property
    def timed_out(self) -> bool:
        """Return whether the wall clock ended it."""
        return self.end == "wall"

    @property
    def reported_signal(self) -> int | None:
        """Return the signal that ended the command, or a child as a shell reports it by its exit
        status; else None."""
        code = self.exit_code or 0
        return code - SHELL_SIGNAL if SHELL_SIGNAL < code < SHELL_SIGNAL + 32 else self.signal

    @property
    def ok(self) -> bool:
        """Return whether it exited with 0."""
        return self.exit_code == 0


async def run_jailed(command: Sequence[str], jail: Jail) -> JailResult:
    """Run `command`, and wait until it and every process that it started are gone.

    However this ends (done, limit, cancellation, end of this process), no process is left.
    Raises InfrastructureError when the jail cannot be set up, MissingError without g++.
    """
    await build_in_thread(jail_program)  # `jail_command` finds it built.
    report_in, report_out = os.pipe()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *jail_command(command, jail, report=report_out),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=jail.folder,
                env=environment(jail),
                pass_fds=(report_out,),
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError("jail", f"does not start: {error}") from error
        finally:
            os.close(report_out)
        ended = asyncio.gather(
            capture(process.stdout, jail.output_bytes),
            capture(process.stderr, jail.output_bytes),
            process.wait(),
        )
        try:
            heard, _ = await asyncio.wait([ended], timeout=jail.wall_s + GRACE_S)
        finally:
            await asyncio.shield(end_jail(process))
        # The jail watches the clock itself. On a loop that was busy for as long, one that ended in
        # time is heard only now.
        async with asyncio.timeout(GRACE_S):
            stdout, stderr, _ = await ended
        report = _report(os.read(report_in, 4096).decode())
        if not heard and report.get("end", "stopped") == "stopped":
            raise TimeoutError
    except TimeoutError:
        late = f"did not end after its wall clock ({command[0]})"
        raise InfrastructureError("jail", late) from None
    finally:
        os.close(report_in)
    result = _result(command, report, stdout, stderr)
    _log.debug(
        "jailed command has ended",
        program=Path(command[0]).name,
        end=result.end,
        exit_code=result.exit_code,
        seconds=result.wall_s,
    )
    return result


def jail_command(command: Sequence[str], jail: Jail, *, report: int | None = None) -> list[str]:
    """Return the argument vector that runs `command` in `jail`, for callers with their own pipes.

    Open descriptors without close-on-exec reach the command. End it with SIGTERM, not SIGKILL.
    """
    arguments = [str(jail_program()), "--parent", str(os.getpid())]
    readable = [Path(path) for path in SYSTEM] + list(jail.readable)
    for path in dict.fromkeys(path for path in readable if path.exists()):
        arguments += ["--ro", str(path)]
    for path in (jail.folder, Path("/dev/null")):
        arguments += ["--rw", str(path)]
    numbers = {
        "--cpu-s": max(1, round(jail.cpu_s)),
        "--memory-bytes": jail.memory_bytes,
        "--file-bytes": jail.file_bytes,
        "--processes": jail.processes,
        "--wall-ms": max(1, round(jail.wall_s * 1000)),
    }
    for name, value in numbers.items():
        arguments += [name, str(value)]
    for program in jail.programs:
        until = "" if program.until is None else f":{program.until}"
        limit = f"{program.name}={max(1, round(program.cpu_s))}{until}"
        arguments += ["--program-cpu-s", limit]
    if report is not None:
        arguments += ["--report-fd", str(report)]
    return [*arguments, "--", *command]


def environment(jail: Jail) -> dict[str, str]:
    """Return every environment variable that a command in `jail` sees."""
    return {
        "PATH": os.pathsep.join(map(str, jail.path)),
        "HOME": str(jail.folder),
        "TMPDIR": str(jail.folder),
        "LANG": "C",
        **jail.environment,
    }


async def end_jail(process: asyncio.subprocess.Process) -> None:
    """Terminate a jail, or another program that ends its descendants; return when it is reaped."""
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _report(line: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in line.split())


def _result(
    command: Sequence[str], report: dict[str, str], stdout: CapturedStream, stderr: CapturedStream
) -> JailResult:
    if not report:
        raise InfrastructureError("jail", stderr.text.strip() or "ended without a report")
    if report["end"] == "failed":
        reason = os.strerror(int(report["error"]))
        raise InfrastructureError("jail", f"{report['step']}: {reason} ({command[0]})")
    if report["end"] == "stopped":
        raise InfrastructureError("jail", f"was stopped from outside ({command[0]})")
    end, code = report["end"], int(report["code"])
    return JailResult(
        command=tuple(command),
        end=cast(JailEnd, end),
        exit_code=code if end == "exited" else None,
        signal=code if end == "signalled" else None,
        stdout=stdout,
        stderr=stderr,
        wall_s=int(report["wall_ms"]) / 1e3,
        cpu_s=int(report["cpu_ms"]) / 1e3,
        peak_bytes=int(report["peak_kib"]) << 10,
        landlock_abi=int(report["landlock"]),
        namespaces=report["isolation"] != "0",
    )
