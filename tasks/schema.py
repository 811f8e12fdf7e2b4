"""task.toml and its neighbours to a `Task`, checked down to every size."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cuda_llm.errors import TaskError
from cuda_llm.tasks.distribution import FAMILIES, parse_distribution
from cuda_llm.tasks.dtypes import CTYPES, is_float
from cuda_llm.tasks.expressions import evaluate, names_in
from cuda_llm.tasks.shapes import scalar_value, shape_of
from cuda_llm.tasks.signature import host_context
from cuda_llm.tasks.sizes import read_sizes
from cuda_llm.tasks.task import (
    ArgumentRole,
    Capabilities,
    Roofline,
    Sizes,
    SummationOrder,
    Task,
    TaskArgument,
    Tolerance,
    ToleranceClass,
)
from cuda_llm.tasks.toml_table import TomlTable

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp64")


def read_task(folder: Path) -> Task:
    """Read and check a task folder. Raises TaskError."""
    root = TomlTable.read(folder / "task.toml")
    title = root.text("title")
    origin = root.text("origin", "")
    dims = _read_dims(root.table("dims"))
    arguments = tuple(_read_argument(table, dims) for table in root.tables("arguments"))
    _check_arguments(root, arguments, dims)
    requires = root.expression("requires", dims, "")
    roofline = _read_roofline(root.table("roofline"), dims)
    sizes = read_sizes(root.table("sizes"), dims, requires, roofline)
    tolerance = _read_tolerance(root.table("tolerance"), dims)
    capabilities = _read_capabilities(root.table("capabilities", optional=True), dims, folder)
    linear = root.flag("linear", False)
    comparator = root.text("comparator", "")
    weights = root.numbers("weights")
    if weights and len(weights) != len(sizes.bench):
        root.refuse("weights", f"{len(weights)} numbers", f"{len(sizes.bench)}, one a bench size")
    regression_limit = root.number("regression_limit", 1.1)
    root.finish()
    _check_sizes(root, sizes, arguments)
    reference = _optional(folder / "reference.py")
    if comparator and reference is None:
        root.refuse("comparator", comparator, "a reference.py that defines it")
    task = Task(
        name=folder.name,
        folder=folder,
        title=title,
        origin=origin,
        description=_text_of(folder / "description.md"),
        arguments=arguments,
        dims=dims,
        sizes=sizes,
        tolerance=tolerance,
        roofline=roofline,
        linear=linear,
        capabilities=capabilities,
        baseline=_required(folder / "baseline.cu"),
        host="",
        reference=reference,
        comparator=comparator,
        playbook=_optional(folder / "playbook.cu"),
        weights=weights,
        regression_limit=regression_limit,
        requires=requires,
    )
    host = _optional(folder / "host.cu")
    return replace(task, host=_text_of(host) if host else host_context(task))


def _read_dims(table: TomlTable) -> Mapping[str, str]:
    dims = {}
    for name in table.keys():  # noqa: SIM118 - a method of ours, not of a dict
        if not _IDENTIFIER.fullmatch(name):
            table.refuse(name, "a name that is no identifier", "letters, digits and _")
        dims[name] = table.text(name)
    return dims


def _read_argument(table: TomlTable, dims: Mapping[str, str]) -> TaskArgument:
    name = table.text("name")
    if not _IDENTIFIER.fullmatch(name):
        table.refuse("name", name, "letters, digits and _")
    role = table.choice("role", ArgumentRole)
    dtype = table.text("dtype")
    if dtype not in CTYPES:
        table.refuse("dtype", dtype, f"one of {', '.join(CTYPES)}")
    shape: tuple[str, ...] = ()
    value = ""
    distributions: tuple[str, ...] = ()
    probe = ""
    if role == ArgumentRole.SCALAR:
        value = table.expression("value", dims, name if name in dims else "")
        if not value:
            table.refuse("value", "nothing", "an expression in dims")
    else:
        shape = table.expressions("shape", dims)
    if role in (ArgumentRole.IN, ArgumentRole.INOUT):
        distributions = table.texts("distributions")
        if not distributions:
            table.refuse("distributions", "none", "at least one, the first being used for timing")
        for index, text in enumerate(distributions):
            _check_distribution(table, f"distributions[{index}]", text, dtype, dims)
        probe = table.text("probe", "")
        if probe:
            _check_distribution(table, "probe", probe, dtype, dims)
    table.finish()
    return TaskArgument(
        name=name,
        role=role,
        dtype=dtype,
        shape=shape,
        value=value,
        distributions=distributions,
        probe=probe,
    )


def _check_distribution(
    table: TomlTable, key: str, text: str, dtype: str, dims: Mapping[str, str]
) -> None:
    try:
        distribution = parse_distribution(text)
        unknown = frozenset().union(*map(names_in, distribution.arguments)) - set(dims)
    except TaskError as error:
        table.refuse(key, str(error), "a distribution")
    if unknown:
        table.refuse(key, f"unknown {', '.join(sorted(unknown))}", f"only {', '.join(dims)}")
    family = FAMILIES[distribution.name]
    if not (family.floats if is_float(dtype) else family.integers):
        table.refuse(key, f"{distribution.name} for {dtype}", f"a distribution of {dtype} values")


def _check_arguments(
    root: TomlTable, arguments: Sequence[TaskArgument], dims: Mapping[str, str]
) -> None:
    names = [argument.name for argument in arguments]
    for index, argument in enumerate(arguments):
        key = f"arguments[{index}].name"
        if argument.name in names[:index]:
            root.refuse(key, f"{argument.name} twice", "a name of its own")
        if argument.name in dims and argument.value != argument.name:
            root.refuse(key, f"{argument.name}, which is a dim", "a name no dim has")
    if not any(a.role in (ArgumentRole.OUT, ArgumentRole.INOUT) for a in arguments):
        root.refuse("arguments", "no output", "an argument with role out or inout")


def _read_roofline(table: TomlTable, dims: Mapping[str, str]) -> Roofline:
    roofline = Roofline(
        flops=table.expression("flops", dims), bytes=table.expression("bytes", dims)
    )
    table.finish()
    return roofline


def _read_tolerance(table: TomlTable, dims: Mapping[str, str]) -> Tolerance:
    kind = table.choice("kind", ToleranceClass)
    precision = table.text("precision", "fp32")
    if precision not in _PRECISIONS:
        table.refuse("precision", precision, f"one of {', '.join(_PRECISIONS)}")
    tolerance = Tolerance(
        kind=kind,
        precision=precision,
        max_units=table.number("max_units", 0.0),
        rms_units=table.number("rms_units", 0.0),
        order=table.choice("order", SummationOrder, SummationOrder.ANY),
        terms=table.expression("terms", dims, "1"),
    )
    table.finish()
    return tolerance


def _read_capabilities(table: TomlTable, dims: Mapping[str, str], folder: Path) -> Capabilities:
    include_dirs = []
    for index, text in enumerate(table.texts("include_dirs")):
        path = (folder / text).resolve()
        if not path.is_dir():
            table.refuse(f"include_dirs[{index}]", text, "a folder, relative to the task's")
        include_dirs.append(path)
    defines = table.table("defines", optional=True)
    capabilities = Capabilities(
        scratch_bytes=table.expression("scratch_bytes", dims, "0"),
        device_to_host=table.flag("device_to_host", False),
        include_dirs=tuple(include_dirs),
        header_libraries=table.texts("header_libraries"),
        flags=table.texts("flags"),
        defines={name: defines.text(name) for name in defines.keys()},  # noqa: SIM118
    )
    table.finish()
    return capabilities


def _check_sizes(root: TomlTable, sizes: Sizes, arguments: Sequence[TaskArgument]) -> None:
    """Every argument must have a shape or a value at every size that is written down."""
    for group in ("bench", "edge", "emulated"):
        for index, dims in enumerate(getattr(sizes, group)):
            for argument in arguments:
                try:
                    if argument.role == ArgumentRole.SCALAR:
                        scalar_value(argument, dims)
                    else:
                        shape_of(argument, dims)
                    for text in argument.distributions:
                        for value in parse_distribution(text).arguments:
                            evaluate(value, dims)
                except TaskError as error:
                    root.refuse(f"sizes.{group}[{index}]", str(error), "a size that fits all")


def _required(path: Path) -> Path:
    if not path.is_file():
        raise TaskError(f"{path}: not found; expected a file")
    return path


def _optional(path: Path) -> Path | None:
    return path if path.is_file() else None


def _text_of(path: Path) -> str:
    try:
        text = _required(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: cannot be read as text: {error}") from None
    if not text.strip():
        raise TaskError(f"{path}: is empty; expected some text")
    return text
