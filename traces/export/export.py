"""Writes the best kernel of a run as CUDA source, a CuPy package or a PyTorch package."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from cuda_llm.errors import UsageError
from cuda_llm.traces.export.bindings import (
    ARRAYS,
    bind,
    build_line,
    include_folders,
    nvcc_flags,
    one_line,
    python_name,
)
from cuda_llm.traces.export.proof import prove, say_proof
from cuda_llm.traces.export.winner import Winner
from cuda_llm.traces.verify import SOLUTION, verify_command
from cuda_llm.traces.whole_file import write_whole

Format = Literal["cu", "cupy", "torch"]

CARRIED = ("call.py", "build.py", "last_error.cu")


def export(winner: Winner, to: Format, out: Path | None = None, *, force: bool = False) -> Path:
    """Write the export and return its folder. Raises UsageError: it exists, cannot be written."""
    folder = out or Path(f"{python_name(winner.task.name)}_{to}")
    if to != "cu" and not folder.resolve().name.isidentifier():
        raise UsageError(f"{folder}: Python cannot import that name; use letters, digits and _")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; expected a new folder")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise UsageError(f"{folder}: exists already; overwrite it with --force")
    # All of it is made before any of it is written.
    for name, text in list(_contents(winner, to, folder.resolve().name)):
        write_whole(folder / name, text)
    return folder


def _contents(winner: Winner, to: Format, package: str) -> Iterator[tuple[str, str]]:
    task = winner.task
    values = bind(task, winner.source) | {
        "framework": to,
        "package": package,
        "proof": [one_line(line) for line in say_proof(winner)],
        "verify": verify_command(winner.run),
        "build_line": build_line(task),
        "visible": to != "cu",
    }
    yield SOLUTION, winner.source
    yield "solve.h", _render("solve.h.j2", values)
    for place, folder in include_folders(task).items():
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            yield f"{place}/{path.relative_to(folder)}", path.read_text(errors="replace")
    if to == "cu":
        flags = " ".join(shlex.quote(flag) for flag in nvcc_flags(task)).replace("$", "$$")
        yield "Makefile", _render("Makefile.j2", values | {"flags": flags})
        yield "example.cu", _render("example.cu.j2", values)
    else:
        values |= _python_values(values, to) | {"flags": tuple(nvcc_flags(task))}
        yield "__init__.py", _render("package.py.j2", values)
        for name in (*CARRIED, f"on_{to}.py"):
            yield name, files("cuda_llm.traces.export.carried").joinpath(name).read_text()
        yield "py.typed", ""
    yield "README.md", _render("README.md.j2", values)
    # Last: an export without its proof is not whole.
    yield "proof.json", json.dumps(prove(winner), indent=2) + "\n"


def _python_values(values: Mapping[str, Any], to: str) -> dict[str, Any]:
    spoken, array = ARRAYS[to]
    inputs, outputs = values["inputs"], values["outputs"]
    dims = [name for name in values["dims"] if name not in values["inferred"]]
    passed = [one["python"] for one in inputs] + [f"{name}=..." for name in dims]
    names = ", ".join(one["python"] for one in outputs)
    made = f"{names} = " if names else ""
    returns = {0: "None", 1: array}.get(len(outputs), f"tuple[{', '.join([array] * len(outputs))}]")
    return {
        "arrays": spoken,
        "array": array,
        "returns": returns,
        "int_dims": ", ".join(f"{name}: int" for name in values["dims"]),
        "uses_ceil_div": "ceil_div(" in repr((values["arguments"], values["requires"])),
        "signature": f"void solve({', '.join(values['parameters'])})",
        "example": f"{made}{values['function']}({', '.join(passed)})",
    }


def _render(template: str, values: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cuda_llm.traces.export"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["names"] = _names
    return environment.get_template(template).render(values)


def _names(names: Iterable[str]) -> str:
    """A tuple of names as Python writes it, with the quotes of this house."""
    return repr(tuple(names)).replace("'", '"')
