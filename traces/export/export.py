"""Writes the best kernel of a run as CUDA source, a CuPy package or a PyTorch package."""

import ast
import hashlib
import json
import keyword
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from cuda_llm.errors import UsageError
from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import CTYPES, ArgumentRole, Task, TaskArgument
from cuda_llm.traces.best import SOLUTION
from cuda_llm.traces.export.carried.call import CTYPES as PASSED_BY_VALUE
from cuda_llm.traces.export.winner import Winner, proof_text, prove, task_files, verify_here
from cuda_llm.traces.files import write_file

ExportFormat = Literal["cu", "cupy", "torch"]

CARRIED = ("call.py", "build.py", "last_error.cu")
"""Files that are copied into every exported package as they are. They import neither this project
nor each other; what is generated beside them joins them."""
ARRAYS = {"cupy": ("CuPy", "cupy.ndarray"), "torch": ("PyTorch", "torch.Tensor")}
"""Name for a person and type, by framework."""
EXAMPLE = "example_data"
"""Folder of an export that holds the case of its example."""
INCLUDED = "include"
"""Folder of an export that holds copies of the task's own include folders."""

LONGEST_LIST = 56
"""Characters of a list that stands on the line of what it belongs to."""


@dataclass(frozen=True, kw_only=True)
class ExampleData:
    """One case that the plain export's example calls `solve` on, as plain bytes."""

    dims: Mapping[str, int]
    distribution: str
    """What the inputs are drawn from, in words."""
    inputs: Mapping[str, bytes]
    expected: Mapping[str, bytes]
    """By output: float64, or the output's type where it must be equal."""
    allowed: Mapping[str, bytes]
    """By output that need not be equal: the largest error of each element, float64."""
    unchecked: str
    """Why nothing is expected; empty where something is."""

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files that the example reads."""
        kinds = {"in": self.inputs, "expected": self.expected, "allowed": self.allowed}
        for ending, contents in kinds.items():
            for name, content in contents.items():
                yield f"{EXAMPLE}/{name}.{ending}", content


def bind(
    task: Task, source: str, dims: Mapping[str, int] | None = None, to: ExportFormat = "torch"
) -> dict[str, Any]:
    """Return the values of all templates; the example is called at `dims`.

    Types are named as arrays of `to` have them. Raises UsageError for a task that cannot be
    exported.
    """
    arguments = [_spell(argument, to) for argument in task.arguments]
    buffers = [one for one in arguments if one["role"] != "scalar"]
    inputs = [one for one in buffers if one["role"] != "out"]
    shown = dims or task.sizes.emulated[-1]
    return {
        "task": task.name,
        "title": one_line(task.title).rstrip(".") + ".",
        "function": python_name(task.name),
        "sha": hashlib.sha256(source.encode(errors="replace")).hexdigest()[:8],
        "meanings": {name: one_line(meaning) for name, meaning in task.dims.items()},
        "dims": list(task.dims),
        "inferred": {extent for one in inputs for extent in one["extents"]},
        "requires": _python(task.requires) if task.requires else "",
        "arguments": arguments,
        "buffers": [one | _example(one, task, shown) for one in buffers],
        "scalars": [one for one in arguments if one["role"] == "scalar"],
        "inputs": inputs,
        "outputs": [one for one in buffers if one["role"] == "out"],
        "short_floats": sorted({one["element"] for one in buffers if one["is_short"]}),
        "headers": sorted({one.declared.header for one in task.arguments} - {""}),
        "parameters": [one["parameter"] for one in arguments],
        "call": [_value(argument, shown) for argument in task.arguments],
        "dims_text": ", ".join(f"{name} = {extent}" for name, extent in shown.items()),
    }


def nvcc_flags(task: Task, flags: Sequence[str] = ()) -> list[str]:
    """Return the flags of the task's kernels, beside nvcc's own defaults."""
    capabilities = task.capabilities
    return [
        *(f"-D{name}={value}" for name, value in capabilities.defines.items()),
        *(f"-I{INCLUDED}/{index}" for index, _ in enumerate(capabilities.include_dirs)),
        *capabilities.flags,
        *flags,
    ]


def python_name(name: str) -> str:
    """Return a name that Python accepts."""
    clean = "".join(c if c.isalnum() else "_" for c in name)
    if not clean.isidentifier() or keyword.iskeyword(clean):
        clean = f"{clean}_" if keyword.iskeyword(clean) else f"_{clean}"
    return clean


def build_line(task: Task) -> str:
    """Return the nvcc call of the plain export."""
    flags = " ".join(shlex.quote(flag) for flag in nvcc_flags(task))
    parts = ("nvcc -O3 -arch=native -include=solve.h -I.", flags)
    return " ".join(filter(None, (*parts, "-shared -Xcompiler=-fPIC -o libsolve.so solve.cu")))


def include_folders(task: Task) -> Mapping[str, Path]:
    """Return the task's include folders, by their place in the export."""
    return {
        f"{INCLUDED}/{index}": path for index, path in enumerate(task.capabilities.include_dirs)
    }


