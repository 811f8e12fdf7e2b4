"""One kernel in many slots of buffers: captured, with inputs sealed until their call begins."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.reference import Dims, Reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import SCRATCH_BYTES, Level, TimeClass, TimedSession
from cuda_llm.tools.device.buffers import Array, Arrays, BufferSpec, Random, Slots
from cuda_llm.tools.timing.failures import baseline_refused
from cuda_llm.tools.validator.buffers import (
    buffer_specs,
    call_arguments,
    call_options,
    stated_contents,
)
from cuda_llm.tools.validator.cases import POISONS, Case, probe_densities, timed_case
from cuda_llm.tools.validator.check_outputs import Method
from cuda_llm.tools.validator.columns import fill
from cuda_llm.tools.validator.distributions import draw, draw_made, spellings_in

GROUP_BYTES = 1 << 28
"""Bytes of inputs drawn, and of outputs compared, at once, unless one call has more."""

INDEPENDENT = frozenset(
    {"normal", "uniform", "uniform_signed", "uniform_unit", "heavy_tail", "large", "denormal"}
    | {"zeros", "sparse", "all_equal", "ints", "ints_full_range", "bins"}
)
"""Distributions in which no element depends on its place in the array."""

KEY_BYTES = 16
SEED_BITS = 128


@dataclass(frozen=True, kw_only=True)
class InputPlan:
    """How inputs and expected outputs of one timed size are made."""

    task: Task
    dims: Dims
    arrays: Arrays
    reference: Reference | None = None
    """The task's, loaded once."""
    method: Method = Method.REFERENCE
    """How outputs are compared with the reference."""
    scratch_bytes: int = SCRATCH_BYTES
    """Memory that `solve` may allocate."""
    trusted_scratch_bytes: int = SCRATCH_BYTES
    """Scratch bytes of a trusted kernel."""

    kept_bytes: int = 0
    """Bytes of a batch's inputs that may be kept until its outputs are verified."""
    drawn: Case | None = None
    """Distributions beside the timed ones, for calls whose results alone count."""

    @cached_property
    def case(self) -> Case:
        """Return the size as a case, as verdicts name it."""
        return self.drawn or timed_case(self.task, self.dims, Level.CHECK, "bench")

    @cached_property
    def specs(self) -> tuple[BufferSpec, ...]:
        """Return the buffers of a call."""
        return buffer_specs(self.task, self.dims)


@dataclass(frozen=True, kw_only=True)
class SlotGroup:
    """Slots whose contents are drawn from one seed."""

    slots: tuple[int, ...]
    seed: int
    """The 128 secret bits."""
    kept: Mapping[str, Array] | None = None
    """The contents, where there is room for them."""


def input_bytes(specs: Sequence[BufferSpec]) -> int:
    """Return the bytes of one call's inputs."""
    return sum(spec.nbytes for spec in specs if spec.is_filled)


