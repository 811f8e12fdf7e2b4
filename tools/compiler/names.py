"""Names symbols and paths of a compilation as the user knows them."""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.compiler.nvcc import KEEP_DIR, PRELUDE, SOURCE, Toolkit
from cuda_llm.tools.device.candidate import CompileRequest
from cuda_llm.tools.sandbox.jail import end_jail

OUTSIDE = "<outside>"
"""Shown for a file outside the candidate's folder and the libraries."""

SYSTEM_HEADERS = (Path("/usr/include"), Path("/usr/lib"), Path("/usr/local/include"))


@dataclass(frozen=True, kw_only=True)
class PathNames:
    """Turns paths of a compilation into names, and lines into spots."""

    request: CompileRequest
    toolkit: Toolkit
    folder: Path
    """The private folder, which no message may mention."""

    def name(self, file: str) -> str:
        """Return the name a user knows a file by: `mine.cu`, `cub/block/x.cuh`, `<outside>`."""
        path = Path(file)
        if not path.is_absolute() and ".." in path.parts:
            return OUTSIDE
        path = Path(os.path.normpath(self.folder / path))
        if path.is_relative_to(self.folder):
            inner = path.relative_to(self.folder)
            # nvcc's intermediate files stand for the source they came from.
            own = inner == Path(SOURCE) or inner.parts[:1] == (KEEP_DIR,)
            return self.request.name if own else inner.name
        for folder in self.request.include_dirs:
            if path.is_relative_to(folder):
                return f"{folder.name}/{path.relative_to(folder)}"
        if any(path.is_relative_to(known) for known in (self.toolkit.root, *SYSTEM_HEADERS)):
            parts = path.parts
            last = max((i for i, part in enumerate(parts) if part == "include"), default=-2)
            return "/".join(parts[last + 1 :]) if last >= 0 else path.name
        return OUTSIDE

    def spot(self, file: str, line: int) -> SourceSpot | None:
        """Return a line with its text; None for our own prelude."""
        if Path(file).name == PRELUDE:
            return None
        name = self.name(file)
        return SourceSpot(file=name, line=line, text=self._text(file, name, line))

    def definition(self, function: str) -> SourceSpot | None:
        """Return the first line that may define `function` (demangled); None if there is none."""
        word = without_parameters(function).partition("<")[0].rpartition("::")[2]
        for number, line in enumerate(self.request.source.splitlines(), 1):
            if word and re.search(rf"\b{re.escape(word)}\s*\(", line):
                return SourceSpot(file=self.request.name, line=number, text=line.strip()[:200])
        return None

    def clean(self, message: str) -> str:
        """Return `message` without paths of the private folder and of the toolkit."""
        message = message.replace(f"{self.folder}/", "").replace(f"{KEEP_DIR}/", "")
        message = message.replace(f"{self.toolkit.root}/", "")
        message = re.sub(r"\bkernel\.cudafe1\.\w+", self.request.name, message)
        return re.sub(r"(?<![\w./])kernel\.cu\b", self.request.name, message)

    def _is_task_header(self, path: Path) -> bool:
        """Return whether `path`, without links and `..`, is a task's header: `#line` can lie."""
        folders = (folder.resolve() for folder in self.request.include_dirs)
        return path.is_file() and any(path.is_relative_to(folder) for folder in folders)

    def _text(self, file: str, name: str, line: int) -> str:
        if name == self.request.name:
            lines = self.request.source.splitlines()
        elif self._is_task_header(path := (self.folder / file).resolve()):
            lines = path.read_text(errors="replace").splitlines()
        else:
            return ""
        return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""


async def demangle(symbols: Sequence[str]) -> dict[str, str]:
    """Map symbols to names as in the source, parameter lists included; other words to themselves.

    Runs c++filt of binutils; without it only plain functions are demangled.
    """
    filt = shutil.which("c++filt")
    if not symbols:
        return {}
    if filt is None:
        return {symbol: _undecorated(symbol) for symbol in symbols}
    process = await asyncio.create_subprocess_exec(
        filt, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        out, _ = await process.communicate("\n".join(symbols).encode())
    finally:
        # Cancelled or not, it is reaped before the event loop may close.
        await asyncio.shield(end_jail(process))
    return dict(zip(symbols, out.decode().split("\n"), strict=False))


def without_parameters(signature: str) -> str:
    """Return `tile<4>` for `void tile<4>(float*, int)`; `(anonymous namespace)::` stays."""
    depth = 0
    for at in range(len(signature) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(signature[at], 0)
        if signature[at] == "(" and depth == 0 and signature.endswith(")"):
            signature = signature[:at]
            break
    return signature.removeprefix("void ").strip()


def _undecorated(symbol: str) -> str:
    plain = re.match(r"_Z(\d+)", symbol)
    return symbol[plain.end() : plain.end() + int(plain[1])] if plain else symbol
