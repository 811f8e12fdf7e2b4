"""Writes the files of a task folder from an imported problem."""

import json
import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.sizes import item_bytes
from cuda_llm.tasks.task import is_float
from cuda_llm.tools.kernelbench.extents import Expressed
from cuda_llm.tools.kernelbench.small_sizes import SmallSizes
from cuda_llm.tools.kernelbench.tolerance import Judging, ScaleRule
from cuda_llm.tools.kernelbench.trace import ModuleTrace

_TAKEN = frozenset({"xp", "torch", "int", "float", "double", "bool", "char", "register", "signed"})


@dataclass(frozen=True, kw_only=True)
class SolveArgument:
    """An argument of `solve`."""

    name: str
    source: str
    """Name of the argument in forward, or in the module's state; empty for outputs."""
    dtype: str
    shape: tuple[str, ...]
    distributions: tuple[str, ...] = ()
    value: str = ""
    """Value of a number that forward takes; empty for tensors."""


@dataclass(frozen=True, kw_only=True)
class ImportedProblem:
    """Contents of all files of a task folder."""

    title: str
    source: str
    trace: ModuleTrace
    expressed: Expressed
    sizes: SmallSizes
    inputs: tuple[SolveArgument, ...]
    """Forward's arguments in order, numbers among them."""
    state: tuple[SolveArgument, ...]
    outputs: tuple[SolveArgument, ...]
    judging: Judging


def name_arguments(wanted: Iterable[str], dims: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each name, none a dim's and none twice."""
    used, named = set(dims) | _TAKEN, {}
    for source in wanted:
        name = "".join(char if char.isalnum() else "_" for char in source)
        while name in used or keyword.iskeyword(name):
            name += "_"
        used.add(name)
        named[source] = name
    return named


def files_of(problem: ImportedProblem) -> dict[str, str]:
    """Return the text of each file of the folder."""
    return {
        "module.py": problem.source,
        "task.toml": _task_toml(problem),
        "description.md": _description(problem),
        "reference.py": _reference(problem),
        "baseline.py": _baseline(problem),
    }


def _task_toml(problem: ImportedProblem) -> str:
    dims = problem.expressed.dims
    lines = [
        f"title = {json.dumps(problem.title)}",
        'origin = "a problem of KernelBench"',
        "",
        "[dims]",
        *(
            f"{name} = {json.dumps(f'{name} of the problem, {own:,}')}"
            for name, own in dims.items()
        ),
    ]
    for role, arguments in (
        ("in", problem.inputs),
        ("in", problem.state),
        ("out", problem.outputs),
    ):
        for one in arguments:
            lines += ["", "[[arguments]]", *_argument(one, role)]
    for name in dims:
        lines += ["", "[[arguments]]", f'name = "{name}"', 'role = "scalar"', 'dtype = "int32"']
    sizes = problem.sizes
    ranges = ", ".join(
        f"{name} = {{ min = {one.minimum}, max = {one.maximum} }}"
        for name, one in sizes.hidden.items()
    )
    lines += [
        "",
        "[sizes]",
        f"bench = [{_table(dims)}]",
        f"edge = [{', '.join(map(_table, sizes.edge))}]",
        f"emulated = [{', '.join(map(_table, sizes.emulated))}]",
        "",
        "[sizes.hidden]",
        f"dims = {{ {ranges} }}",
        "",
        "[tolerance]",
        f'kind = "{problem.judging.kind}"',
        *(_accuracy(problem) if problem.judging.kind != "exact" else []),
        "",
        "[roofline]",
        f'flops = "{_flops(problem)}"',
        f'bytes = "{_bytes(problem)}"',
        "",
        "[capabilities]",
        f'scratch_bytes = "{_bytes(problem)} + 1048576"',
    ]
    return "\n".join(lines) + "\n"


def _argument(one: SolveArgument, role: str) -> list[str]:
    if one.value:
        return [f'name = "{one.name}"', 'role = "scalar"', *_typed(one), f'value = "{one.value}"']
    lines = [
        f'name = "{one.name}"',
        f'role = "{role}"',
        *_typed(one),
        f"shape = {_list(one.shape)}",
    ]
    return lines + ([f"distributions = {_list(one.distributions)}"] if role == "in" else [])


def _accuracy(problem: ImportedProblem) -> list[str]:
    """Return the lines for computed outputs: short ones round their sums in fp32 once."""
    shortest = min(
        (element_type(one.dtype).floating for one in problem.outputs if is_float(one.dtype)),
        key=lambda format: format.significand_bits,
    )
    lines = [f'terms = "{problem.judging.terms}"']
    return [*lines, f'precision = "{shortest.name}"'] if shortest.is_short else lines


def _typed(one: SolveArgument) -> list[str]:
    return [f'dtype = "{one.dtype}"']


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(json.dumps, texts))}]"


