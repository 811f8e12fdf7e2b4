"""Writes the folder of a new task: a skeleton, or a draft around a function of CUDA source.

Guesses of a draft are marked CONFIRM.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, permutations
from pathlib import Path
from types import MappingProxyType

from cuda_llm.errors import UsageError, nearest
from cuda_llm.source_file import SourceSpot
from cuda_llm.source_tokens import TokenKind, identifiers
from cuda_llm.tasks.cuda_source import CudaSource, DefinedFunction, read_cuda
from cuda_llm.tasks.element_types import FloatFormat, element_type
from cuda_llm.tasks.entry_point import (
    ROW,
    EntryArgument,
    EntryPoint,
    read_entry,
)
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.launches import find_launch
from cuda_llm.tasks.loader import TASK_NAME, list_tasks, spell_task
from cuda_llm.tasks.macros import spell
from cuda_llm.tasks.task import CTYPES, ArgumentRole, Task, is_float

_SKELETON = Path(__file__).resolve().parent / "_skeleton"
_SKELETON_FILES = ("task.toml", "description.md", "reference.py", "baseline.cu")

_EDGES = (3, 31, 67, 33, 130)
"""Extents of edge sizes, rotated through the dims, so that they differ."""
_EMULATED = {1: (65536, 262144), 2: (256, 512), 3: (64, 128)}
"""Extents of emulated sizes, by number of dims."""

USUAL_ROWS = 16
"""Elements of a row, where rows are of unlike length, of sizes that are timed."""
LONG_ROWS = 40
"""The same, of edge sizes: all elements in one row are more than a warp or a block takes."""
MOST_TIMED = 1 << 22
"""Elements of the largest buffer of a drafted `bench` size, at most: they fill every GPU several
times, and are drawn and compared in a second."""
MOST_SUMMED = 1 << 31
"""Elements of outputs times what each depends on, at a drafted `bench` size, at most."""

_FLOATS = '"normal", "mixed", "uniform(7, 8)", "all_equal(0.3)"'
"""What floats are drawn from: regions of every size, a mean far above the spread, ties."""
_WHOLE = {"uint8": '"ints(0, 256)", "ints(0, 2)"', "int8": '"ints(-128, 128)", "ints(0, 2)"'}
"""What whole numbers are drawn from that are seldom indices: pixels and weights, then flags."""

MOST_LAUNCHES = 24
"""Launches that are tried of a kernel whose source launches none."""

_MARKED_FILES = (
    "task.toml",
    "description.md",
    "reference.py",
    "inputs.py",
    "host.cu",
    "baseline.cu",
)
_MARK = re.compile(r"(?:#|//)\s*CONFIRM\b|\bCONFIRM:")


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What executing a drafted kernel at small sizes said of the task."""

    choice: int = 0
    """Number of the launch that writes every output."""
    shapes: Mapping[str, str] = field(default_factory=dict)
    """Number of elements of a buffer, an expression in dims, by argument."""
    distributions: Mapping[str, str] = field(default_factory=dict)
    """What an input of indices is drawn from, by argument."""
    reached: Mapping[str, str] = field(default_factory=dict)
    """Input whose whole numbers decide how far a buffer is reached into, by buffer."""
    multiples: Mapping[str, int] = field(default_factory=dict)
    """What a dim has to be a multiple of, where that is not 1, by dim."""
    flops: str = "0"
    bytes: str = "0"
    terms: str = ""
    """Elements of an input that an element of an output depends on; empty where that is unknown."""
    offsets: Mapping[str, str] = field(default_factory=dict)
    """Dim that counts the elements of all rows, by input that holds where rows begin."""
    added: str = ""
    """That dim, where the kernel takes no such number; else empty."""


NOT_EXECUTED = Executed()


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


def choose_entry(source: str, where: str) -> str:
    """Return the function that a task is drafted around, as `--entry` spells it.

    That is `solve`, the only host function that launches kernels on pointers it is given, or the
    only kernel. Raises UsageError in a line that starts with `where` and says what to add.
    """
    read = read_cuda(source)
    if any(one.name == "solve" and not one.on_device for one in read.functions):
        return "solve"
    launchers = [one for one in read.functions if _is_launcher(read, one, where)]
    called = {name for one in launchers for name in _called(read, one) if name != one.name}
    first = [one for one in launchers if one.name not in called]
    if len({one.qualified for one in first}) == 1:
        return first[0].qualified
    kernels = list(dict.fromkeys(one.qualified for one in read.kernels))
    if len(kernels) == 1:
        return kernels[0]
    several = list(dict.fromkeys(one.qualified for one in first)) or kernels
    if not several:
        raise UsageError(f"{where}: has no kernel; expected a __global__ function or a solve")
    kind = "launchers" if first else "kernels"
    raise UsageError(f"{where}: has {kind} {', '.join(several)}: add --entry {several[0]}")


