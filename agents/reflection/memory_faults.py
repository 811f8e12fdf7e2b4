"""Threads that touch memory they must not, or read what nobody wrote."""

import re
from collections.abc import Mapping

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext, name_thread
from cuda_llm.fact_wording import name_owner
from cuda_llm.facts import Location, MemoryAccess, SourceSpot
from cuda_llm.failures import IllegalAccess, Misaligned, UninitialisedRead
from cuda_llm.outcomes import GuardOverwritten
from cuda_llm.tasks.task import ArgumentRole, Task

NEAR_BYTES = 4096
"""An access further past an end is not a last tile or vector."""
UNKNOWN = "place unknown"
"""Cause of a fault of which a GPU gave an error code alone."""


def illegal_access(verdict: IllegalAccess, context: FailureContext) -> Diagnosis:
    """An index out of its range: without a check, with a wrong one, or into a tile too small."""
    access = verdict.access
    cause, text = (
        _why_unplaced(verdict) if access is None else _why_outside(verdict, access, context)
    )
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            "" if access is None else _name_access(access),
            "" if access is None else name_place(access.location),
            name_thread(verdict.thread),
            _array(verdict.spot, context)
            if access is not None and access.space == "shared"
            else "",
            context.known_of(verdict.error, verdict.replay, placed=access is not None),
        ),
    )


def misaligned(verdict: Misaligned, context: FailureContext) -> Diagnosis:
    """A vector access at an address that only scalars may use."""
    access, vectors = verdict.access, context.source.vector_accesses
    size = access.bytes if access is not None else None
    if verdict.spot is None and size is None:
        vector = bool(vectors)
    else:
        vector = (size or 0) > 8 or _near(verdict.spot, vectors)
    needs = (
        "An address is not a multiple of the size of what is accessed there: "
        if size is None
        else f"A {size}-byte access needs an address that is a multiple of {size}: "
    )
    return Diagnosis(
        code=verdict.code,
        cause="vector access" if vector else "cast",
        text=needs
        + (
            "rows whose length is no multiple of the vector start unaligned. Take the vector path "
            "only where index and row length are multiples of its width, and a scalar path "
            "elsewhere."
            if vector
            else "check casts between pointer types and offsets into dynamic shared memory."
        ),
        evidence=join_parts(
            context.quote_line(verdict.spot),
            f"vector access in line {vectors[0]}" if vectors and verdict.spot is None else "",
            "" if access is None else name_place(access.location),
            name_thread(verdict.thread),
            context.known_of(verdict.error, verdict.replay, placed=access is not None),
        ),
    )


def uninitialised_read(verdict: UninitialisedRead, context: FailureContext) -> Diagnosis:
    """A value that no thread has written yet."""
    access = verdict.access or MemoryAccess()
    cause, text = _why_unwritten(access, context)
    location = access.location
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            f"in {one_line(name_owner(location), 60)}" if location and location.owner else "",
            _array(verdict.spot, context) if access.space == "shared" else "",
            name_thread(verdict.thread),
            context.known_of(verdict.error, verdict.replay, placed=True),
        ),
    )


def guard_overwritten(verdict: GuardOverwritten, context: FailureContext) -> Diagnosis:
    """Somebody wrote past a buffer's end, or before its start."""
    vectors = context.source.vector_accesses
    text = f"A write lands {verdict.side} {one_line(verdict.buffer, 40)}: "
    if verdict.side == "after" and vectors:
        cause = "vector tail"
        text += "the last vector store reaches past the end. Store the last elements one by one."
    else:
        cause = "unchecked store"
        text += "guard every store by the real extent, not by the padded one."
    seen = f"vector access in line {vectors[0]}" if cause == "vector tail" else ""
    return Diagnosis(code=verdict.code, cause=cause, text=text, evidence=seen)


def name_place(location: Location | None) -> str:
    """Where an access lies against its buffer, without the figures: a size may be hidden."""
    if location is None or location.relation is None:
        return ""
    if location.relation == "nowhere":
        return "in nobody's memory"
    owner = one_line(name_owner(location), 60)
    match location.relation:
        case "before-start":
            return f"before the start of {owner}"
        case "past-end":
            past = (location.offset_bytes or 0) - (location.size_bytes or 0)
            return f"{'just' if past < NEAR_BYTES else 'far'} past the end of {owner}"
    return f"in {owner}, which is freed" if location.freed else f"in {owner}"


_UNPLACED: Mapping[str, tuple[str, str]] = {
    "cudaErrorHardwareStackError": (
        "stack",
        "A thread's stack is broken: look for recursion without an end, large local arrays, and "
        "writes past their ends.",
    ),
    "cudaErrorInvalidAddressSpace": (
        "address space",
        "An instruction for one memory space got an address of another: look for casts between "
        "generic and shared pointers, and at inline PTX.",
    ),
}


