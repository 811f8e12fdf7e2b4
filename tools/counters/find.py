"""Where the vendor's tools are. None of them is needed: what is missing is a note."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from cuda_llm.tools.compiler.toolkit import Toolkit

_ELSEWHERE = {
    "ncu": ("/opt/nvidia/nsight-compute/*/ncu",),
    "compute-sanitizer": (),
    "cuobjdump": (),
    "nvdisasm": (),
}
_MENDS = {
    "ncu": "install Nsight Compute (package cuda-nsight-compute-*) and put ncu on PATH",
    "compute-sanitizer": "install it (package cuda-sanitizer-*) and put it on PATH",
    "cuobjdump": "install it (package cuda-cuobjdump-*) and put it on PATH",
    "nvdisasm": "install it (package cuda-nvdisasm-*) and put it on PATH",
}


def find_tool(name: str, toolkit: Toolkit) -> Path | None:
    """One of the tools above: of CUDA_HOME, PATH, the toolkit, or its usual place.

    Links and wrappers are kept as they are: some of the tools look for their parts beside them.
    """
    for path in _candidates(name, toolkit):
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()
    return None


def missing(name: str, for_what: str) -> str:
    """What to tell a person who lacks a tool."""
    return f"no {for_what}: {name} is not installed; {_MENDS[name]}"


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
