"""Builds our own native programs and libraries with g++ at first use, into the user's cache.

The sources are ours, so g++ runs without a jail.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path

from cuda_llm.errors import InfrastructureError, MissingError
from cuda_llm.log import Log
from cuda_llm.tools.native.cache import require_room
from cuda_llm.tools.native.in_thread import pause
from cuda_llm.tools.native.store import build_once

SOURCES = {".c", ".cpp", ".h", ".map"}
"""Suffixes of the files that decide whether a part is built again."""
BATCHES = 6
"""Most translation units that the sources of a part are compiled as: g++ spends more time on the
standard headers than on a source of a few hundred lines, so sources are compiled together."""
LEAST_BATCH_BYTES = 20_000
"""Bytes of sources below which no further batch is begun: its headers would cost more than it."""
POLL_S = 0.005

_log = Log(__name__)


def find_gxx() -> str:
    """Return the path of g++. Raises MissingError with the command that installs it."""
    path = shutil.which("g++")
    if path is None:
        raise MissingError("g++ is missing", "install it: apt-get install g++")
    return path


@lru_cache
def cpu_model() -> str:
    """Return name and features of this machine's CPU: what `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    facts = {
        line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))
    }
    return "\n".join(sorted(facts)) or os.uname().machine


@lru_cache
def gxx_version(compiler: str) -> str:
    """Return the first line of `g++ --version`."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def content_key(compiler: str, flags: Sequence[str]) -> "hashlib.blake2b":
    """Return a hash of the compiler, its flags and the CPU they depend on, to add contents to."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((compiler, gxx_version(compiler), list(flags))).encode())
    if any(flag.endswith("=native") for flag in flags):
        digest.update(cpu_model().encode())
    return digest


def add_files(digest: "hashlib.blake2b", folders: Iterable[Path], suffixes: Set[str]) -> None:
    """Add names and contents of all files below `folders` with a suffix of `suffixes` to a hash."""
    for folder in folders:
        found = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
        files = sorted(file for file in found if file.endswith(tuple(suffixes)))
        states = ((one.st_ino, one.st_size, one.st_mtime_ns) for one in map(os.stat, files))
        digest.update(_hash(tuple(zip(files, states, strict=True))))


@lru_cache
def _hash(states: tuple[tuple[str, tuple[int, int, int]], ...]) -> bytes:
    """Hash files once for each state of them: every opened kernel asks for the native parts."""
    digest = hashlib.blake2b(digest_size=16)
    for file, _ in states:
        digest.update(os.path.basename(file).encode() + b"\0" + Path(file).read_bytes())
    return digest.digest()


def run_in_parallel(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str]
) -> str | None:
    """Run the commands, as many at once as there are cores.

    Returns None when all succeed, else the stderr of the first failing command. Other commands are
    ended then, as they are when an exception (Ctrl-C) comes in between. Raises Interrupted, as
    `pause` does.
    """
    waiting = list(reversed(commands))
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile() as stderr:
        try:
            while waiting or running:
                while waiting and len(running) < (os.cpu_count() or 1):
                    running.append(
                        subprocess.Popen(
                            waiting.pop(),
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            stderr=stderr,
                            env=environment,
                            process_group=0,
                        )
                    )
                pause(POLL_S)
                for process in [one for one in running if one.poll() is not None]:
                    running.remove(process)
                    if process.returncode != 0:
                        stderr.seek(0)
                        return stderr.read().decode(errors="replace")
        finally:
            for process in running:
                # The compiler proper is a child of the driver we started.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return None


def build(
    name: str, sources: Sequence[Path], flags: Sequence[str], watch: Path | Sequence[Path]
) -> Path:
    """Compile `sources` with g++ into `name` in the cache, once for each content, on all cores.

    Of more than BATCHES C++ sources several are compiled as one translation unit: names that only
    one source uses are unique among all sources of a part.

    `watch` holds the folders whose files (headers included) decide whether to build again. Of
    several processes that call at once, one builds and the others wait. An exception (Ctrl-C too)
    leaves no compiler running. Raises InfrastructureError with the first error, MissingError.
    """
    compiler = find_gxx()
    folders = [watch] if isinstance(watch, Path) else watch
    digest = content_key(compiler, flags)
    digest.update(repr((name, [source.name for source in sources])).encode())
    add_files(digest, folders, SOURCES)

    def make(scratch: Path) -> Path:
        with _log.timed("built", part=name):
            return _compile(compiler, name, sources, flags, scratch)

    return build_once(name, digest.hexdigest(), make)


def _compile(
    compiler: str, name: str, sources: Sequence[Path], flags: Sequence[str], scratch: Path
) -> Path:
    """Compile the sources, on all cores, and link the objects."""
    environment = os.environ | {"LC_ALL": "C", "TMPDIR": str(scratch)}
    compiling = [flag for flag in flags if not flag.startswith(("-Wl,", "-l", "-shared"))]
    # Of a source that a batch includes g++ would think that it is a header.
    compiling.append("-Wno-subobject-linkage")
    objects = {unit: scratch / f"{unit.stem}.o" for unit in _in_batches(sources, scratch)}
    commands = [
        [compiler, *compiling, "-c", str(unit), "-o", str(output)]
        for unit, output in objects.items()
    ]
    output = scratch / name
    link = [compiler, *flags, *map(str, objects.values()), "-o", str(output)]
    for stderr in (run_in_parallel(commands, environment), run_in_parallel([link], environment)):
        if stderr is not None:
            require_room(scratch)
            raise InfrastructureError("native", f"{name} does not build: {_first_error(stderr)}")
    return output


def _in_batches(sources: Sequence[Path], scratch: Path) -> list[Path]:
    """Return at most BATCHES files that include all C++ sources, each batch about as large.

    The batches do not depend on the number of cores: a source that forgets a header builds
    everywhere or nowhere. Few sources, and sources in C, are compiled as they are.
    """
    alone = [source for source in sources if source.suffix == ".c"]
    together = [source for source in sources if source.suffix != ".c"]
    if len(together) <= BATCHES:
        return list(sources)
    size = sum(source.stat().st_size for source in together)
    batches: list[list[Path]] = [[] for _ in range(min(BATCHES, 1 + size // LEAST_BATCH_BYTES))]
    bytes_in = [0] * len(batches)
    for source in sorted(together, key=lambda source: (-source.stat().st_size, source.name)):
        smallest = bytes_in.index(min(bytes_in))
        batches[smallest].append(source)
        bytes_in[smallest] += source.stat().st_size
    units = [scratch / f"batch{number}.cpp" for number in range(len(batches))]
    for unit, batch in zip(units, batches, strict=True):
        unit.write_text("".join(f'#include "{source}"\n' for source in sorted(batch)))
    return [*units, *alone]


def _first_error(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("collect2:")]
    return next((line for line in own if "error" in line), (own or lines or ["no message"])[0])