_HOST_MEMORY = frozenset({"cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost", "malloc", "vector"})
"""Names in functions that take or fill memory of the host."""


def _is_launcher(source: CudaSource, function: DefinedFunction, where: str) -> bool:
    """Return whether a host function launches kernels on device memory that it is given."""
    if function.is_kernel or function.on_device or function.name == "main":
        return False
    within = [function, *(one for one in source.functions if one.name in _called(source, function))]
    words = {token.text for one in within for token in one.body}
    if words & _HOST_MEMORY or not ("<<<" in words or words & {"cub", "thrust"}):
        return False
    try:
        point = read_entry(source, function.qualified, where)
    except UsageError:
        return False
    return any(one.is_output for one in point.arguments)


def _called(source: CudaSource, function: DefinedFunction) -> set[str]:
    """Return the names of the source's functions that a function reaches."""
    by_name = {one.name: one for one in source.functions}
    reached: set[str] = set()
    waiting = [function]
    while waiting:
        for token in waiting.pop().body:
            if token.kind == TokenKind.NAME and token.text in by_name:
                if token.text not in reached:
                    waiting.append(by_name[token.text])
                reached.add(token.text)
    return reached


def draft(
    name: str,
    source: str,
    entry: str,
    where: str,
    *,
    launch: str = "",
    shapes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    executed: Executed = NOT_EXECUTED,
) -> dict[str, str]:
    """Return the files of a task whose baseline and oracle is `entry` of `source`.

    `entry` is the name of a kernel or host function, with template arguments where it is a
    template: `ops::k<float, 256>`. `where` is the source's name for errors. `launch` is the
    statement that launches the kernel, in the names of its parameters, and `shapes` the extents of
    pointers by name; where they are not given, they are what `executed` says, the launch is the
    source's own, and what none of these says is guessed. Raises UsageError where the entry cannot
    be used.
    """
    read = read_cuda(source)
    point = _read_point(read, entry, where)
    buffers = [one for one in point.arguments if one.is_buffer]
    known = [one.name for one in buffers]
    for unknown in shapes.keys() - known:
        raise UsageError(f"{where}: {entry} has no pointer {unknown}; {nearest(unknown, known)}")
    dims = _dims(point)
    found = {
        one.name: _extents(executed.shapes[one.name], one, dims)
        for one in buffers
        if one.name in executed.shapes
    }
    given = {**found, **shapes}
    extents = {one.name: given.get(one.name) or _shape(one, point, dims) for one in buffers}
    every = (*dims, executed.added) if executed.added else dims
    return {
        "task.toml": _task_toml(name, point, every, where, extents, executed),
        "description.md": (
            f"CONFIRM: say in words what `{entry}` computes, from which inputs, and which sizes\n"
            "may occur. This text goes into the prompt; leave out how to make it fast.\n"
        ),
        "baseline.cu": _baseline(source, read, point, dims, extents, launch, executed),
        **({"inputs.py": _inputs(executed)} if executed.offsets else {}),
    }


def _inputs(executed: Executed) -> str:
    """Write an inputs.py that makes the offsets of rows of unlike length."""
    made = {
        name: (executed.shapes[name].removesuffix(" + 1"), every)
        for name, every in executed.offsets.items()
    }
    dims = ", ".join(dict.fromkeys(dim for pair in made.values() for dim in pair))

    def function(name: str, says: str) -> str:
        returned = ", ".join(
            f'"{one}": _{name}(rng, {rows}, {every})' for one, (rows, every) in made.items()
        )
        return f'def {name}(rng, *, {dims}):\n    """{says}"""\n    return {{{returned}}}\n'

    stub = (_SKELETON / "inputs.py.txt").read_text(encoding="utf-8")
    functions = (
        function("uneven", "Few long rows and many short or empty ones."),
        function("one_row", "All elements in one row."),
    )
    return "\n\n".join((stub.rstrip("\n") + "\n", *functions))


