"""Plans which sizes can be judged: their memory, and the float64 operations of their references."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims, Reference, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device.buffers import Arrays
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.check_outputs import Method
from cuda_llm.tools.validator.distributions import drawing_bytes
from cuda_llm.tools.validator.parts import EXACT_ROWS, WIDE, elements, part_extent, working_bytes

PROJECT_ABOVE_S = 0.25
"""Longest seconds of a float64 reference for one call; above, all elements are projected."""
LONGEST_S = 5.0
"""A reference that cannot be projected may take so long; above that, the size is left out."""
HOST_FLOPS = 4e9
"""Most float64 operations of a reference on the host, where calls are executed for their results
alone: about a second on one core."""
HOST_BYTES = 1 << 28
"""Most memory of such a reference: drawing, computing and comparing takes about a second, too."""
SHARE_OF_PEAK = 0.5
"""Share of the published float64 rate that a reference is assumed to reach."""
GUARD_BYTES = 1 << 16
"""Largest bytes of the guards around one buffer."""
RESERVED_BYTES = 1 << 30
"""CUDA contexts of host and two runners, kernels, and what a memory pool leaves unused."""
COMPARED = 5
"""Float64 copies of the elements compared at once."""


@dataclass(frozen=True, kw_only=True)
class SizePlan:
    """How a size that fits into memory is judged."""

    dims: Dims
    method: Method
    slots: int
    """Largest number of slots of one lane."""
    peak_bytes: int
    """Memory with the fewest slots; more of them take what is free."""
    scratch_bytes: int
    """Bytes that `solve` may allocate in one lane: the task's allowance, or all that is left."""
    reference_s: float
    """Seconds of one float64 reference with its scales."""
    cost: str
    """The terms of `reference_s`, in words."""
    words: str
    """The arithmetic of the plan, on one line."""


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """The sizes that are judged, and those left out."""

    sizes: tuple[SizePlan, ...]
    left_out: tuple[str, ...]
    """Sizes that do not fit, with the figures that exclude them, one line each."""

    @property
    def how_checked(self) -> tuple[str, ...]:
        """Return a line for each size whose elements are not all compared with a float64 value."""
        return tuple(
            f"{format_dims(size.dims)}: every output element checked by random signed sums, "
            f"{EXACT_ROWS} rows or more one by one: {size.cost}"
            for size in self.sizes
            if size.method is Method.PROJECTED
        )


@dataclass(frozen=True, kw_only=True)
class LaneCounts:
    """Number of runners beside each other, and slots of each."""

    lanes: int
    libraries: int
    """Lanes of them whose calls return results of their own."""
    own: int
    """Bytes of a lane besides its slots."""
    fewest: int
    most: int
    spare: int


def plan_sizes(
    task: Task,
    sizes: Sequence[Dims],
    *,
    free_bytes: int,
    spare_bytes: int = 0,
    hardware: Hardware,
    arrays: Arrays,
    lanes: int = 2,
    libraries: int = 0,
    lane_bytes: int = 0,
    fewest_slots: int = 2,
    most_slots: int = 256,
) -> MemoryPlan:
    """Plan the sizes for which `lanes` runners fit into `free_bytes` at the same time.

    Of these, `spare_bytes` are for no scratch and no further slots. `libraries` of the runners
    return results that lie beside their outputs. `lane_bytes` are what each takes besides. Raises
    TaskError where the task's reference is broken.
    """
    counts = LaneCounts(
        lanes=lanes,
        libraries=libraries,
        own=lane_bytes,
        fewest=fewest_slots,
        most=most_slots,
        spare=spare_bytes,
    )
    reference = None if task.reference is None else load_reference(task)
    found: list[SizePlan] = []
    left_out: list[str] = []
    for dims in sizes:
        outcome = _plan_size(
            task,
            dims,
            reference,
            arrays,
            hardware,
            free_bytes,
            counts,
        )
        if isinstance(outcome, SizePlan):
            found.append(outcome)
        else:
            left_out.append(outcome)
    return MemoryPlan(sizes=tuple(found), left_out=tuple(left_out))