def split_into_groups(input_plan: InputPlan, slots: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the slots, as many at a time as are drawn at once."""
    outputs = sum(spec.nbytes for spec in input_plan.specs if spec.is_output)
    each = max(1, input_bytes(input_plan.specs), outputs)
    size = max(1, GROUP_BYTES // each)
    for first in range(0, len(slots), size):
        yield tuple(slots[first : first + size])


def draw_group(input_plan: InputPlan, group: SlotGroup) -> Mapping[str, Array]:
    """Draw the contents of every input, the slots of the group along the first axis."""
    rng = input_plan.arrays.generator(group.seed)
    shapes = {spec.name: spec for spec in input_plan.specs}
    densities = probe_densities(input_plan.task, input_plan.case)
    drawn = _draw_made(input_plan, len(group.slots), rng)
    for name, spelling in input_plan.case.distributions.items():
        if name in drawn:
            continue
        spec = shapes[name]
        fresh = partial(
            draw,
            spelling,
            rng,
            dtype=spec.element,
            dims=input_plan.dims,
            density=densities[name],
            arrays=input_plan.arrays,
        )
        shape = (len(group.slots), *spec.shape)
        names = [parse_distribution(one).name for one in spellings_in(spelling)]
        if len(names) == 1 and names[0] in INDEPENDENT:
            drawn[name] = fresh(shape)
        elif len(group.slots) == 1:
            drawn[name] = fresh(spec.shape).reshape(shape)
        else:
            drawn[name] = input_plan.arrays.xp.empty(shape, spec.dtype)
            for row in range(len(group.slots)):
                drawn[name][row, ...] = fresh(spec.shape)
    many = [replace(one, shape=(len(group.slots), *one.shape)) for one in input_plan.specs]
    return drawn | stated_contents(input_plan.task, many, input_plan.dims, input_plan.arrays)


def _draw_made(input_plan: InputPlan, slots: int, rng: Random) -> dict[str, Array]:
    """Draw what inputs.py makes, for each slot anew, the slots along the first axis."""
    task, row, dims = input_plan.task, input_plan.case.distributions, input_plan.dims
    made = [draw_made(task, row, dims, rng, input_plan.arrays) for _ in range(slots)]
    return {name: input_plan.arrays.xp.stack([one[name] for one in made]) for name in made[0]}


@dataclass(frozen=True, kw_only=True)
class PreparedKernel:
    """A session with its slots, and what the host process wrote into them."""

    session: TimedSession
    input_plan: InputPlan
    slots: Slots
    trusted: bool
    """Whether the kernel is the baseline: its batches need neither fresh contents nor a check."""
    time_class: TimeClass
    key: bytes
    """Key of the contents that a trusted kernel has in all of its batches."""
    guards: Mapping[str, tuple[Array, Array]]
    """Bytes before and after each buffer, in every slot; empty for a trusted kernel."""

    @property
    def includes_host(self) -> bool:
        """Whether batches are made by the runner's loop instead of a graph: their constant time
        differs from that of batches without calls."""
        return self.time_class is TimeClass.HOST_INCLUSIVE


async def prepare_kernel(
    session: TimedSession, input_plan: InputPlan, count: int, *, trusted: bool, capture: bool = True
) -> PreparedKernel | Verdict:
    """Place, fill and capture `count` slots.

    Without `capture`, only batches that leave `solve` out can be run: the call that warms a slow
    kernel up is saved, and contents that nothing reads.
    """
    scratch_bytes = input_plan.trusted_scratch_bytes if trusted else input_plan.scratch_bytes
    slots = await session.place_slots(input_plan.specs, count, scratch_bytes=scratch_bytes)
    guards = {} if trusted else write_guards(input_plan, slots)
    key = secrets.token_bytes(KEY_BYTES)
    if capture:
        fill_inputs(session, input_plan, slots, key, count if trusted else 0)
    poison_outputs(input_plan, slots, range(count), POISONS[0])
    time_class: TimeClass | Verdict = TimeClass.DEVICE
    if capture:
        options = call_options(input_plan.task, input_plan.dims)
        time_class = await session.capture(
            call_arguments(input_plan.task, input_plan.dims), options
        )
    if not isinstance(time_class, TimeClass):
        return time_class
    return PreparedKernel(
        session=session,
        input_plan=input_plan,
        slots=slots,
        trusted=trusted,
        time_class=time_class,
        key=key,
        guards=guards,
    )


def fill_inputs(
    session: TimedSession, input_plan: InputPlan, slots: Slots, key: bytes, sealed: int
) -> None:
    """Write contents into the first slot, which is called to warm up, and seal `sealed` slots.

    A trusted kernel keeps these contents, equal in each group of slots; an untrusted kernel has
    none sealed and gets new contents before each batch.
    """
    groups = [*split_into_groups(input_plan, range(max(1, sealed)))]
    contents = draw_group(input_plan, SlotGroup(slots=groups[0], seed=secrets.randbits(SEED_BITS)))
    for name, drawn in contents.items():
        slots.buffers[name].data[0] = drawn[0]
    for numbers in groups if sealed else ():
        own = {name: drawn[: len(numbers)] for name, drawn in contents.items()}
        session.seal(numbers, [key] * len(numbers), own)


async def prepare_trusted(
    session: TimedSession, input_plan: InputPlan, slots: int
) -> PreparedKernel:
    """Prepare the baseline; raise TaskError or InfrastructureError where it is refused."""
    kernel = await prepare_kernel(session, input_plan, slots, trusted=True)
    if isinstance(kernel, PreparedKernel):
        return kernel
    raise baseline_refused(input_plan.task, kernel)


def write_guards(input_plan: InputPlan, slots: Slots) -> dict[str, tuple[Array, Array]]:
    """Write the same random bytes around the buffers of every slot, and return them."""
    rng = input_plan.arrays.generator(secrets.randbits(SEED_BITS))
    written = {}
    for name, buffer in slots.buffers.items():
        before, after = (
            rng.integers(0, 256, guard.shape[1]).astype("uint8")
            for guard in (buffer.guard_before, buffer.guard_after)
        )
        buffer.guard_before[...] = before
        buffer.guard_after[...] = after
        written[name] = (before, after)
    return written


def poison_outputs(
    input_plan: InputPlan, slots: Slots, numbers: Sequence[int], poison: int
) -> None:
    """Fill outputs with poison, so that what a call does not write is found."""
    outputs = [one.data for one in slots.buffers.values() if not one.spec.is_filled]
    fill(outputs, numbers, poison, input_plan.arrays)


@dataclass(frozen=True, kw_only=True)
class StagedBatch:
    """A batch that can be run, and how to draw its inputs once more."""

    order: tuple[int, ...]
    key: bytes
    keys: tuple[bytes, ...] = ()
    """One key for each call, where keys are released step by step."""
    groups: tuple[SlotGroup, ...] = ()
    """Empty where the outputs are not checked."""


def stage_batch(
    kernel: PreparedKernel, order: Sequence[int], *, stepwise: bool = False
) -> StagedBatch:
    """Seal fresh contents into the slots of `order`; a trusted kernel keeps what it has.

    `stepwise`: each call under a key of its own. Then a trusted kernel gets fresh contents too, so
    that the same work precedes every batch: their constants are compared.

    Outputs are poisoned in either: a batch begins later where the GPU has just worked for the host
    process, and that must be the same for all that are compared. Plain contents are kept up to
    `kept_bytes`, in memory of this process alone; others are drawn again from the groups' seeds
    when the outputs are verified.
    """
    poison_outputs(kernel.input_plan, kernel.slots, order, secrets.choice(POISONS))
    if kernel.trusted and not stepwise:
        return StagedBatch(order=tuple(order), key=kernel.key)
    key = new_key(kernel)
    keys = {slot: new_key(kernel) for slot in order} if stepwise else {}
    groups = []
    room, each = kernel.input_plan.kept_bytes, input_bytes(kernel.input_plan.specs)
    for numbers in split_into_groups(kernel.input_plan, order):
        room -= each * len(numbers)
        own_keys = [keys.get(slot, key) for slot in numbers]
        groups.append(stage_group(kernel, numbers, own_keys, keeps=room >= 0))
    return StagedBatch(order=tuple(order), key=key, keys=tuple(keys.values()), groups=tuple(groups))


def stage_group(
    kernel: PreparedKernel, numbers: tuple[int, ...], keys: Sequence[bytes], *, keeps: bool
) -> SlotGroup:
    """Draw and seal the contents of these slots, and keep them if `keeps`.

    Contents that are not kept are gone when the function returns: memory holds one group's
    contents.
    """
    group = SlotGroup(slots=numbers, seed=secrets.randbits(SEED_BITS))
    contents = draw_group(kernel.input_plan, group)
    kernel.session.seal(numbers, keys, contents)
    return replace(group, kept=contents) if keeps else group


def new_key(kernel: PreparedKernel) -> bytes:
    """Return a new key, or a trusted kernel's own: all of its contents are sealed under that."""
    return kernel.key if kernel.trusted else secrets.token_bytes(KEY_BYTES)