def _extents(elements: str, argument: EntryArgument, dims: Collection[str]) -> tuple[str, ...]:
    """Return the axes of a number of elements: that of an array of pointers stands in front, and
    two dims are a matrix."""
    factors = tuple(elements.split(" * "))
    if argument.axis in factors:
        rest = [one for one in factors if one != argument.axis]
        return (argument.axis, " * ".join(rest) or "1")
    return factors if len(factors) == 2 and {*factors} <= {*dims} else (elements,)


def write_tried(source: str, entry: str, where: str) -> tuple[str, int]:
    """Return a source whose `solve` makes one of several launches of `entry`, the one that a last
    argument `int choice` names, and how many there are. Raises UsageError as `draft` does."""
    read = read_cuda(source)
    point = _read_point(read, entry, where)
    dims = _dims(point)
    extents = {one.name: _shape(one, point, dims) for one in point.arguments if one.is_buffer}
    own = replace(point.function, name=OWN_SOLVE.split()[-1])
    is_renamed = point.function.name == "solve"
    calling = _calling(point, own) if is_renamed else point
    choices = _choices(read, calling, dims)
    wrapper = _solve(read, calling, dims, extents, choices, tried=True)
    text = _without_program(source, read, {point.function.name, *identifiers(wrapper)})
    text = text.rstrip("\n") + "\n"
    if is_renamed:
        text = f"{OWN_SOLVE}\n#line 1\n{text}#undef solve\n"
    return text + wrapper, len(choices)


def _read_point(read: CudaSource, entry: str, where: str) -> EntryPoint:
    """Read the entry of a draft. Raises UsageError where no task can be made of the entry."""
    point = read_entry(read, entry, where)
    function = point.function
    others = [one for one in read.functions if one.name == "solve" and one is not function]
    if function.name != "solve" and any(not one.on_device for one in others):
        raise UsageError(f"{where}: has a solve of its own; expected --entry solve")
    if not any(one.is_output for one in point.arguments):
        raise UsageError(
            f"{where}: {function.qualified} has no pointer to write to; expected an output"
        )
    return point


def _dims(point: EntryPoint) -> tuple[str, ...]:
    return tuple(one.name for one in point.arguments if one.is_dim) or ("n",)


def _shape(argument: EntryArgument, point: EntryPoint, dims: Sequence[str]) -> tuple[str, ...]:
    """Guess a shape: M, N, K with three pointers is a matrix product; else the volume."""
    if argument.workspace:
        return (_workspace_bytes(dims),)
    rest = tuple(dim for dim in dims if dim != argument.axis)
    front = (argument.axis,) if argument.axis else ()
    behind = (str(argument.columns),) if argument.columns > 1 else ()
    pointers = [one.name for one in point.arguments if one.is_buffer]
    by_letter = {dim.lower(): dim for dim in rest}
    if set(by_letter) == {"m", "n", "k"} and len(rest) == 3 and len(pointers) == 3:
        letters = ("mk", "kn", "mn")[pointers.index(argument.name)]
        return (*front, *(by_letter[letter] for letter in letters), *behind)
    if argument.first_only:
        return (*front, "1", *behind)
    return (*front, *(rest if len(rest) <= 2 else (" * ".join(rest),)), *behind)


def _workspace_bytes(dims: Sequence[str]) -> str:
    """Guess the bytes of a workspace: two words an element, and some for each block."""
    return f"8 * {' * '.join(dims)} + 32768"


def _task_toml(
    name: str,
    point: EntryPoint,
    dims: Sequence[str],
    where: str,
    extents: Mapping[str, tuple[str, ...]],
    executed: Executed,
) -> str:
    called = point.called
    lines = [
        f"# Drafted around {called} of {where}. Every line marked CONFIRM is a guess.",
        f'title = "{name}"',
        f'origin = "drafted around a kernel named {point.function.name}"',
        *_requires(executed),
        "",
        "[dims]",
        *(f'{dim} = "CONFIRM: what {dim} counts"' for dim in dims),
    ]
    for argument in _with_values(point.arguments, dims):
        shape = extents.get(argument.name, ())
        lines += ["", "[[arguments]]", *_argument(argument, dims, shape, executed)]
    outputs = [one for one in point.arguments if one.is_output]
    floats = [element_type(one.dtype).floating for one in outputs if is_float(one.dtype)]
    lines += [
        "",
        *_sizes(dims, executed, [one.name for one in outputs]),
        "",
        *_tolerance(dims, floats, executed),
        "",
        *_rest(dims, executed),
    ]
    return "\n".join(lines) + "\n"