def _why_unplaced(verdict: IllegalAccess) -> tuple[str, str]:
    """What an error code alone says."""
    if verdict.error is not None and verdict.error.name in _UNPLACED:
        return _UNPLACED[verdict.error.name]
    return UNKNOWN, (
        "A thread touched memory that is not its own, and the GPU does not say where. Check each "
        "index against the extent of its buffer: `if (i < n)` before every load and store, the "
        "last elements of vectors one by one, products of ints that overflow, and that no host "
        "pointer reaches a kernel."
    )


def _why_outside(
    verdict: IllegalAccess, access: MemoryAccess, context: FailureContext
) -> tuple[str, str]:
    # A line without its text is one of a header, where a sanitizer saw an atomic, say.
    line = verdict.spot.line if verdict.spot and verdict.spot.text else 0
    location = access.location or Location()
    if location.relation == "nowhere":
        return "wild pointer", (
            "The address belongs to no buffer: look for host pointers passed to a kernel, swapped "
            "arguments, memory freed too early, and products of ints that overflow."
        )
    if access.space in {"shared", "local"}:
        return f"{access.space} array", (
            f"The index leaves the {access.space} array: its extents do not fit the block or the "
            "loop that fills it. Derive both from the same constant."
        )
    if access.space == "const" or location.owner == "constant":
        return "constant memory", "Constant memory is read only and no larger than declared."
    if location.relation == "before-start":
        return "negative index", (
            "The index is negative: halos and `i - 1` need a check at the lower edge as well."
        )
    if _near(verdict.spot, context.source.vector_accesses) or (access.bytes or 0) >= 8:
        return "vector tail", (
            "A vector access reaches past the end where the length is no multiple of its width: "
            "treat the last elements one by one."
        )
    if not line:
        return "out of bounds", (
            "The index goes past the end: guard each dimension before the access, with "
            "`if (i < n)`, and look for `<=` and `i + 1` where there is a check already."
        )
    if not context.source.guards(line):
        return "no bound check", (
            "The index is not checked against the extent: blocks rarely divide the sizes. Guard "
            "each dimension before the access, with `if (i < n)`."
        )
    return "wrong bound", (
        "There is a check, but it lets this index through: look for `<=` where `<` belongs, rows "
        "and columns swapped, one dimension unchecked, and tails of unrolled loops."
    )


def _why_unwritten(access: MemoryAccess, context: FailureContext) -> tuple[str, str]:
    if access.space == "shared":
        return "partly filled tile", (
            "Shared memory is read where no thread has written it: fill the whole tile before the "
            "barrier, with the neutral value (0 for sums) outside the data, leave no thread out of "
            "the filling, and check the index: padding is never written."
        )
    if access.space == "local":
        return "local array", "Give every element of the local array a value before it is read."
    name = access.location.name if access.location else None
    if name in _outputs(context.task):
        return "garbage output", (
            f"`{name}` arrives filled with garbage and is read or added to: write it outright, "
            "or clear it first (cudaMemsetAsync or a kernel of its own) before anything adds to it."
        )
    if access.location is None or access.location.owner is None:
        return "unwritten memory", (
            "Global memory is read where nothing has been written: outputs arrive filled with "
            "garbage, and so does what cudaMalloc gives. Write each element before it is read, "
            "outputs outright instead of adding to them."
        )
    return "scratch memory", (
        "Device memory from cudaMalloc starts as garbage: clear it, or write every element, "
        "before it is read. This holds for counters and partial sums at every call."
    )


def _name_access(access: MemoryAccess) -> str:
    """`read of 4 bytes of global memory`."""
    size = "" if access.bytes is None else f" of {access.bytes} bytes"
    space = "" if access.space is None else f" of {access.space} memory"
    return f"{access.kind or 'access'}{size}{space}"


def _outputs(task: Task) -> set[str]:
    return {one.name for one in task.arguments if one.role == ArgumentRole.OUT}


def _near(spot: SourceSpot | None, lines: tuple[int, ...], reach: int = 2) -> bool:
    return (
        spot is not None
        and bool(spot.text)
        and any(abs(spot.line - line) <= reach for line in lines)
    )


def _array(spot: SourceSpot | None, context: FailureContext) -> str:
    """The shared array that the line names."""
    text = spot.text if spot else ""
    for array in context.source.shared_arrays:
        if re.search(rf"\b{re.escape(array.name)}\b", text):
            name = f"`{one_line(array.name + array.extents, 60)}`" if context.may_quote else "it"
            return f"{name} is declared in line {array.line}"
    return ""
