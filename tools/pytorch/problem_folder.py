"""Writes the files of a task folder that was made of a call of PyTorch."""

import json
import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.tasks.element_types import FORMATS
from cuda_llm.tasks.sizes import item_bytes
from cuda_llm.tasks.task import is_float
from cuda_llm.tools.pytorch.extents import Expressed
from cuda_llm.tools.pytorch.own_result import Accuracy
from cuda_llm.tools.pytorch.small_sizes import SmallSizes
from cuda_llm.tools.pytorch.subject import Wording
from cuda_llm.tools.pytorch.tolerance import Judging, ScaleRule
from cuda_llm.tools.pytorch.trace import ModuleTrace

_TAKEN = frozenset({"xp", "torch", "int", "float", "double", "bool", "char", "register", "signed"})


@dataclass(frozen=True, kw_only=True)
class SolveArgument:
    """An argument of `solve`."""

    name: str
    source: str
    """Name of the argument of the call, or in a module's state; empty for outputs."""
    dtype: str
    shape: tuple[str, ...]
    distributions: tuple[str, ...] = ()
    value: str = ""
    """Value of an argument that is no tensor, as Python writes it; empty for tensors."""
    rank: int | None = None
    """Axes of an argument of the call; 0 where its one element is a tensor without axes."""

    @property
    def is_number(self) -> bool:
        """Return whether `solve` takes the value: a number, but no truth value."""
        return self.value[:1].isdigit() or self.value[:1] == "-"

    @property
    def passed(self) -> str:
        """Return what reference.py and baseline.py hand to the call."""
        if self.value and not self.is_number:
            return self.value
        return f"{self.name}.reshape(())" if self.rank == 0 else self.name


@dataclass(frozen=True, kw_only=True)
class ImportedProblem:
    """Contents of all files of a task folder."""

    wording: Wording
    source: str
    constructor: tuple[str, str]
    trace: ModuleTrace
    expressed: Expressed
    sizes: SmallSizes
    inputs: tuple[SolveArgument, ...]
    """Arguments of the call in order, numbers among them."""
    state: tuple[SolveArgument, ...]
    outputs: tuple[SolveArgument, ...]
    judging: Judging
    accuracy: Accuracy
    makers: str = ""
    """Text of inputs.py; empty where distributions suffice."""
    split: str = ""
    """Dim along which outputs can be computed in parts."""


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
    makers = {"inputs.py": problem.makers} if problem.makers else {}
    return {
        **makers,
        "module.py": problem.source,
        "task.toml": _task_toml(problem),
        "description.md": _description(problem),
        "reference.py": _reference(problem),
        "baseline.py": _baseline(problem),
    }


