"""What threads of a kernel do wrong: accesses to memory they must not touch or that nobody wrote,
races, and barriers that some of them never reach.
"""

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.diagnosis import (
    REMEDIES,
    Diagnosis,
    FailureContext,
    find_remedy,
    name_thread,
)
from cuda_llm.outcomes import (
    DataRace,
    IllegalAccess,
    InvalidSync,
    Location,
    MemoryAccess,
    Misaligned,
    UninitialisedRead,
)
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.task import ArgumentRole
from cuda_llm.verdict_wording import name_owner

NEAR_BYTES = 4096
"""An access further past an end is not a last tile or vector."""


def illegal_access(verdict: IllegalAccess, context: FailureContext) -> Diagnosis:
    """Diagnose an index out of its range: unchecked, wrongly checked, or into a tile too small."""
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
            *(() if access is None else (_name_access(access), name_place(access.location))),
            name_thread(verdict.thread),
            context.shared_array(verdict.spot) if access and access.space == "shared" else "",
            context.gpu_report(verdict.error, verdict.replay, placed=access is not None),
        ),
    )


def misaligned(verdict: Misaligned, context: FailureContext) -> Diagnosis:
    """Diagnose a vector access at an address that only scalars may use."""
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
            context.gpu_report(verdict.error, verdict.replay, placed=access is not None),
        ),
    )


def uninitialised_read(verdict: UninitialisedRead, context: FailureContext) -> Diagnosis:
    """Diagnose the read of a value that no thread has written yet."""
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
            context.shared_array(verdict.spot) if access.space == "shared" else "",
            name_thread(verdict.thread),
            context.gpu_report(verdict.error, verdict.replay, placed=True),
        ),
    )


def data_race(verdict: DataRace, context: FailureContext) -> Diagnosis:
    """Diagnose two accesses of shared memory with no barrier between them."""
    here, before = verdict.spot, verdict.other
    cause, text = REMEDIES["unfenced"] if verdict.unfenced else _why_race(verdict, context)
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            f"{verdict.kind} at {context.quote_line(here)}" if here else verdict.kind,
            f"against {context.quote_line(before)}" if before else "",
            _barriers(verdict, context),
            context.gpu_report(verdict.error, verdict.replay, placed=True),
        ),
    )


def invalid_sync(verdict: InvalidSync, context: FailureContext) -> Diagnosis:
    """Diagnose a barrier or a collective that some of its threads never reach."""
    line = verdict.spot.line if verdict.spot else 0
    seen = ""
    if (known := find_remedy(verdict.kind, verdict.reason)) is not None:
        cause, text = known
    elif line and (branch := context.source.branch_around(line)):
        cause = "barrier in a branch"
        text = (
            "The barrier stands under a branch that not all threads take: move it out of the "
            "branch, and let the branch guard the work alone."
        )
        seen = f"under line {branch.first}{context.quote(branch.header)}"
    elif line and (early := context.source.left_early(line)):
        cause = "early return"
        text = (
            "Threads return before a barrier that the others wait at: keep all threads alive to "
            "the last barrier, and guard the loads and stores instead."
        )
        seen = f"return in line {early}"
    elif line and (loops := context.source.around(line, "for", "while")):
        cause = "barrier in an uneven loop"
        text = (
            "The barrier stands in a loop that threads leave after different numbers of turns: "
            "let all threads make the same number of turns and guard the body."
        )
        seen = f"in the loop of line {loops[0].first}"
    else:
        cause = verdict.kind
        text = "Not all threads reach the same barrier: give every thread one way through it."
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            seen,
            context.gpu_report(verdict.error, verdict.replay, placed=True),
        ),
    )


def name_place(location: Location | None) -> str:
    """Return where an access lies against its buffer, without figures: a size may be hidden."""
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


_MISSING_BARRIER = (
    "missing barrier",
    "__syncthreads() is missing between the two accesses: every thread must pass it after the "
    "writes and before any other thread reads them.",
)


def _why_unplaced(verdict: IllegalAccess) -> tuple[str, str]:
    """Return the cause and the remedy that an error code alone tells."""
    match verdict.error.name if verdict.error is not None else "":
        case "cudaErrorHardwareStackError":
            return "stack", (
                "A thread's stack is broken: look for recursion without an end, large local "
                "arrays, and writes past their ends."
            )
        case "cudaErrorInvalidAddressSpace":
            return "address space", (
                "An instruction for one memory space got an address of another: look for casts "
                "between generic and shared pointers, and at inline PTX."
            )
    return "place unknown", (
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
    if any(one.name == name and one.role == ArgumentRole.OUT for one in context.task.arguments):
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
    """Return `read of 4 bytes of global memory`."""
    size = "" if access.bytes is None else f" of {access.bytes} bytes"
    space = "" if access.space is None else f" of {access.space} memory"
    return f"{access.kind or 'access'}{size}{space}"


def _near(spot: SourceSpot | None, lines: tuple[int, ...], reach: int = 2) -> bool:
    """Return whether one of `lines` lies within `reach` lines of the spot."""
    if spot is None or not spot.text:
        return False
    return any(abs(spot.line - line) <= reach for line in lines)


def _why_race(verdict: DataRace, context: FailureContext) -> tuple[str, str]:
    here, before = verdict.spot, verdict.other
    if here is None or before is None:
        return _MISSING_BARRIER
    if here.line == before.line:
        if verdict.kind == "write-write":
            return "same word", (
                "Several warps write the same shared word in one line: give each its own word, or "
                "use an atomic."
            )
        return "turns of one line", (
            "Threads read in that line what others write there: a __syncthreads() that all threads "
            "reach belongs between its turns, outside the branch that picks the workers."
        )
    loops = context.source.around(here.line, "for", "while")
    same_loop = any(loop.first <= before.line <= loop.last for loop in loops)
    separated = bool(context.source.barriers_between(here.line, before.line))
    if same_loop and (verdict.kind == "read-write" or separated):
        return "next turn overwrites", (
            "The next turn of the loop overwrites shared memory that other threads still read: a "
            "second __syncthreads() belongs at the end of the loop body, or use two buffers."
        )
    return _MISSING_BARRIER


def _barriers(verdict: DataRace, context: FailureContext) -> str:
    here, before = verdict.spot, verdict.other
    if here is None or before is None or here.line == before.line:
        return ""
    between = context.source.barriers_between(here.line, before.line)
    if not between:
        return "no barrier stands between them in the text"
    return f"barriers between them in the text: line {', '.join(map(str, between))}"
