"""Which sizes are timed here, and in how many slots."""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import BufferSpec, Role, Site, TimedSession
from cuda_llm.tools.judge.measured.contents import input_bytes
from cuda_llm.tools.validator.layout import Dims, buffer_specs

MEMORY_SHARE = 0.6
"""Of the GPU's memory that one measurement may plan with."""
STAGED_BYTES = 1 << 31
"""Fresh inputs drawn for one batch, unless four calls need more: drawing takes time too."""
MOST_SLOTS = 256
FEWEST_SLOTS = 2
GUARD_BYTES = 1 << 16
"""Around one buffer at most, for the estimate."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A size that fits."""

    dims: Dims
    most: int
    """Slots of one lane at most."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is timed, and what is not."""

    sizes: tuple[Admitted, ...]
    left_out: tuple[str, ...]
    """One line each: size and reason."""


def plan_timing(site: Site, task: Task, *, lanes: int = 2) -> Plan:
    """The bench sizes for which `lanes` runners have room beside each other."""
    sizes, left_out = [], []
    room = MEMORY_SHARE * site.hardware.memory_bytes
    for dims in task.sizes.bench:
        specs = buffer_specs(task, dims)
        each, once = slot_bytes(specs), reference_bytes(specs)
        fitting = int((room - once) // (lanes * each))
        if fitting < FEWEST_SLOTS:
            needed = (lanes * FEWEST_SLOTS * each + once) / 1e9
            left_out.append(f"{spell(dims)}: needs {needed:.1f} GB, {room / 1e9:.1f} GB are free")
            continue
        quick = max(4, STAGED_BYTES // max(1, input_bytes(specs)))
        sizes.append(Admitted(dims=dims, most=min(MOST_SLOTS, fitting, quick)))
    return Plan(sizes=tuple(sizes), left_out=tuple(left_out))


def reserve(session: TimedSession, task: Task, plan: Plan) -> None:
    """Lay out what needs the most memory first: getting more later starts the runner anew."""
    needs = [(buffer_specs(task, size.dims), size.most) for size in plan.sizes]
    if needs:
        specs, most = max(needs, key=lambda need: slot_bytes(need[0]) * need[1])
        session.place_slots(specs, most)


def slot_bytes(specs: tuple[BufferSpec, ...]) -> int:
    """One slot: its buffers, and its inputs once more, sealed."""
    buffers = sum(spec.nbytes + GUARD_BYTES for spec in specs)
    return buffers + input_bytes(specs)


def reference_bytes(specs: tuple[BufferSpec, ...]) -> int:
    """What the referee needs to judge one call: inputs and outputs in float64, with scales."""
    elements = sum(spec.nbytes // itemsize(spec) for spec in specs)
    outputs = sum(spec.nbytes // itemsize(spec) for spec in specs if spec.role is not Role.IN)
    return 8 * (elements + 2 * outputs)


def itemsize(spec: BufferSpec) -> int:
    """Bytes of one element."""
    import numpy as np

    return np.dtype(spec.dtype).itemsize


def spell(dims: Mapping[str, int]) -> str:
    """`rows=1,024 cols=512`."""
    return " ".join(f"{name}={extent:,}" for name, extent in dims.items())
