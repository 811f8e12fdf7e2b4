"""Our probing kernels, compiled once for each target."""

import os
import tempfile
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.compiler.toolkit import find_toolkit
from cuda_llm.tools.native import cache_dir, cache_folder, content_key, unwritable
from cuda_llm.tools.native.lock import only_one
from cuda_llm.tools.native.together import run_together

SOURCE = Path(__file__).parent / "native" / "probe.cu"


def probe_cubin(target: str) -> Path:
    """Path of `probe.cu` compiled for `target` (`sm_90`). Raises MissingError without nvcc."""
    toolkit = find_toolkit()
    chip = target.removeprefix("sm_")
    options = ["-cubin", "-O3", "-std=c++17", f"-gencode=arch=compute_{chip},code={target}"]
    digest = content_key(str(toolkit.nvcc), [toolkit.version, *options])
    digest.update(SOURCE.read_bytes())
    made = cache_dir() / "native" / digest.hexdigest() / "probe.cubin"
    if made.exists():
        return made
    folder = cache_folder("native", digest.hexdigest())
    with only_one(folder), tempfile.TemporaryDirectory(dir=folder) as scratch:
        if not made.exists():
            output = Path(scratch) / made.name
            command = [str(toolkit.nvcc), *options, str(SOURCE), "-o", str(output)]
            stderr = run_together([command], os.environ | {"LC_ALL": "C", "TMPDIR": scratch})
            if stderr is not None:
                first = next(iter(stderr.strip().splitlines()), "no message")
                raise InfrastructureError("native", f"probe.cu does not build: {first}")
            try:
                output.replace(made)
            except OSError as error:
                raise unwritable(error) from error
    return made
