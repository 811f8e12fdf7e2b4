"""Fresh inputs for many calls at once: one draw fills a whole group of slots."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.reference import Reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import Array, Arrays
from cuda_llm.tools.buffers import BufferSpec, Role
from cuda_llm.tools.device import SCRATCH_BYTES, Level
from cuda_llm.tools.validator.cases import Case, timed_case
from cuda_llm.tools.validator.check_outputs import Method
from cuda_llm.tools.validator.distributions import draw
from cuda_llm.tools.validator.layout import Dims, buffer_specs

GROUP_BYTES = 1 << 28
"""Inputs drawn at once, unless one call needs more."""

INDEPENDENT = frozenset(
    {"normal", "uniform", "uniform_signed", "uniform_unit", "heavy_tail", "large", "denormal"}
    | {"zeros", "sparse", "all_equal", "ints", "ints_full_range", "bins"}
)
"""Distributions in which no element depends on where in the array it stands."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the inputs of one timed size are drawn."""

    task: Task
    dims: Dims
    arrays: Arrays
    reference: Reference | None = None
    """The task's, loaded once."""
    method: Method = Method.REFERENCE
    """How outputs are compared."""
    scratch_bytes: int = SCRATCH_BYTES
    """Room in a kernel for what `solve` allocates."""
    trusted_scratch_bytes: int = SCRATCH_BYTES
    """The same in a trusted kernel."""

    @cached_property
    def case(self) -> Case:
        """The size as verdicts name it."""
        return timed_case(self.task, self.dims, Level.CHECK, "bench")

    @cached_property
    def specs(self) -> tuple[BufferSpec, ...]:
        """The buffers of a call."""
        return buffer_specs(self.task, self.dims)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Slots whose contents come from one seed."""

    slots: tuple[int, ...]
    seed: int
    """128 secret bits."""


def input_bytes(specs: Sequence[BufferSpec]) -> int:
    """Of one call."""
    return sum(spec.nbytes for spec in specs if spec.role is not Role.OUT)


def in_groups(recipe: Recipe, slots: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The slots, as many at a time as are drawn at once."""
    each = max(1, input_bytes(recipe.specs))
    size = max(1, GROUP_BYTES // each)
    for first in range(0, len(slots), size):
        yield tuple(slots[first : first + size])


def draw_group(recipe: Recipe, group: Group) -> Mapping[str, Array]:
    """Contents of every input, the slots of the group along the first axis."""
    rng = recipe.arrays.generator(group.seed)
    shapes = {spec.name: spec for spec in recipe.specs}
    drawn: dict[str, Array] = {}
    for name, spelling in recipe.case.distributions.items():
        spec = shapes[name]
        fresh = partial(
            draw, spelling, rng, dtype=spec.dtype, dims=recipe.dims, arrays=recipe.arrays
        )
        shape = (len(group.slots), *spec.shape)
        if parse_distribution(spelling).name in INDEPENDENT:
            drawn[name] = fresh(shape)
        elif len(group.slots) == 1:
            drawn[name] = fresh(spec.shape).reshape(shape)
        else:
            drawn[name] = recipe.arrays.xp.empty(shape, spec.dtype)
            for row in range(len(group.slots)):
                drawn[name][row, ...] = fresh(spec.shape)
    return drawn