def _with_values(
    arguments: Sequence[EntryArgument], dims: Sequence[str]
) -> Iterator[EntryArgument]:
    """Yield arguments, each scalar with a value: numbers that differ, so that a range is none of a
    single number."""
    number = 0
    for one in arguments:
        if one.role == ArgumentRole.SCALAR and one.workspace:
            yield replace(one, value=_workspace_bytes(dims))
        elif one.role == ArgumentRole.SCALAR and one.name not in dims and not one.value:
            number += 1
            tiny = is_float(one.dtype) and one.name.lower().startswith("eps")
            truth = one.dtype == "bool"
            yield replace(one, value="1e-5" if tiny else "1" if truth else str(number))
        else:
            yield one


def _argument(
    argument: EntryArgument, dims: Sequence[str], shape: Sequence[str], executed: Executed
) -> list[str]:
    role = argument.role
    lines = [f'name = "{argument.name}"', f'role = "{role}"']
    if role == ArgumentRole.STREAM:
        return lines
    lines.append(f'dtype = "{argument.dtype}"')
    if argument.ctype:
        lines.append(f'ctype = "{argument.ctype}"')
    if role == ArgumentRole.SCALAR:
        if argument.name not in dims:
            lines.append(f'value = "{argument.value}" # CONFIRM')
        return lines
    if argument.is_output:
        lines[1] += " # CONFIRM: out, or inout where it is read before it is written"
    extents = ", ".join(f'"{extent}"' for extent in shape)
    guessed = "" if argument.name in executed.shapes else " # CONFIRM"
    if index := executed.reached.get(argument.name):
        guessed = f" # CONFIRM: as far as {index} reaches"
    lines.append(f"shape = [{extents}]{guessed}")
    if argument.is_cleared:
        lines.append('initial = "0" # CONFIRM: as its caller does')
    if role in (ArgumentRole.IN, ArgumentRole.INOUT):
        drawn = _FLOATS if is_float(argument.dtype) else _WHOLE.get(argument.dtype, '"ints(0, 2)"')
        if argument.name in executed.offsets:
            drawn = '"inputs.uneven", "inputs.one_row"'
        indices = executed.distributions.get(argument.name)
        drawn = f'"{indices}"' if indices else drawn
        lines.append(f"distributions = [{drawn}] # CONFIRM")
    return lines


def _requires(executed: Executed) -> Iterator[str]:
    """Yield the condition on sizes, where the kernel takes whole vectors or tiles alone."""
    if executed.multiples:
        conditions = (f"{dim} % {step} == 0" for dim, step in executed.multiples.items())
        yield f'requires = "{" and ".join(conditions)}" # CONFIRM: as executed'


def _sizes(dims: Sequence[str], executed: Executed, outputs: Sequence[str]) -> list[str]:
    """Write the sizes: of the kernel's multiples, and for times as large as is affordable."""

    def size(*extents: int, in_row: int = 1) -> str:
        """Spell a size, each extent rounded to what the kernel takes, with `in_row` times as many
        elements of rows."""
        pairs = []
        for i, dim in enumerate(dims):
            step = executed.multiples.get(dim, 1)
            extent = extents[i % len(extents)] * (in_row if dim in executed.offsets.values() else 1)
            pairs.append(f"{dim} = {max(1, extent // step) * step}")
        return "{ " + ", ".join(pairs) + " }"

    emulated = _EMULATED.get(len(dims), (8, 16))
    largest = emulated[-1]
    while _is_affordable(2 * largest, dims, executed, outputs):
        largest *= 2
    turned = [(*_EDGES[i:], *_EDGES[:i]) for i in range(len(_EDGES))]
    edges = [size(1), *(size(*one, in_row=LONG_ROWS) for one in turned)]
    edges = list(
        dict.fromkeys(edges if len(dims) < 4 else (size(1), size(7, in_row=7 * LONG_ROWS)))
    )
    return [
        "[sizes] # CONFIRM",
        f"bench = [{size(largest, in_row=USUAL_ROWS)}]",
        f"edge = [{', '.join(edges)}]",
        f"emulated = [{', '.join(size(one, in_row=USUAL_ROWS) for one in emulated)}]",
        *_hidden(dims, executed),
    ]


