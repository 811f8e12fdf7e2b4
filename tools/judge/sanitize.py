"""Executes a kernel on the emulated device for its faults alone: no reference, and no times.

Each size is called with blocks and warps in several orders, every access watched. A call goes on
after a race and ends at any other fault, so other orders and other sizes show further faults.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from cuda_llm.outcomes import LateWrite, Passed, Verdict, fault_key, findings_of
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Device, Level, Session, Site, Work
from cuda_llm.tools.device.buffers import HOST, Array
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.validator.buffers import buffer_specs, find_late_write
from cuda_llm.tools.validator.cases import (
    MOST_SCHEDULES,
    POISONS,
    Case,
    fresh_nonce,
    generator,
    timed_case,
    work,
)
from cuda_llm.tools.validator.check_case import draw_inputs, ran_a_kernel
from cuda_llm.tools.validator.fused import bytes_of
from cuda_llm.tools.validator.one_call import Caller, CompletedCall

ORDERS = 4
"""Orders of blocks and warps at each size: ascending, descending, and two drawn at random."""
MOST_FAULTS = 16
"""Distinct faults after which nothing more is called."""
MOST_WORK = 1e8
"""Most bytes of a call at a size that nobody asked for, for which the device takes some seconds."""

RemarkKind = Literal["unwritten", "order-dependent", "held-memory", "no-launch"]


@dataclass(frozen=True, kw_only=True)
class SanitizedFault:
    """A fault, and the first call that showed it."""

    verdict: Verdict
    dims: Dims = field(default_factory=dict)
    """Empty where another call showed it than those that are made here."""
    calls: int = 0
    """Number of calls that showed this fault."""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """What a call left that need not be a fault, at the first size that showed it."""

    kind: RemarkKind
    """`unwritten`: elements of an output that no thread stored; `order-dependent`: elements whose
    bits depend on the order of blocks and warps; `held-memory`: device memory that `solve`
    or a kernel allocated and did not free; `no-launch`: no kernel was launched."""
    dims: Dims
    buffer: str | None = None
    count: int = 0
    """Elements, or bytes of held memory."""
    of: int = 0
    """Elements of the buffer, or number of allocations that hold the memory."""


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """All that the calls of a kernel showed."""

    faults: tuple[SanitizedFault, ...] = ()
    remarks: tuple[Remark, ...] = ()
    sizes: tuple[Dims, ...] = ()
    """Sizes that were called, from small to large."""
    calls: int = 0
    kernels: int = 0
    """Most kernels that a call launched."""


@dataclass(frozen=True, kw_only=True)
class SanitizedCall:
    """A call that returned and left no fault."""

    report: CallReport
    poison: int
    """The byte that filled outputs before the call."""
    outputs: Mapping[str, Array]
    """Copies of the buffers that are written, by name."""


async def sanitize(
    task: Task,
    device: Device,
    source: str,
    name: str,
    *,
    sizes: Sequence[Dims] = (),
    inputs: Mapping[str, Array] | None = None,
    nonce: bytes | None = None,
) -> Sanitized | Verdict:
    """Compile one source and call its `solve` at each of `sizes`, else at the task's small sizes.

    `inputs` holds the contents of inputs that are not to be drawn, at every size in their shape.
    Returns the verdict of the compiler where the source does not compile.
    """
    compiled = await compile_source(task, device, source, name)
    if not isinstance(compiled, Compiled):
        return compiled
    return await device.carry_out(
        Work.of(
            sanitize_there,
            task,
            compiled,
            tuple(sizes) or small_sizes(task),
            dict(inputs or {}),
            nonce or fresh_nonce(),
        )
    )


def all_findings(
    verdict: Verdict, found: Sanitized | Verdict | None = None
) -> tuple[SanitizedFault, ...]:
    """Return each distinct fault once: first the verdict and what its call showed, then what the
    calls of `sanitize` did."""
    own = () if isinstance(verdict, Passed) else findings_of(verdict)
    faults = [SanitizedFault(verdict=one) for one in own]
    if isinstance(found, Sanitized):
        faults += found.faults
    distinct: dict[object, SanitizedFault] = {}
    for one in faults:
        key = fault_key(one.verdict)
        if key not in distinct:
            distinct[key] = one
        elif not distinct[key].calls:
            distinct[key] = replace(distinct[key], dims=one.dims, calls=one.calls)
    return tuple(distinct.values())


def small_sizes(task: Task) -> tuple[Dims, ...]:
    """Return the edge sizes and the smallest emulated size, those that take too long left out."""
    listed = [*task.sizes.edge, *task.sizes.emulated[:1]]
    ordered = sorted(listed, key=lambda dims: work(task, dims))
    return tuple(one for one in ordered if work(task, one) <= MOST_WORK) or tuple(ordered[:1])


async def sanitize_there(
    site: Site,
    task: Task,
    compiled: Compiled,
    sizes: Sequence[Dims],
    given: Mapping[str, Array],
    nonce: bytes,
) -> Sanitized | Verdict:
    """Call `solve` in several orders at each size, each fault in a fresh runner of its own."""
    found: dict[tuple[object, ...], SanitizedFault] = {}
    remarks: dict[tuple[RemarkKind, str | None], Remark] = {}
    calls, kernels = 0, 0
    for number, dims in enumerate(sizes):
        rng = generator(nonce, task.name, "sanitize", number)
        completed: list[SanitizedCall] = []
        first = timed_case(task, dims, Level.FULL, "edge")
        inputs = generator(nonce, task.name, "inputs", number)
        contents = {**draw_inputs(task, first, inputs, HOST), **given}
        for case in _orders(first, rng):
            if len(found) >= MOST_FAULTS:
                break
            outcome = await _call(site, task, compiled, case, contents, rng)
            calls += 1
            if isinstance(outcome, SanitizedCall):
                completed.append(outcome)
                kernels = max(kernels, outcome.report.kernels or 0)
                verdict: Verdict | None = outcome.report.refused or outcome.report.out_of_memory
            else:
                verdict = outcome
            for one in () if verdict is None else findings_of(verdict):
                before = found.get(fault_key(one), SanitizedFault(verdict=one, dims=dims))
                found[fault_key(one)] = replace(before, calls=before.calls + 1)
        for remark in _remarks(task, dims, completed):
            remarks.setdefault((remark.kind, remark.buffer), remark)
    return Sanitized(
        faults=tuple(found.values()),
        remarks=tuple(remarks.values()),
        sizes=tuple(sizes),
        calls=calls,
        kernels=kernels,
    )


def _orders(first: Case, rng: np.random.Generator) -> list[Case]:
    """Return the calls at one size: the inputs of the first, other orders, and poison in turns."""
    drawn = [int(one) for one in rng.integers(2, MOST_SCHEDULES, ORDERS - 2)]
    return [
        replace(first, schedule_seed=seed, poison=POISONS[number % len(POISONS)])
        for number, seed in enumerate((0, 1, *drawn))
    ]


async def _call(
    site: Site,
    task: Task,
    compiled: Compiled,
    case: Case,
    contents: Mapping[str, Array],
    rng: np.random.Generator,
) -> SanitizedCall | Verdict:
    """Call `solve` once in a fresh runner: a module variable may hold what a call before left."""
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        caller = Caller(task=task, session=session, rng=rng, arrays=HOST)
        place = caller.place(case, rng)
        called = await caller.call(case, contents, place)
        if not isinstance(called, CompletedCall):
            return called
        late = find_late_write(called.filled, called.outputs, HOST)
        if late is not None:
            return LateWrite(buffer=late)
        return SanitizedCall(report=called.report, poison=case.poison, outputs=called.outputs)


def _remarks(task: Task, dims: Dims, calls: Sequence[SanitizedCall]) -> list[Remark]:
    """Return what the calls at one size left; outputs are compared between calls that completed."""
    if not calls:
        return []
    reports: list[CallReport] = [one.report for one in calls]
    found = [] if any(map(ran_a_kernel, reports)) else [Remark(kind="no-launch", dims=dims)]
    held = max(reports, key=lambda report: report.held_bytes)
    if held.held_bytes:
        found.append(
            Remark(kind="held-memory", dims=dims, count=held.held_bytes, of=held.held_allocations)
        )
    poisoned = {one.name for one in buffer_specs(task, dims) if not one.is_filled}
    for name, first in calls[0].outputs.items():
        by_poison = {one.poison: one.outputs[name] for one in calls}
        unwritten = np.zeros(first.size, bool)
        if name in poisoned and len(by_poison) > 1:
            unwritten = _still_poisoned(by_poison)
        unlike = np.zeros(first.size, bool)
        for one in calls[1:]:
            unlike |= _unlike(first, one.outputs[name])
        shown: dict[RemarkKind, Array] = {
            "unwritten": unwritten,
            "order-dependent": unlike & ~unwritten,
        }
        found += [
            Remark(kind=kind, dims=dims, buffer=name, count=int(where.sum()), of=first.size)
            for kind, where in shown.items()
            if where.any()
        ]
    return found


def _still_poisoned(outputs: Mapping[int, Array]) -> Array:
    """Return which elements hold the poison of each call, by the byte that filled the buffer."""
    kept = [(_rows(array) == np.uint8(poison)).all(axis=1) for poison, array in outputs.items()]
    return np.logical_and.reduce(kept)


def _unlike(one: Array, other: Array) -> Array:
    return (_rows(one) != _rows(other)).any(axis=1)


def _rows(array: Array) -> Array:
    """Return the bytes of each element, a row an element."""
    return bytes_of(array).reshape(array.size, -1)