def _task_toml(problem: ImportedProblem) -> str:
    dims, ranges_of = problem.expressed.dims, problem.sizes.hidden
    multiples = " and ".join(
        f"{name} % {one.multiple_of} == 0" for name, one in ranges_of.items() if one.multiple_of > 1
    )
    lines = [
        f"title = {json.dumps(problem.wording.title)}",
        f"origin = {json.dumps(problem.wording.origin)}",
        *([f"requires = {json.dumps(multiples)}"] if multiples else []),
        "",
        "[dims]",
        *(
            f"{name} = {json.dumps(problem.wording.dim.format(name=name, value=own))}"
            for name, own in dims.items()
        ),
    ]
    for role, arguments in (
        ("in", problem.inputs),
        ("in", problem.state),
        ("out", problem.outputs),
    ):
        for one in arguments:
            if one.is_number or not one.value:
                lines += ["", "[[arguments]]", *_argument(one, role)]
    for name in dims:
        lines += ["", "[[arguments]]", f'name = "{name}"', 'role = "scalar"', 'dtype = "int32"']
    sizes = problem.sizes
    ranges = ", ".join(
        f"{name} = {{ min = {one.minimum}, max = {one.maximum}"
        + f", multiple_of = {one.multiple_of}" * (one.multiple_of > 1)
        + " }"
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
    """Return the lines for computed outputs."""
    own = problem.accuracy
    lines = [f'terms = "{problem.judging.terms}"']
    if own.precision != "fp32":
        lines.append(f'precision = "{own.precision}"')
    if own.roundings > 1:
        lines.append(f"roundings = {own.roundings}")
    if own.max_units:
        lines.append(f"max_units = {own.max_units}")
    return lines


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
    given_names = (one for one in problem.inputs if one.is_number or not one.value)
    names = [one.name for one in (*given_names, *problem.state)]
    inputs = ", ".join(one.passed for one in problem.inputs)
    state = ", ".join(f'"{one.source}": {one.name}' for one in problem.state)
    given = ", ".join(f'"{name}": {name}' for name in dims)
    return ", ".join([*names, *dims]), f"[{inputs}], {{{state}}}, {{{given}}}"


def _imports(problem: ImportedProblem) -> str:
    module, constructed = problem.constructor
    name = constructed.partition("(")[0]
    return f"from pathlib import Path\n\nfrom cuda_llm.tasks.{module} import {name}\n\n"


def _constructed(problem: ImportedProblem) -> str:
    return f"_CALL = {problem.constructor[1]}\n"


def _reference(problem: ImportedProblem) -> str:
    parameters, passed = _passed(problem)
    names = ", ".join(f'"{one.name}"' for one in problem.outputs)
    text = (
        f'"""The {problem.wording.noun} of module.py, computed in float64."""\n\n'
        f"{_imports(problem)}"
        "PROMOTED = False\n"
        f"{_constructed(problem)}"
        f"_OUTPUTS = [{names}]\n"
        + f'SPLIT = "{problem.split}"\n'
        * bool(problem.split)
        + f"\n\ndef reference(xp, *, {parameters}):\n"
        f"    return _CALL.compute(xp, {passed}, _OUTPUTS)\n"
    )
    match problem.judging.scale:
        case ScaleRule.TERMS:
            text += (
                f"\n\ndef scale(xp, *, {parameters}):\n"
                f"    return _CALL.scale(xp, {passed}, _OUTPUTS)\n"
            )
        case ScaleRule.SPREAD:
            text += (
                f"\n\ndef scale(xp, *, {parameters}):\n"
                f"    expected = _CALL.compute(xp, {passed}, _OUTPUTS)\n" + _spread(problem, passed)
            )
    return text


def _spread(problem: ImportedProblem, passed: str) -> str:
    types = ", ".join(f'"{one.dtype}"' for one in (*problem.inputs, *problem.state))
    bits = FORMATS[problem.accuracy.precision].significand_bits
    return (
        f"    own = _CALL.compute(xp, {passed}, _OUTPUTS, [{types}])\n"
        f"    return _CALL.spread(xp, expected, own, unit=2.0**-{bits})\n"
    )


def _baseline(problem: ImportedProblem) -> str:
    parameters, passed = _passed(problem)
    return (
        f'"""The {problem.wording.noun} of module.py as it is, in eager PyTorch."""\n\n'
        f"{_imports(problem)}"
        f'NAME = "the {problem.wording.noun} in PyTorch"\n'
        f"{_constructed(problem)}\n\n"
        f"def call(torch, *, {parameters}):\n"
        f"    return _CALL.call(torch, {passed})\n"
    )


def _description(problem: ImportedProblem) -> str:
    words = problem.wording
    lines = [
        words.computes,
        "",
        "```python",
        problem.source.strip(),
        "```",
        "",
    ]
    lines += [
        f"- `{one.name}`: {words.argument} `{one.source}`, {_told(one)}." for one in problem.inputs
    ]
    lines += [
        f"- `{one.name}`: the module's `{one.source}`, {_told(one)}." for one in problem.state
    ]
    for place, one in enumerate(problem.outputs):
        which = f"result {place}" if len(problem.outputs) > 1 else "the result"
        lines.append(f"- `{one.name}`: {which}, {_told(one)}.")
    lines += ["", words.remarks]
    return "\n".join(lines) + "\n"


def _told(one: SolveArgument) -> str:
    extents = ", ".join(one.shape)
    if one.shape:
        return f"{one.dtype} [{extents}]"
    return f"the number {one.value}" if one.is_number else f"always {one.value}"
