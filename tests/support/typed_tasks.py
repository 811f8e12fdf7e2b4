"""Small tasks over elements of a given type, and what a kernel computes on the emulated device."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.validator.validate import Validated, validate


@dataclass(frozen=True)
class Buffer:
    """A buffer of `solve`; dims are `n`, or `rows` and `cols`."""

    name: str
    dtype: str
    shape: tuple[str, ...] = ("n",)
    distributions: tuple[str, ...] = ()
    """Empty for an output."""
    more: str = ""
    """Further lines of its table."""


SIZES = {
    ("n",): (
        "bench = [{ n = 1024 }]\nedge = [{ n = 1 }, { n = 33 }, { n = 509 }]\n"
        "emulated = [{ n = 1024 }]\n[sizes.hidden]\ncount = 1\ndims.n = { min = 1, max = 500 }\n"
    ),
    ("rows", "cols"): (
        "bench = [{ rows = 3, cols = 515 }]\n"
        "edge = [{ rows = 1, cols = 1 }, { rows = 3, cols = 67 }]\n"
        "emulated = [{ rows = 3, cols = 515 }]\n[sizes.hidden]\ncount = 1\n"
        "dims.rows = { min = 1, max = 4 }\ndims.cols = { min = 1, max = 700 }\n"
    ),
}


def typed_task(
    parent: Path,
    buffers: Sequence[Buffer],
    reference: str,
    baseline: str,
    *,
    tolerance: str,
    dims: tuple[str, ...] = ("n",),
    head: str = "",
    sizes: str = "",
) -> Task:
    """Write and load a task whose `solve` takes the buffers, then each dim as an int."""
    folder = parent / "typed"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['title = "Typed elements"', head, "[dims]", *(f'{dim} = "extent"' for dim in dims)]
    for one in buffers:
        role = "in" if one.distributions else "out"
        shape = ", ".join(f'"{extent}"' for extent in one.shape)
        lines += ["[[arguments]]", f'name = "{one.name}"', f'role = "{role}"']
        lines += [f'dtype = "{one.dtype}"', f"shape = [{shape}]", one.more]
        if one.distributions:
            lines.append(f"distributions = {[*one.distributions]}".replace("'", '"'))
    for dim in dims:
        lines += ["[[arguments]]", f'name = "{dim}"', 'role = "scalar"', 'dtype = "int32"']
    lines += ["[sizes]", sizes or SIZES[dims], "[tolerance]", tolerance]
    lines += ["[roofline]", f'flops = "{" * ".join(dims)}"', f'bytes = "{" * ".join(dims)}"']
    (folder / "task.toml").write_text("\n".join(lines) + "\n")
    (folder / "description.md").write_text("Compute what reference.py computes.\n")
    (folder / "reference.py").write_text(reference)
    (folder / "baseline.cu").write_text(baseline)
    return load_task(folder)


def validated(task: Task, source: str, device: str = "RTX 3090 Ti") -> Validated | Verdict:
    """Compile a source with nvcc and compare its results at every size of the task."""

    async def run() -> Validated | Verdict:
        chosen = open_emulated(device)
        built = await compile_source(task, chosen, source, "kernel.cu")
        if not isinstance(built, Compiled):
            return built
        async with chosen.open(built) as session:
            assert isinstance(session, Session), session
            return await validate(task, session, nonce=bytes(16))

    return asyncio.run(run())
