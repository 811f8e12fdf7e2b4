"""Our own native parts, built at first use into the user's cache. Sources are ours, so no jail."""

import os
from collections.abc import Sequence
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.log import Log
from cuda_llm.tools.native.gxx import content_key, find_gxx
from cuda_llm.tools.native.store import build_once
from cuda_llm.tools.native.together import run_together

_log = Log(__name__)

SOURCES = {".c", ".cpp", ".h", ".map"}


def build(
    name: str, sources: Sequence[Path], flags: Sequence[str], watch: Path | Sequence[Path]
) -> Path:
    """Compile `sources` with g++ into `name` in the cache, once for each content, on all cores.

    `watch` holds the folders whose files (headers included) decide whether to build again. Of any
    number of processes that ask at once, one builds and the others wait. An exception (Ctrl-C too)
    leaves no compiler running. Raises InfrastructureError with the first error, MissingError.
    """
    compiler = find_gxx()
    digest = content_key(compiler, flags)
    digest.update(repr((name, [source.name for source in sources])).encode())
    for folder in [watch] if isinstance(watch, Path) else watch:
        for file in sorted(folder.rglob("*")):
            if file.suffix in SOURCES:
                digest.update(file.name.encode() + b"\0" + file.read_bytes())

    def make(scratch: Path) -> Path:
        with _log.timed("built", part=name):
            return _compile(compiler, name, sources, flags, scratch)

    return build_once(name, digest.hexdigest(), make)


def _compile(
    compiler: str, name: str, sources: Sequence[Path], flags: Sequence[str], scratch: Path
) -> Path:
    """One object a source, all cores at once, then the link."""
    environment = os.environ | {"LC_ALL": "C", "TMPDIR": str(scratch)}
    compiling = [flag for flag in flags if not flag.startswith(("-Wl,", "-l", "-shared"))]
    objects = {source: scratch / f"{number}.o" for number, source in enumerate(sources)}
    commands = [
        [compiler, *compiling, "-c", str(source), "-o", str(output)]
        for source, output in objects.items()
    ]
    output = scratch / name
    link = [compiler, *flags, *map(str, objects.values()), "-o", str(output)]
    for stderr in (run_together(commands, environment), run_together([link], environment)):
        if stderr is not None:
            raise InfrastructureError("native", f"{name} does not build: {_first(stderr)}")
    return output


def _first(stderr: str) -> str:
    """The first error of a compiler's output."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith("collect2:")]
    return next((line for line in said if "error" in line), (said or lines or ["no message"])[0])