def _plan_size(
    task: Task,
    dims: Dims,
    reference: Reference | None,
    arrays: Arrays,
    hardware: Hardware,
    free_bytes: int,
    counts: LaneCounts,
) -> SizePlan | str:
    lanes, fewest = counts.lanes, counts.fewest
    seconds, cost = reference_cost(task, dims, reference, hardware)
    method = Method.PROJECTED if seconds > PROJECT_ABOVE_S else Method.REFERENCE
    if method is Method.PROJECTED and (reference is None or reference.project is None):
        method = Method.REFERENCE
        if seconds > LONGEST_S:
            return (
                f"{format_dims(dims)}: {cost}, more than the {LONGEST_S:g} s allowed, and "
                "the task offers no projection"
            )
    buffers, sealed, outputs = buffer_bytes(task, dims)
    checking = check_bytes(task, dims, reference, arrays)
    drawing = sealed + most_drawing_bytes(task, dims)
    # A baseline that is the oracle has a runner of its own.
    besides = lanes * counts.own + (buffers + counts.own if reference is None else 0)
    once = drawing + outputs + checking + besides + RESERVED_BYTES
    each = lanes * (buffers + sealed) + counts.libraries * outputs
    needed = fewest * each + once
    words = (
        f"{format_dims(dims)}: {lanes} lanes x {fewest} slots x ({_gb(buffers)} buffers + "
        f"{_gb(sealed)} sealed inputs) + {_gb(besides)} besides + {_gb(drawing)} inputs drawn + "
        f"{_gb(outputs)} outputs copied + {_gb(checking)} float64 values and comparison + "
        f"{_gb(RESERVED_BYTES)} reserved "
        f"= {_gb(needed)}"
    )
    if needed > free_bytes:
        return f"{words}, but {_gb(free_bytes)} are free"
    asked = int(evaluate(task.capabilities.scratch_bytes, dims))
    left = max(0, free_bytes - needed - counts.spare)
    scratch = min(asked, left // lanes)
    slots = fewest + int((left - lanes * scratch) // each)
    return SizePlan(
        dims=dims,
        method=method,
        slots=max(fewest, min(counts.most, slots)),
        peak_bytes=needed + lanes * scratch,
        scratch_bytes=scratch,
        reference_s=seconds,
        cost=cost,
        words=f"{words} of {_gb(free_bytes)} free; {_gb(scratch)} of {_gb(asked)} scratch a lane; "
        f"{cost}: {method.value}",
    )


def most_drawing_bytes(task: Task, dims: Dims) -> int:
    """Return the largest bytes that drawing one input takes beside the inputs, for any
    distribution."""
    sizes = {spec.name: prod(spec.shape) for spec in buffer_specs(task, dims)}
    return max(
        (
            drawing_bytes(spelling, sizes[one.name], dtype=one.dtype)
            for one in task.arguments
            if one.name in sizes
            for spelling in (*one.distributions, *([one.probe] if one.probe else []))
        ),
        default=0,
    )


def reference_cost(
    task: Task, dims: Dims, reference: Reference | None, hardware: Hardware
) -> tuple[float, str]:
    """Return the seconds of one float64 reference, at least those of its traffic, and why."""
    if reference is None:
        return 0.0, "compared with the baseline's results"
    passes = 1 if reference.scale is None else 2
    flops = passes * float(evaluate(task.roofline.flops, dims))
    traffic = working_bytes(task, dims, reference)
    rate = SHARE_OF_PEAK * hardware.peaks.fp64_tflops * 1e12
    seconds = max(flops / rate, traffic / (SHARE_OF_PEAK * hardware.peaks.dram_gb_s * 1e9))
    return seconds, (
        f"the reference takes {flops / 1e12:.3g} TFLOP in float64, {seconds:.2g} s at half of "
        f"{hardware.peaks.fp64_tflops:g} TFLOP/s"
    )


def affords_on_host(task: Task, dims: Dims, reference: Reference) -> bool:
    """Return whether the host computes the reference in about a second, without much memory."""
    passes = 1 if reference.scale is None else 2
    flops = passes * float(evaluate(task.roofline.flops, dims))
    return flops <= HOST_FLOPS and working_bytes(task, dims, reference) <= HOST_BYTES


def check_bytes(task: Task, dims: Dims, reference: Reference | None, arrays: Arrays) -> int:
    """Return the memory `check_outputs` needs beyond its arguments: that of the largest part."""
    scaled = reference is None or reference.scale is not None
    part = dims
    if reference is not None and reference.split:
        extent = part_extent(task, dims, reference, arrays.part_bytes)
        part = {**dims, reference.split: extent}
    _, outputs = elements(task, part)
    comparing = WIDE * ((1 + scaled) * outputs + COMPARED * min(arrays.at_once, outputs))
    return max(working_bytes(task, part, reference), comparing)


def buffer_bytes(task: Task, dims: Dims) -> tuple[int, int, int]:
    """Return the bytes of one slot: buffers with guards, inputs alone, outputs."""
    specs = buffer_specs(task, dims)
    inputs = sum(spec.nbytes for spec in specs if spec.is_filled)
    outputs = sum(spec.nbytes for spec in specs if spec.is_output)
    whole = sum(spec.nbytes + GUARD_BYTES for spec in specs)
    return whole, inputs, outputs


def _gb(count: int) -> str:
    return f"{count / 1e9:.3g} GB"


def format_dims(dims: Dims) -> str:
    """Return a size as text, as in `rows=1,024 cols=512`."""
    return " ".join(f"{name}={extent:,}" for name, extent in dims.items())