def _spell(argument: TaskArgument, to: ExportFormat) -> dict[str, Any]:
    if argument.role == ArgumentRole.STREAM:
        return _spell_stream(argument)
    ctype, element = argument.declared.ctype, element_type(argument.dtype)
    extents = [_python(text) for text in argument.shape]
    scalar = argument.role == ArgumentRole.SCALAR
    if scalar and argument.dtype not in PASSED_BY_VALUE:
        raise UsageError(f"{argument.name}: a {argument.dtype} by value cannot be exported")
    star = "" if scalar else "*"
    const = "const " if argument.role == ArgumentRole.IN else ""
    place = "".join(f"[{extent}]" for extent in extents)
    contracts = {
        ArgumentRole.IN: f"{place} read only",
        ArgumentRole.OUT: f"{place} written, every element",
        ArgumentRole.INOUT: f"{place} read and overwritten",
        ArgumentRole.WORKSPACE: f"{place} for work between, with any contents",
        ArgumentRole.SCALAR: f"= {argument.value}",
    }
    roles = {ArgumentRole.WORKSPACE: ArgumentRole.OUT}
    role = roles.get(argument.role, argument.role)
    contract = contracts[argument.role]
    if argument.initial:
        role, contract = ArgumentRole.INOUT, f"{place} filled with {argument.initial}, overwritten"
    return {
        "name": argument.name,
        "python": python_name(argument.name),
        "role": role.value,
        "dtype": element.name if to == "torch" else element.stored_as,
        "holds": "" if element.is_native or to == "torch" else f" with the bits of {element.name}",
        "is_short": element.is_short,
        "ctype": ctype,
        "element": element.ctypes[0],
        "extents": extents,
        "tuple": _in_lines("(", extents, ")" if len(extents) != 1 else ",)", 8),
        "names": f"({', '.join(map(_quote, extents))}{',' * (len(extents) == 1)})",
        "value": _python(argument.value) if scalar else "",
        "parameter": f"{const}{ctype}{star} {argument.name}",
        "contract": contract,
    }


def _spell_stream(argument: TaskArgument) -> dict[str, Any]:
    """Return what templates say of a stream: a number that is always that of the default stream."""
    return {
        "name": argument.name,
        "python": python_name(argument.name),
        "role": ArgumentRole.SCALAR.value,
        "dtype": "int64",
        "holds": "",
        "is_short": False,
        "ctype": "cudaStream_t",
        "extents": [],
        "tuple": "()",
        "names": "()",
        "value": "0",
        "parameter": f"cudaStream_t {argument.name}",
        "contract": "= 0, the default stream",
    }


def _example(one: Mapping[str, Any], task: Task, dims: Mapping[str, int]) -> dict[str, Any]:
    argument = next(argument for argument in task.arguments if argument.name == one["name"])
    count = 1
    for extent in shape_of(argument, dims):
        count *= extent
    element = element_type(argument.dtype)
    if element.is_complex:
        count *= 2  # The example reads, writes and compares the parts.
    # std::vector<bool> is no array.
    host = "unsigned char" if argument.dtype == "bool" else CTYPES[element.part]
    return {"count": f"{count}ull", "host": host}


def _value(argument: TaskArgument, dims: Mapping[str, int]) -> str:
    if argument.role == ArgumentRole.STREAM:
        return "0"
    if argument.role != ArgumentRole.SCALAR:
        return argument.name
    return repr(scalar_value(argument, dims))