def _table(dims: Mapping[str, int]) -> str:
    return "{ " + ", ".join(f"{name} = {value}" for name, value in dims.items()) + " }"


def _product(shape: Sequence[str]) -> str:
    return " * ".join(one if one.isidentifier() or one.isdigit() else f"({one})" for one in shape)


def _bytes(problem: ImportedProblem) -> str:
    tensors = (one for one in (*problem.inputs, *problem.state, *problem.outputs) if one.shape)
    return " + ".join(f"{item_bytes(one.dtype)} * {_product(one.shape)}" for one in tensors)


def _flops(problem: ImportedProblem) -> str:
    if problem.expressed.flops != "0":
        return problem.expressed.flops
    computed = problem.judging.kind != "exact" and is_float(problem.outputs[0].dtype)
    return _product(problem.outputs[0].shape) if computed else "0"


def _passed(problem: ImportedProblem) -> tuple[str, str]:
    """Return the parameters of a function, and how it hands them to the module."""
    dims = problem.expressed.dims
    names = [one.name for one in (*problem.inputs, *problem.state)]
    inputs = ", ".join(one.name for one in problem.inputs)
    state = ", ".join(f'"{one.source}": {one.name}' for one in problem.state)
    given = ", ".join(f'"{name}": {name}' for name in dims)
    return ", ".join([*names, *dims]), f"[{inputs}], {{{state}}}, {{{given}}}"


def _reference(problem: ImportedProblem) -> str:
    parameters, passed = _passed(problem)
    names = ", ".join(f'"{one.name}"' for one in problem.outputs)
    text = (
        '"""The module of module.py, computed in float64."""\n\n'
        "from pathlib import Path\n\n"
        "from cuda_llm.tasks.torch_module import TorchModule\n\n"
        "PROMOTED = False\n"
        '_MODULE = TorchModule(Path(__file__).with_name("module.py"))\n'
        f"_OUTPUTS = [{names}]\n\n\n"
        f"def reference(xp, *, {parameters}):\n"
        f"    return _MODULE.compute(xp, {passed}, _OUTPUTS)\n"
    )
    match problem.judging.scale:
        case ScaleRule.TERMS:
            text += (
                f"\n\ndef scale(xp, *, {parameters}):\n"
                f"    return _MODULE.scale(xp, {passed}, _OUTPUTS)\n"
            )
        case ScaleRule.SPREAD:
            text += (
                f"\n\ndef scale(xp, *, {parameters}):\n"
                f"    expected = _MODULE.compute(xp, {passed}, _OUTPUTS)\n"
                "    return _MODULE.spread(xp, expected)\n"
            )
    return text


def _baseline(problem: ImportedProblem) -> str:
    parameters, passed = _passed(problem)
    return (
        '"""The module of module.py as it is, in eager PyTorch."""\n\n'
        "from pathlib import Path\n\n"
        "from cuda_llm.tasks.torch_module import TorchModule\n\n"
        'NAME = "the module in PyTorch"\n'
        '_MODULE = TorchModule(Path(__file__).with_name("module.py"))\n\n\n'
        f"def call(torch, *, {parameters}):\n"
        f"    return _MODULE.call(torch, {passed})\n"
    )


def _description(problem: ImportedProblem) -> str:
    lines = [
        "Compute what the forward pass of this PyTorch module computes, in training mode as it is",
        "constructed, for any of the sizes:",
        "",
        "```python",
        problem.source.strip(),
        "```",
        "",
    ]
    lines += [f"- `{one.name}`: forward's `{one.source}`, {_told(one)}." for one in problem.inputs]
    lines += [
        f"- `{one.name}`: the module's `{one.source}`, {_told(one)}." for one in problem.state
    ]
    for place, one in enumerate(problem.outputs):
        which = f"result {place}" if len(problem.outputs) > 1 else "the result"
        lines.append(f"- `{one.name}`: {which}, {_told(one)}.")
    lines += [
        "",
        "Whole numbers of the file that are no argument keep their values at every size; all other",
        "tensors of the module are as its constructor makes them. Any values may occur in the",
        "arguments, also where the file draws special ones.",
    ]
    return "\n".join(lines) + "\n"


def _told(one: SolveArgument) -> str:
    extents = " x ".join(one.shape)
    return f"{one.dtype} [{extents}]" if one.shape else f"the number {one.value}"
