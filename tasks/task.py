"""The values that make up a task, which are also the schema of `task.toml`.

A task is read from its folder by `tasks.loader.load_task`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from cuda_llm.data_file import Amount, Count, Extent, Identifier, Positive, Rule, Text, UnfitError
from cuda_llm.profile import Objective
from cuda_llm.tasks.declared_types import DECLARED_TYPES, STREAM, DeclaredType
from cuda_llm.tasks.element_types import ELEMENT_TYPES, FORMATS, ElementType, element_type
from cuda_llm.tasks.expressions import Expression, OptionalExpression

CTYPES: Mapping[str, str] = MappingProxyType(
    {name: one.ctypes[0] for name, one in ELEMENT_TYPES.items()}
)
"""Element type to the C++ type that `solve` declares."""


def is_float(dtype: str) -> bool:
    """Return whether elements of `dtype` are floating-point numbers."""
    return element_type(dtype).is_float


def _one_of(names: Iterable[str]) -> Rule:
    known = list(names)
    return Rule(lambda core: core.literal_schema(known), f"one of {', '.join(known)}")


def _folder_below_task(value: Any, info: Any) -> Path:
    path = (Path(info.context["folder"]) / str(value)).resolve()
    if not isinstance(value, str) or not path.is_dir():
        raise UnfitError(value, "a folder, relative to the task's")
    return path


RelativeFolder = Annotated[
    Path, Rule(lambda core: core.with_info_plain_validator_function(_folder_below_task))
]
Dtype = Annotated[str, _one_of(CTYPES)]
Ctype = Annotated[
    str,
    Rule(
        lambda core: core.literal_schema(["", *(one for one in DECLARED_TYPES if one != STREAM)]),
        "a C++ type such as float4, __nv_bfloat162, size_t or void (docs/task-toml.md)",
    ),
]
Precision = Annotated[str, _one_of(FORMATS)]


class ArgumentRole(StrEnum):
    """Role of an argument of `solve`: a buffer (input, output, both, or one for the work between
    them), a number, or the stream to work on."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    WORKSPACE = "workspace"
    """A buffer that arrives with garbage, and whose contents nobody looks at afterwards."""
    SCALAR = "scalar"
    STREAM = "stream"
    """A `cudaStream_t`: the stream that is timed."""


@dataclass(frozen=True, kw_only=True)
class TaskArgument:
    """An argument of `solve`; arguments are kept in their order."""

    name: Identifier
    role: ArgumentRole
    dtype: Dtype = ""
    """Name of an element type: `float32`, `int32`, `bfloat16` ...; for scalars too. A stream has
    none."""
    ctype: Ctype = ""
    """C++ type that `solve` declares, of which a buffer's pointer points to: a vector of the
    elements, another spelling, or `void`; empty: the element type's own."""
    shape: tuple[Expression, ...] = ()
    """Expressions in dims, e.g. `("H - R + 1", "W - S + 1")`; empty for scalars."""
    initial: OptionalExpression = ""
    """Outputs: an expression in dims, the value that every element arrives with; empty: garbage."""
    value: OptionalExpression = ""
    """Scalars: an expression in dims, e.g. `n`."""
    distributions: tuple[str, ...] = ()
    """Distributions of an input, spelled as in `tasks.distribution`; timing uses the first."""
    probe: str = ""
    """Float inputs of linear tasks: the distribution of the exactness probe."""

    @property
    def is_buffer(self) -> bool:
        """Return whether the argument is a pointer to device memory."""
        return self.role not in (ArgumentRole.SCALAR, ArgumentRole.STREAM)

    @property
    def is_output(self) -> bool:
        """Return whether the argument is a buffer whose contents are compared after a call."""
        return self.role in (ArgumentRole.OUT, ArgumentRole.INOUT)

    @property
    def declared(self) -> DeclaredType:
        """Return the C++ type that `solve` declares."""
        own = CTYPES[self.dtype] if self.dtype else STREAM
        return DECLARED_TYPES[self.ctype or own]


class ToleranceClass(StrEnum):
    """Rule by which an element's error is normalised (`docs/referee.md`)."""

    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    DOT = "dot"
    EXACT = "exact"


class SummationOrder(StrEnum):
    """Order in which a kernel may add up the terms of an output element."""

    ANY = "any"
    """A single accumulator may take every term in turn, as float atomics do."""
    TREE = "tree"
    """Partial sums must be combined pairwise: the error may not grow with the number of terms."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Limits of a result's error within which the result counts as correct.

    The error of an element is normalised by its scale (`tasks.reference`) and counted in rounding
    units of `precision` (2^-24 for fp32). What an honest fp32 kernel may reach depends on how its
    terms are added and on their signs; with t = `terms`:

    - terms of random sign: a constant, whatever the order (integrity: 32 max, 4 rms);
    - random terms of one sign: max(32, 2 sqrt(t)) in any order, 32 as a tree;
    - terms of one sign that repeat (`all_equal`, `constant_rows`): every addition may round the
      same way, so only the worst case t holds in any order (Higham, Accuracy and Stability of
      Numerical Algorithms, section 4.2), and log2(t) + 2 as a tree.
    """

    kind: ToleranceClass
    precision: Precision = "fp32"
    """`fp32`, `tf32`, `fp16`, `bf16`, `e4m3` ...: the rounding the task allows inside."""
    max_units: Amount = 0.0
    """Largest normalised error in units of the precision's rounding unit; 0: the limit of the
    class."""
    rms_units: Amount = 0.0
    order: SummationOrder = SummationOrder.ANY
    terms: Expression = "1"
    """Number of terms that are added for an output element, as an expression in dims."""
    roundings: Count = 1
    """How often a value is rounded to a `precision` of 16 or 8 bits on its way to an output: once,
    at the end, where all else is kept in fp32; after each operator in eager PyTorch."""
    bits: bool = False
    """With `exact`: values are moved, so -0 and the bits of a NaN have to be preserved."""