def _python(text: str) -> str:
    """Return a task's arithmetic on one line: what it may hold is a part of Python."""
    return ast.unparse(ast.parse(text.strip(), mode="eval"))


def _quote(text: str) -> str:
    return f'"{text}"'


def one_line(text: str) -> str:
    """Return the text as it may stand in a docstring and in a comment."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())


def export(
    winner: Winner,
    to: ExportFormat,
    out: Path | None = None,
    *,
    example: ExampleData | None = None,
    force: bool = False,
) -> Path:
    """Write the export and return its folder. The plain one holds a program that checks `example`.

    Raises UsageError: it exists, cannot be written.
    """
    folder = out or Path(f"{python_name(winner.task.name)}_{to}")
    if to != "cu" and not folder.resolve().name.isidentifier():
        raise UsageError(f"{folder}: Python cannot import that name; use letters, digits and _")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; expected a new folder")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise UsageError(f"{folder}: exists already; overwrite it with --force")
    # All of it is made before any of it is written.
    contents = [*_contents(winner, to, folder.resolve().name, example)]
    for name, content in contents:
        write_file(folder / name, content)
    return folder


def _contents(
    winner: Winner, to: ExportFormat, package: str, example: ExampleData | None
) -> Iterator[tuple[str, str | bytes]]:
    task = winner.task
    values = bind(task, winner.source, example.dims if example else None, to) | {
        "framework": to,
        "package": package,
        "proof": [one_line(line) for line in proof_text(winner)],
        "verify": verify_here(winner),
        "build_line": build_line(task),
        "visible": to != "cu",
        "example_data": EXAMPLE if example else "",
    }
    yield SOLUTION, winner.source
    yield "solve.h", _render("solve.h.j2", values)
    for place, folder in include_folders(task).items():
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            yield f"{place}/{path.relative_to(folder)}", path.read_text(errors="replace")
    if to == "cu":
        flags = " ".join(shlex.quote(flag) for flag in nvcc_flags(task)).replace("$", "$$")
        yield "Makefile", _render("Makefile.j2", values | {"flags": flags})
        if example is not None:
            values |= {
                "near": {*example.allowed},
                "unchecked": one_line(example.unchecked),
                "distribution": one_line(example.distribution),
            }
            yield "example.cu", _render("example.cu.j2", values)
            yield from example.files()
    else:
        values |= _python_values(values, to) | {"flags": tuple(nvcc_flags(task))}
        yield "__init__.py", _render("package.py.j2", values)
        for name in (*CARRIED, f"on_{to}.py"):
            yield name, files("cuda_llm.traces.export.carried").joinpath(name).read_text()
        yield "py.typed", ""
    yield from task_files(task)
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
        "int_dims": _in_lines("", [f"{name}: int" for name in values["dims"]], "", 0),
        "uses_ceil_div": "ceil_div(" in repr((values["arguments"], values["requires"])),
        "scalar_pairs": _in_lines(
            "{", [f"{_quote(one['name'])}: {one['value']}" for one in values["scalars"]], "}", 4
        ),
        "dim_pairs": _in_lines("{", [f"{_quote(one)}: {one}" for one in values["dims"]], "}", 8),
        "signature": _in_lines("void solve(", values["parameters"], ")", 0),
        "example": f"{made}{values['function']}({', '.join(passed)})",
    }


def _in_lines(opening: str, items: Sequence[str], closing: str, indent: int) -> str:
    """Return the items between brackets on one line, or each on its own where that is too long."""
    together = ", ".join(items)
    if len(together) <= LONGEST_LIST or len(items) < 2:
        return opening + together + closing
    inner, outer = "\n" + " " * (indent + 4), "\n" + " " * indent
    return opening + inner + f",{inner}".join(items) + outer + closing


def _render(template: str, values: Mapping[str, Any]) -> str:
    text: str = _environment().get_template(template).render(values)
    return text


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cuda_llm.traces.export"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["names"] = _names
    return environment


def _names(names: Iterable[str]) -> str:
    """Return a tuple of names as Python source, in double quotes."""
    return repr(tuple(names)).replace("'", '"')
