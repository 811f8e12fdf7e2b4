"""Threads that touch memory they must not, or read what nobody wrote."""

import re

from cuda_llm.agents.quote import join, one_line, quote_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, Scene
from cuda_llm.outcomes import GuardOverwritten, IllegalAccess, Misaligned, UninitialisedRead
from cuda_llm.spots import SourceSpot, ThreadSpot
from cuda_llm.tasks.task import ArgumentRole, Task

_PLACE = re.compile(r"at byte (?P<offset>\d+) of (?P<owner>.+?) \((?P<size>\d+) bytes")
_BEFORE = re.compile(r"\d+ bytes before the start of (?P<owner>.+?) \(")
_INSIDE = re.compile(r"at byte (?P<offset>\d+) of (?P<size>\d+) bytes of (?P<owner>.+)$")


def illegal_access(verdict: IllegalAccess, scene: Scene) -> Diagnosis:
    """An index out of its range: without a check, with a wrong one, or into a tile too small."""
    cause, text = _why_outside(verdict, scene)
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join(
            quote_line(verdict.spot),
            f"{verdict.access or 'access'} of {verdict.bytes} bytes of {verdict.space} memory",
            _relation(verdict.detail),
            _thread(verdict.thread),
            _array(verdict.spot, scene) if verdict.space == "shared" else "",
        ),
    )


def misaligned(verdict: Misaligned, scene: Scene) -> Diagnosis:
    """A vector access at an address that only scalars may use."""
    vector = verdict.bytes > 8 or _near(verdict.spot, scene.source.vector_accesses)
    text = (
        f"A {verdict.bytes}-byte access needs an address that is a multiple of {verdict.bytes}: "
    ) + (
        "rows whose length is no multiple of the vector start unaligned. Take the vector path only "
        "where index and row length are multiples of its width, and a scalar path elsewhere."
        if vector
        else "check casts between pointer types and offsets into dynamic shared memory."
    )
    return Diagnosis(
        code=verdict.code,
        cause="vector access" if vector else "cast",
        text=text,
        evidence=join(quote_line(verdict.spot), _relation(verdict.detail), _thread(verdict.thread)),
    )


def uninitialised_read(verdict: UninitialisedRead, scene: Scene) -> Diagnosis:
    """A value that no thread has written yet."""
    cause, text = _why_unwritten(verdict, scene)
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join(
            quote_line(verdict.spot),
            _owner(verdict.detail),
            _array(verdict.spot, scene) if verdict.space == "shared" else "",
            _thread(verdict.thread),
        ),
    )


def guard_overwritten(verdict: GuardOverwritten, scene: Scene) -> Diagnosis:
    """Somebody wrote past a buffer's end, or before its start."""
    vectors = scene.source.vector_accesses
    text = f"A write lands {verdict.side} {one_line(verdict.buffer, 40)}: "
    if verdict.side == "after" and vectors:
        cause = "vector tail"
        text += "the last vector store reaches past the end. Store the last elements one by one."
    else:
        cause = "unchecked store"
        text += "guard every store by the real extent, not by the padded one."
    seen = f"vector access in line {vectors[0]}" if cause == "vector tail" else ""
    return Diagnosis(code=verdict.code, cause=cause, text=text, evidence=seen)


def _why_outside(verdict: IllegalAccess, scene: Scene) -> tuple[str, str]:
    line = verdict.spot.line if verdict.spot else 0
    if "nobody" in verdict.detail:
        return "wild pointer", (
            "The address belongs to no buffer: look for host pointers passed to a kernel, swapped "
            "arguments, memory freed too early, and products of ints that overflow."
        )
    if verdict.space in {"shared", "local"}:
        return f"{verdict.space} array", (
            f"The index leaves the {verdict.space} array: its extents do not fit the block or the "
            "loop that fills it. Derive both from the same constant."
        )
    if verdict.space == "const" or "constant" in verdict.detail:
        return "constant memory", "Constant memory is read only and no larger than declared."
    if " before the start" in verdict.detail:
        return "negative index", (
            "The index is negative: halos and `i - 1` need a check at the lower edge as well."
        )
    if _near(verdict.spot, scene.source.vector_accesses) or verdict.bytes >= 8:
        return "vector tail", (
            "A vector access reaches past the end where the length is no multiple of its width: "
            "treat the last elements one by one."
        )
    guards = scene.source.guards(line) if line else ()
    if not guards:
        return "no bound check", (
            "The index is not checked against the extent: blocks rarely divide the sizes. Guard "
            "each dimension before the access, with `if (i < n)`."
        )
    return "wrong bound", (
        "There is a check, but it lets this index through: look for `<=` where `<` belongs, rows "
        "and columns swapped, one dimension unchecked, and tails of unrolled loops."
    )


def _why_unwritten(verdict: UninitialisedRead, scene: Scene) -> tuple[str, str]:
    if verdict.space == "shared":
        return "partly filled tile", (
            "Shared memory is read where no thread has written it: fill the whole tile before the "
            "barrier, with the neutral value (0 for sums) outside the data, leave no thread out of "
            "the filling, and check the index: padding is never written."
        )
    if verdict.space == "local":
        return "local array", "Give every element of the local array a value before it is read."
    owner = re.search(r"buffer (\w+)", verdict.detail)
    if owner and owner[1] in _outputs(scene.task):
        return "garbage output", (
            f"`{owner[1]}` arrives filled with garbage and is read or added to: write it outright, "
            "or clear it first (cudaMemsetAsync or a kernel of its own) before anything adds to it."
        )
    return "scratch memory", (
        "Device memory from cudaMalloc starts as garbage: clear it, or write every element, "
        "before it is read. This holds for counters and partial sums at every call."
    )


def _outputs(task: Task) -> set[str]:
    return {one.name for one in task.arguments if one.role == ArgumentRole.OUT}


def _near(spot: SourceSpot | None, lines: tuple[int, ...], reach: int = 2) -> bool:
    return spot is not None and any(abs(spot.line - line) <= reach for line in lines)


def _relation(detail: str) -> str:
    """Where the access lies against its buffer, without the figures: a size may be hidden."""
    if before := _BEFORE.search(detail):
        return f"before the start of {one_line(before['owner'], 60)}"
    place = _PLACE.search(detail) or _INSIDE.search(detail)
    if place is None:
        return "in nobody's memory" if "nobody" in detail else ""
    owner = one_line(place["owner"], 60)
    past = int(place["offset"]) - int(place["size"])
    if past < 0:
        return f"in {owner}"
    return f"just past the end of {owner}" if past < 4096 else f"far past the end of {owner}"


def _owner(detail: str) -> str:
    place = _PLACE.search(detail) or _INSIDE.search(detail)
    return f"in {one_line(place['owner'].split(',')[0], 60)}" if place else ""


def _thread(thread: ThreadSpot | None) -> str:
    return "" if thread is None else f"thread {thread.thread} of block {thread.block}"


def _array(spot: SourceSpot | None, scene: Scene) -> str:
    """The shared array that the line names."""
    text = spot.text if spot else ""
    for array in scene.source.shared_arrays:
        if re.search(rf"\b{re.escape(array.name)}\b", text):
            return f"`{one_line(array.name + array.extents, 60)}` is declared in line {array.line}"
    return ""
