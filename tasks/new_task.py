"""Writes the folder of a new task: a skeleton, or a draft around a function of CUDA source.

Guesses of a draft are marked CONFIRM.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cuda_llm.errors import UsageError, nearest
from cuda_llm.source_file import SourceSpot
from cuda_llm.source_tokens import blank_strings, kernels_defined
from cuda_llm.tasks.loader import TASK_NAME, list_tasks, spell_task
from cuda_llm.tasks.task import CTYPES, ArgumentRole, Task, is_float

_SKELETON = Path(__file__).resolve().parent / "_skeleton"
_SKELETON_FILES = ("task.toml", "description.md", "reference.py", "baseline.cu")

_DTYPES = {ctype: dtype for dtype, ctype in CTYPES.items()} | {
    "__half": "float16",
    "char": "int8",
    "int8_t": "int8",
    "int16_t": "int16",
    "int32_t": "int32",
    "uint8_t": "uint8",
    "uint16_t": "uint16",
    "unsigned": "uint32",
    "uint32_t": "uint32",
}
"""NumPy types of elements by C++ name; C++ types that differ between platforms are left out."""
_SCALARS = _DTYPES | {"size_t": "uint64", "int64_t": "int64", "long": "int64", "uint64_t": "uint64"}
"""NumPy types of by-value arguments by C++ name: C++ converts values, so the exact type need not
match."""

_QUALIFIERS = re.compile(r"\b(?:__restrict__|__restrict|__grid_constant__|volatile)\b")

_EDGES = (3, 31, 67, 33, 130)
"""Extents of edge sizes, rotated through the dims, so that they differ."""
_EMULATED = {1: (65536, 262144), 2: (256, 512), 3: (64, 128)}
"""Extents of emulated sizes, by number of dims."""

_MARKED_FILES = ("task.toml", "description.md", "reference.py", "host.cu", "baseline.cu")
_MARK = re.compile(r"(?:#|//)\s*CONFIRM\b|\bCONFIRM:")


def write_task(name: str, out: Path, files: Mapping[str, str]) -> Path:
    """Write `files` to the new folder `out / name` and return it.

    Raises UsageError where the name is unfit or taken or the folder exists; nothing is left half
    written.
    """
    if not TASK_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no task name; expected lower case, digits and _")
    if name in list_tasks():
        raise UsageError(f"{name} is a task that ships; take another name, as in my_{name}")
    folder = out / name
    if folder.exists():
        raise UsageError(f"{folder}: exists already; expected a new folder")
    folder.mkdir(parents=True)
    try:
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def skeleton(name: str) -> dict[str, str]:
    """Return the files of a task that doubles a vector, to be overwritten piece by piece."""
    files = {file: (_SKELETON / file).read_text(encoding="utf-8") for file in _SKELETON_FILES}
    return files | {"task.toml": files["task.toml"].replace("TASK", name)}


def find_guesses(task: Task) -> tuple[SourceSpot, ...]:
    """Return the lines of a task's files that a draft marked CONFIRM and that still are."""
    return tuple(
        SourceSpot(file=str(file), line=number, text=line.strip())
        for file in map(task.folder.joinpath, _MARKED_FILES)
        if file.is_file()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if _MARK.search(line)
    )


def require_no_guesses(task: Task) -> None:
    """Raise UsageError naming the first line with a guess: prompts state what a task says."""
    for spot in find_guesses(task)[:1]:
        raise UsageError(
            f"{spot}: a guess of `tasks new`, which prompts would state as a fact; correct it and "
            f"remove its mark CONFIRM; what is left: cuda-llm tasks check {spell_task(task)}"
        )


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a C++ function."""

    name: str
    dtype: str
    """NumPy name of the parameter's element type."""
    pointer: bool
    const: bool
    """Whether the parameter points to const."""


@dataclass(frozen=True, kw_only=True)
class CudaFunction:
    """A function definition found in a source."""

    name: str
    is_kernel: bool
    """`__global__`, not a host function."""
    parameters: tuple[Parameter, ...]
    body: str
    """Text between its braces, without comments and strings."""