def _is_affordable(
    extent: int, dims: Sequence[str], executed: Executed, outputs: Sequence[str]
) -> bool:
    """Return whether a size of equal extents may be timed: its buffers, and the sums that a kernel
    was seen to make, are not too large. Without executed shapes nothing is known."""
    size = dict.fromkeys(dims, extent)
    counts = {name: evaluate(one, size) for name, one in executed.shapes.items()}
    if not counts:
        return False
    each = evaluate(executed.terms or " * ".join(dims), size)
    written = max((counts[one] for one in outputs if one in counts), default=0)
    return max(counts.values()) <= MOST_TIMED and written * each <= MOST_SUMMED


def _hidden(dims: Sequence[str], executed: Executed) -> Iterator[str]:
    """Yield the range of hidden sizes, where few numbers in it are multiples that a kernel takes:
    without a range it spans the sizes above."""
    if executed.multiples:
        yield "[sizes.hidden]"
        for dim in dims:
            step = executed.multiples.get(dim, 1)
            most = max(_EDGES) // step * step
            yield f"dims.{dim} = {{ min = {step}, max = {most}, multiple_of = {step} }}"


def _tolerance(dims: Sequence[str], floats: Sequence[FloatFormat], executed: Executed) -> list[str]:
    """Write the tolerance of outputs, those that are floats in these formats: of a sum of as many
    terms as an output was seen to depend on, or as there are indices where that is unknown."""
    head = "[tolerance] # CONFIRM: exact, elementwise, reduction or dot"
    if not floats:
        return [head, 'kind = "exact"']
    lines = [head, 'kind = "reduction"', f'terms = "{executed.terms or " * ".join(dims)}"']
    if executed.terms == "1":
        lines = [head, 'kind = "elementwise"']
    shortest = min(floats, key=lambda one: one.significand_bits)
    if shortest.is_short:
        lines.append(f'precision = "{shortest.name}" # CONFIRM: sums in fp32, rounded once')
    return lines


def _rest(dims: Sequence[str], executed: Executed) -> list[str]:
    # Rows of unlike length are no product of dims.
    volume = f"({' + '.join(dims)})" if executed.offsets else " * ".join(dims)
    return [
        "[roofline] # CONFIRM: the least arithmetic and traffic any kernel needs",
        f'flops = "{executed.flops}"',
        f'bytes = "{executed.bytes}"',
        "",
        "[capabilities]",
        f'scratch_bytes = "16 * {volume} + 65536"',
    ]


def _baseline(
    source: str,
    read: CudaSource,
    point: EntryPoint,
    dims: Sequence[str],
    extents: Mapping[str, tuple[str, ...]],
    launch: str,
    executed: Executed,
) -> str:
    """Write the source, without its program, and behind it a `solve` that calls the entry.

    Lines keep their numbers.
    """
    is_renamed = point.function.name == "solve" and not _is_solve(point)
    own = replace(point.function, name=OWN_SOLVE.split()[-1]) if is_renamed else point.function
    calling = _calling(point, own)
    choices = [_Launch(lines=(launch,))] if launch else _choices(read, calling, dims)
    chosen = choices[executed.choice]
    if executed.shapes:
        chosen = _Launch(lines=tuple(map(_unmarked, chosen.lines)))
    wrapper = "" if _is_solve(point) else _solve(read, calling, dims, extents, [chosen])
    text = _without_program(source, read, {point.function.name, *identifiers(wrapper)})
    text = text.rstrip("\n") + "\n"
    return f"{OWN_SOLVE}\n#line 1\n{text}#undef solve\n{wrapper}" if is_renamed else text + wrapper


OWN_SOLVE = "#define solve solve_of_the_file"
"""Renames a `solve` that a draft wraps in one of the task's signature."""


def _calling(point: EntryPoint, function: DefinedFunction) -> EntryPoint:
    """Return an entry point under the name that its function has behind OWN_SOLVE."""
    before, after = point.function.qualified, function.qualified
    statements = tuple(one.replace(f"{before}(", f"{after}(") for one in point.statements)
    return replace(point, function=function, statements=statements)