@dataclass(frozen=True, kw_only=True)
class DimRange:
    """Range and step from which a hidden size draws one dim."""

    __pydantic_config__: ClassVar[Any] = {
        "alias_generator": lambda name: {"minimum": "min", "maximum": "max"}.get(name, name)
    }

    minimum: Count
    maximum: Count
    multiple_of: Count = 1


@dataclass(frozen=True, kw_only=True)
class HiddenSizes:
    """Ranges from which the validator draws fresh sizes. Never shown to an agent.

    A drawn size must also meet `Task.requires` and have `cost` at most `max_cost`.
    """

    dims: Mapping[str, DimRange]
    count: Count = 4
    cost: Expression = "1"
    """Expression in dims: approximate work of the baseline at a size."""
    max_cost: Amount = float("inf")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Dims of the cases, by group."""

    bench: tuple[Mapping[str, Count], ...]
    edge: tuple[Mapping[str, Extent], ...]
    emulated: tuple[Mapping[str, Count], ...]
    """Sizes at which an emulated device executes every block and compares results."""
    large: tuple[Mapping[str, Count], ...] = ()
    """Sizes at which results are compared before a kernel becomes the incumbent, on a GPU with
    enough memory: more than 2^31 bytes, or more than 2^16 rows. Large sizes are never timed."""
    hidden: HiddenSizes = field(default_factory=lambda: HiddenSizes(dims={}))


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Least work that any kernel must do, as expressions in dims."""

    flops: Expression
    bytes: Expression


@dataclass(frozen=True, kw_only=True)
class TaskCapabilities:
    """Permissions and compiler inputs of a task's candidates beyond launching kernels."""

    scratch_bytes: Expression = "0"
    """Expression in dims: device memory `solve` may hold beyond its arguments."""
    device_to_host: bool = False
    include_dirs: tuple[RelativeFolder, ...] = ()
    header_libraries: tuple[str, ...] = ()
    """Named in prompts: `cub`, `cooperative_groups` ..."""
    flags: tuple[str, ...] = ()
    defines: Mapping[str, Text] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PublishedSpeedup:
    """A published speed-up of a kernel over a baseline, never mixed with measured speed-ups."""

    gpu: Text
    factor: Positive
    source: Text


@dataclass(frozen=True, kw_only=True)
class Published:
    """Published figures of a task of the CUDA-LLM benchmark."""

    absolute_tolerance: Positive
    """Largest difference of an element that the benchmark's check allows."""
    speedups: tuple[PublishedSpeedup, ...]
    """Speed-ups by GPU; several for a GPU where sources disagree."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task that is ready to be judged."""

    name: str
    folder: Path
    title: Text
    origin: str = ""
    description: str
    dims: Mapping[Identifier, Text]
    """Meaning of each dim, by name."""
    arguments: tuple[TaskArgument, ...]
    requires: OptionalExpression = ""
    """Condition every drawn size must meet, e.g. `H >= R and W >= S`."""
    roofline: Roofline
    sizes: Sizes
    tolerance: Tolerance
    capabilities: TaskCapabilities = field(default_factory=TaskCapabilities)
    linear: bool = False
    """Whether the task is linear in its float inputs, so that the exactness probe applies."""
    baseline: Path
    """Path of the baseline: baseline.cu, or baseline.py with a call of PyTorch."""
    host: str
    """Host-code context for a prompt."""
    reference: Path | None
    """Path of reference.py; None: the baseline is the oracle and verdicts are marked
    `differential`."""
    inputs: Path | None = None
    """Path of inputs.py, which makes inputs that depend on each other."""
    comparator: str = ""
    """Name of a function in reference.py that judges results not compared element by element."""
    playbook: Path | None = None
    libraries: tuple[Path, ...] = ()
    """`vendor.py`, a call of PyTorch, and `vendor.cu`, a candidate of header libraries:
    professional alternatives to an own kernel."""
    published: Published | None = None
    strict: bool = False
    """Whether a race that changes no result is `DATA_RACE`, too: a plain read that only guards an
    atomic update."""
    objective: Objective = "geomean"
    """Rule by which the timed sizes make a single score (`tasks.objective`)."""
    weights: tuple[Positive, ...] = ()
    """Weight of each bench size; empty means equal weights."""
    regression_limit: Amount = 1.1
    """Largest allowed time at any size, as a multiple of the incumbent's time."""

    @property
    def element_types(self) -> Mapping[str, ElementType]:
        """Return the element type of each argument, by name; a stream has none."""
        return {one.name: element_type(one.dtype) for one in self.arguments if one.dtype}