def find_function(source: str, name: str, where: str) -> CudaFunction:
    """Find the definition of `name`. Raises UsageError in a line that starts with `where`."""
    text = blank_strings(source)
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        closing = _matching(text, match.end() - 1)
        opening = re.compile(r"\s*\{").match(text, closing + 1)
        head = re.split(r"[;{}]|#[^\n]*\n", text[: match.start()])[-1]
        if opening is None or not re.search(r"\bvoid\b", head) or "__device__" in head:
            continue
        if re.search(r"\btemplate\b", head):
            raise UsageError(f"{where}: {name} is a template; expected a function of plain types")
        parameters = text[match.end() : closing]
        return CudaFunction(
            name=name,
            is_kernel="__global__" in head,
            parameters=tuple(_parameter(part, where) for part in _split(parameters)),
            body=text[opening.end() : _matching(text, opening.end() - 1)],
        )
    known = ", ".join(kernels_defined(source)) or "no kernel at all"
    raise UsageError(f"{where}: has no void function {name}; found {known}")


def choose_entry(source: str, where: str) -> str:
    """Return the name of the function that a task is drafted around: `solve`, or the only kernel.

    Raises UsageError in a line that starts with `where` and names the kernels.
    """
    if re.search(r"\bvoid\s+solve\s*\([^;{}]*\)\s*\{", blank_strings(source)):
        return "solve"
    kernels = kernels_defined(source)
    if not kernels:
        raise UsageError(f"{where}: has no kernel; expected a __global__ function or a solve")
    if len(kernels) > 1:
        raise UsageError(f"{where}: has kernels {', '.join(kernels)}: add --entry {kernels[0]}")
    return kernels[0]


def _matching(text: str, start: int) -> int:
    """Return the index of the bracket that closes the one at `start`, or the end of the text."""
    pairs = {"(": ")", "{": "}"}
    opening, closing = text[start], pairs[text[start]]
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == opening) - (text[index] == closing)
        if depth == 0:
            return index
    return len(text)


def _split(parameters: str) -> list[str]:
    if parameters.strip() in ("", "void"):
        return []
    parts, depth, start = [], 0, 0
    for index, char in enumerate(parameters):
        depth += (char in "(<[") - (char in ")>]")
        if char == "," and depth == 0:
            parts.append(parameters[start:index])
            start = index + 1
    return [*parts, parameters[start:]]


def _parameter(text: str, where: str) -> Parameter:
    shown = " ".join(text.split())
    plain = _QUALIFIERS.sub(" ", text.split("=")[0])
    match = re.fullmatch(r"\s*([\w\s]+?)\s*(\*?)\s*(?:const\s+)?(\w+)\s*(\[\s*\w*\s*\])?\s*", plain)
    if match is None:
        raise UsageError(f"{where}: parameter `{shown}`; expected a number or a pointer to numbers")
    words = match[1].split()
    pointer = bool(match[2] or match[4])
    ctype = " ".join(word for word in words if word not in ("const", "struct"))
    dtypes = _DTYPES if pointer else _SCALARS
    if ctype not in dtypes:
        raise UsageError(
            f"{where}: parameter `{shown}` of type {ctype or '?'}; "
            "expected a built-in number type, half or one of the intN_t"
        )
    return Parameter(
        name=match[3], dtype=dtypes[ctype], pointer=pointer, const="const" in words and pointer
    )