def _is_solve(point: EntryPoint) -> bool:
    """Return whether the entry is what a task calls: `void solve` of numbers and pointers."""
    function = point.function
    names = tuple(one.name for one in function.parameters)
    return (
        function.qualified == "solve"
        and not function.is_kernel
        and not function.templates
        and function.returns == "void"
        and point.passed == names
        and not point.statements
        and not any(one.reference for one in function.parameters)
        and all(
            p.const or a.role != ArgumentRole.IN
            for p, a in zip(function.parameters, point.arguments, strict=True)
        )
    )


def _without_program(source: str, read: CudaSource, used: Collection[str]) -> str:
    """Return `source` with `main` blanked, and the host functions that it alone calls.

    `used` are names that what is behind the source uses.
    What a program does around a kernel, as printing and reading files, no kernel of a task may.
    """
    programs = [one for one in read.functions if one.name == "main" and not one.scope]
    if not programs or "main" in used:
        return source
    of_program = {name for one in programs for name in _called(read, one)}
    kept: set[str] = set()
    for one in read.functions:
        if one not in programs and (
            one.is_kernel
            or one.on_device
            or one.in_class
            or one.name not in of_program
            or one.name in used
        ):
            kept |= {one.name, *_called(read, one)}
    dropped = [
        one
        for one in read.functions
        if one in programs or (one.name in of_program and one.name not in kept and not one.in_class)
    ]
    for one in sorted(dropped, key=lambda one: -one.start):
        lines = source.count("\n", one.start, one.end)
        source = (
            f"{source[: one.start]}// {one.name}() is left out{chr(10) * lines}{source[one.end :]}"
        )
    return source


_POINT_TO_ROWS = """
template <typename T>
__global__ void point_to_rows(T** rows, T* first, long long row, long long count)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < count) { rows[i] = first + i * row; }
}
"""


@dataclass(frozen=True, kw_only=True)
class _Launch:
    """The lines of a `solve` that call an entry."""

    lines: tuple[str, ...]
    head: str = ""
    """A remark above `solve`."""


def _unmarked(line: str) -> str:
    """Return a line of a launch that was executed, without its mark."""
    return line.split(" // CONFIRM")[0]


def _choices(read: CudaSource, point: EntryPoint, dims: Sequence[str]) -> list[_Launch]:
    """Return the ways to launch an entry: the source's own, or several guesses."""
    function = point.function
    passed = ", ".join(_passed(point))
    if not function.is_kernel:
        return [_Launch(lines=(f"{point.called}({passed});",))]
    found = find_launch(read, function, point.template)
    if found is not None:
        mark = " // CONFIRM: as the file does, for one size" * found.has_sizes
        grid = ", ".join(found.configuration)
        return [_Launch(lines=(*found.statements, f"{point.called}<<<{grid}>>>({passed});{mark}"))]
    head = f"\n// CONFIRM: launch {function.qualified} the way your program does."
    call = f"{point.called}<<<blocks, threads>>>({passed}); // CONFIRM: shared memory, order"
    # A thread an element of the dim that its index is compared with, or of all dims.
    along = _along(function, "x", dims)
    covered = dict.fromkeys(((along,) if along else tuple(dims), tuple(dims)))
    shapes = [
        *(_launch_shape(function, point, dims, one) for one in covered),
        *_block_an_index(function, dims),
    ]
    return [_Launch(lines=(*shape, call), head=head) for shape in shapes]


def _block_an_index(function: DefinedFunction, dims: Sequence[str]) -> Iterator[list[str]]:
    """Yield launches in which a block is an index of a dim, on each axis of the grid in use."""
    body = spell(function.body)
    axes = [axis for axis in "xyz" if re.search(rf"\bblockIdx\.{axis}\b", body)]
    threads = function.largest_block or "256"
    for chosen in islice(permutations(dims, len(axes)) if axes else (), MOST_LAUNCHES):
        yield [f"dim3 threads({threads});", f"dim3 blocks({', '.join(chosen)}); // CONFIRM"]


def _solve(
    read: CudaSource,
    point: EntryPoint,
    dims: Sequence[str],
    extents: Mapping[str, tuple[str, ...]],
    launches: Sequence[_Launch],
    *,
    tried: bool = False,
) -> str:
    """Write a `solve` that makes the first launch; of a `solve` that is tried, a last argument
    `choice` names the launch."""
    parameters = [
        f"{'const ' if one.role == ArgumentRole.IN else ''}"
        f"{CTYPES[one.dtype] if one.dtype else 'cudaStream_t'}"
        f"{'*' if one.is_buffer else ''} {one.name}"
        for one in point.arguments
    ]
    before = [_filled_in(one, point, extents) for one in point.statements]
    call = list(launches[0].lines)
    if tried:
        parameters.append("int choice")
        call = [
            f"if (choice == {number}) {{ {' '.join(map(_unmarked, one.lines))} }}"
            for number, one in enumerate(launches)
        ]
    lines = [*before, *call, *point.after, "cudaDeviceSynchronize();"]
    rows = _POINT_TO_ROWS if any(one.axis for one in point.arguments) else ""
    body = "".join(f"    {line}\n" for line in lines)
    head = "" if tried else launches[0].head
    return f'{rows}{head}\nextern "C" void solve({", ".join(parameters)})\n{{\n{body}}}\n'


def _passed(point: EntryPoint) -> Iterator[str]:
    """Yield what is passed; what is only read through a pointer that is not const needs a cast."""
    reads = {one.name for one in point.arguments if one.role == ArgumentRole.IN}
    for parameter, given in zip(point.function.parameters, point.passed, strict=True):
        is_plain = given == parameter.name and given in reads and not parameter.const
        yield f"const_cast<{parameter.ctype}*>({given})" if is_plain else given


def _filled_in(statement: str, point: EntryPoint, extents: Mapping[str, tuple[str, ...]]) -> str:
    """Return a statement of an entry point with what follows from dims and shapes."""
    named = next((one for one in point.arguments if f"({one.name}_rows, " in statement), None)
    row = _volume(extents[named.name][1:]) if named else ""
    return statement.replace(ROW, row)


def _volume(extents: Sequence[str]) -> str:
    """Return a product of extents in C++."""
    factors = [one if re.fullmatch(r"\w+", one) else f"({one})" for one in extents]
    return " * ".join(f"(long long){one}" if not i else one for i, one in enumerate(factors)) or "1"


def _along(function: DefinedFunction, axis: str, dims: Sequence[str]) -> str:
    """Return the dim that indices along an axis of the grid are compared with; empty for none."""
    body = spell(function.body)
    for index in re.findall(rf"\b(\w+) = [^;=]*\bthreadIdx\.{axis}\b", body):
        for dim in re.findall(rf"\b{index} (?:<|>=) (?:\w+\.)?(\w+)\b(?! \*)", body):
            if dim in dims:
                return str(dim)
    return ""


def _launch_shape(
    function: DefinedFunction, point: EntryPoint, dims: Sequence[str], covered: Sequence[str]
) -> list[str]:
    """Write blocks and threads, a thread for each index of the `covered` dims; two axes where the
    kernel uses `.y`."""
    if not any(one.is_dim for one in point.arguments):
        return ["dim3 threads(256);", "dim3 blocks(1); // CONFIRM: the kernel takes no size"]
    body = spell(function.body)
    if len(dims) >= 2 and re.search(r"\b(?:threadIdx|blockIdx)\.y\b", body):
        x = _along(function, "x", dims) or dims[1]
        y = _along(function, "y", dims) or next(dim for dim in dims if dim != x)
        return [
            f"dim3 threads(16, 16); // CONFIRM: x over {x}, y over {y}",
            f"dim3 blocks(({x} + 15) / 16, ({y} + 15) / 16); // CONFIRM",
        ]
    threads = _block_of(point, body)
    block = threads if threads.isalnum() else f"({threads})"
    grid = f"({_volume(covered)} + {block} - 1) / {block}"
    if threads == "256":
        grid = f"({_volume(covered)} + 255) / 256"
    return [
        f"dim3 threads({threads});",
        f"dim3 blocks({grid}); // CONFIRM: one thread an element",
    ]


def _block_of(point: EntryPoint, body: str) -> str:
    """Return how many threads a block of a kernel has: what `__launch_bounds__` allows, what its
    first index multiplies blocks by, or 256."""
    if bounds := point.function.largest_block:
        return point.meanings.get(bounds, bounds)
    found = re.search(r"\bblockIdx\.x \* (\w+)\b(?!\()", body)
    factor = found[1] if found else ""
    is_number = factor in point.meanings or factor.isupper() or factor.isdigit()
    return point.meanings.get(factor, factor) if is_number or factor.startswith("k") else "256"