def draft(
    name: str,
    source: str,
    entry: str,
    where: str,
    *,
    launch: str = "",
    shapes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the files of a task whose baseline and oracle is `entry` of `source`.

    `where` is the source's name for errors. `launch` is the statement that launches the kernel, in
    the names of its parameters, and `shapes` the extents of pointers by name; both are guessed
    where they are not given. Raises UsageError where the entry cannot be used.
    """
    function = find_function(source, entry, where)
    if entry == "solve" and function.is_kernel:
        raise UsageError(f"{where}: the kernel is itself named solve; expected another name")
    if entry != "solve" and re.search(r"\bsolve\s*\(", source):
        raise UsageError(f"{where}: has a solve of its own; expected --entry solve")
    if not any(p.pointer and not p.const for p in function.parameters):
        raise UsageError(f"{where}: {entry} has no pointer to write to; expected an output")
    known = [one.name for one in function.parameters if one.pointer]
    for unknown in shapes.keys() - known:
        raise UsageError(f"{where}: {entry} has no pointer {unknown}; {nearest(unknown, known)}")
    dims = _dims(function)
    return {
        "task.toml": _task_toml(name, function, dims, where, shapes),
        "description.md": (
            f"CONFIRM: say in words what `{entry}` computes, from which inputs, and which sizes\n"
            "may occur. This text goes into the prompt; leave out how to make it fast.\n"
        ),
        "baseline.cu": source.rstrip("\n") + "\n" + _launcher(function, dims, launch),
    }


def _dims(function: CudaFunction) -> tuple[str, ...]:
    scalars = (p for p in function.parameters if not p.pointer)
    return tuple(p.name for p in scalars if not is_float(p.dtype) and p.dtype != "bool") or ("n",)


def _role(parameter: Parameter, body: str) -> ArgumentRole:
    """Guess a role: const pointers are read; others are written, and read if the body does."""
    if not parameter.pointer:
        return ArgumentRole.SCALAR
    if parameter.const:
        return ArgumentRole.IN
    name = re.escape(parameter.name)
    read_too = (
        rf"\b{name}\s*\[[^;=]*\]\s*(?:[-+*/%&|^]|<<|>>)=",
        rf"\batomic\w+\s*\([^;,]*\b{name}\b",
        rf"[^=!<>]=[^=;][^;]*\b{name}\s*\[",
    )
    found = any(re.search(pattern, body) for pattern in read_too)
    return ArgumentRole.INOUT if found else ArgumentRole.OUT


def _shape(parameter: Parameter, function: CudaFunction, dims: Sequence[str]) -> tuple[str, ...]:
    """Guess a shape: M, N, K with three pointers is a matrix product; else the volume."""
    pointers = [p.name for p in function.parameters if p.pointer]
    if len(dims) <= 2:
        return tuple(dims)
    by_letter = {dim.lower(): dim for dim in dims}
    if set(by_letter) == {"m", "n", "k"} and len(dims) == 3 and len(pointers) == 3:
        letters = ("mk", "kn", "mn")[pointers.index(parameter.name)]
        return tuple(by_letter[letter] for letter in letters)
    return (" * ".join(dims),)


def _task_toml(
    name: str,
    function: CudaFunction,
    dims: Sequence[str],
    where: str,
    shapes: Mapping[str, tuple[str, ...]],
) -> str:
    lines = [
        f"# Drafted around {function.name} of {where}. Every line marked CONFIRM is a guess.",
        f'title = "{name}"',
        f'origin = "drafted around a kernel named {function.name}"',
        "",
        "[dims]",
        *(f'{dim} = "CONFIRM: what {dim} counts"' for dim in dims),
    ]
    for parameter in function.parameters:
        guessed = _shape(parameter, function, dims) if parameter.pointer else ()
        shape = shapes.get(parameter.name, guessed)
        lines += ["", "[[arguments]]", *_argument(parameter, function.body, dims, shape)]
    outputs = [p for p in function.parameters if p.pointer and not p.const]
    exact = not any(is_float(p.dtype) for p in outputs)
    lines += ["", *_sizes(dims), "", *_tolerance(dims, exact=exact), "", *_rest(dims)]
    return "\n".join(lines) + "\n"


def _argument(
    parameter: Parameter, body: str, dims: Sequence[str], shape: Sequence[str]
) -> list[str]:
    role = _role(parameter, body)
    lines = [f'name = "{parameter.name}"', f'role = "{role}"', f'dtype = "{parameter.dtype}"']
    if role == ArgumentRole.SCALAR:
        if parameter.name not in dims:
            lines.append('value = "1" # CONFIRM')
        return lines
    if role != ArgumentRole.IN:
        lines[1] += " # CONFIRM: out, or inout where it is read before it is written"
    extents = ", ".join(f'"{extent}"' for extent in shape)
    lines.append(f"shape = [{extents}] # CONFIRM")
    if role != ArgumentRole.OUT:
        drawn = '"normal", "mixed"' if is_float(parameter.dtype) else '"ints(0, 2)"'
        lines.append(f"distributions = [{drawn}] # CONFIRM")
    return lines


def _sizes(dims: Sequence[str]) -> list[str]:
    def size(*extents: int) -> str:
        pairs = (f"{dim} = {extents[i % len(extents)]}" for i, dim in enumerate(dims))
        return "{ " + ", ".join(pairs) + " }"

    emulated = _EMULATED.get(len(dims), (8, 16))
    edges = [size(1), *(size(*_EDGES[i:], *_EDGES[:i]) for i in range(len(_EDGES)))]
    return [
        "[sizes] # CONFIRM",
        f"bench = [{size(emulated[-1])}]",
        f"edge = [{', '.join(edges if len(dims) < 4 else (size(1), size(7)))}]",
        f"emulated = [{', '.join(map(size, emulated))}]",
    ]


def _tolerance(dims: Sequence[str], *, exact: bool) -> list[str]:
    head = "[tolerance] # CONFIRM: exact, elementwise, reduction or dot"
    if exact:
        return [head, 'kind = "exact"']
    return [head, 'kind = "reduction"', f'terms = "{" * ".join(dims)}"']


def _rest(dims: Sequence[str]) -> list[str]:
    volume = " * ".join(dims)
    return [
        "[roofline] # CONFIRM: the least arithmetic and traffic any kernel needs",
        'flops = "0"',
        'bytes = "0"',
        "",
        "[capabilities]",
        f'scratch_bytes = "16 * {volume} + 65536"',
    ]


def _launcher(function: CudaFunction, dims: Sequence[str], launch: str) -> str:
    """Write a `solve` around the entry; nothing where the entry is a host function `solve`.

    `launch` is the statement that launches the kernel; empty where it is to be guessed.
    """
    if function.name == "solve":
        return ""
    parameters = ", ".join(
        f"{'const ' if p.const else ''}{CTYPES[p.dtype]}{'*' if p.pointer else ''} {p.name}"
        for p in function.parameters
    )
    passed = ", ".join(p.name for p in function.parameters)
    head = f'\nextern "C" void solve({parameters})\n{{\n'
    if not function.is_kernel:
        return f"{head}    {function.name}({passed});\n    cudaDeviceSynchronize();\n}}\n"
    if launch:
        return f"{head}    {launch}\n    cudaDeviceSynchronize();\n}}\n"
    return (
        f"\n// CONFIRM: launch {function.name} the way your program does.{head}"
        f"{_launch_shape(function, dims)}"
        f"    {function.name}<<<blocks, threads>>>({passed}); // CONFIRM: shared memory, order\n"
        "    cudaDeviceSynchronize();\n}\n"
    )


def _launch_shape(function: CudaFunction, dims: Sequence[str]) -> str:
    """Write blocks and threads that cover the dims, of two axes where the kernel uses `.y`."""
    if not any(p.name in dims for p in function.parameters):
        return "    dim3 threads(256);\n    dim3 blocks(1); // CONFIRM: the kernel takes no size\n"
    if len(dims) >= 2 and re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b", function.body):
        x, y = dims[1], dims[0]
        return (
            f"    dim3 threads(16, 16); // CONFIRM: x over {x}, y over {y}\n"
            f"    dim3 blocks(({x} + 15) / 16, ({y} + 15) / 16); // CONFIRM\n"
        )
    total = " * ".join(f"(long long){dim}" if not i else dim for i, dim in enumerate(dims))
    return (
        "    dim3 threads(256);\n"
        f"    dim3 blocks(({total} + 255) / 256); // CONFIRM: one thread an element\n"
    )
