"""Kernels that run to their end and are wrong."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext
from cuda_llm.figure_wording import describe_dims
from cuda_llm.outcomes import (
    CaseKind,
    ElementKind,
    GuardOverwritten,
    InputMutated,
    LateWrite,
    Nondeterministic,
    RegionKind,
    WrongResult,
)
from cuda_llm.verdict_wording import describe_instability, describe_patterns

VECTOR_TAIL = "vector tail"
FEW = 4
"""Outputs that a lost term and lost precision leave equally wrong."""


Sign = ElementKind | CaseKind | RegionKind | str
_VECTOR_STEP = "vector step"
"""Right sizes are multiples of a step as short as a vector."""
_TAILS = (
    *(RegionKind.LAST_ROWS, RegionKind.LAST_COLUMNS, RegionKind.LAST_ELEMENTS),
    RegionKind.LAST_CORNER,
)


@dataclass(frozen=True)
class _PatternCause:
    """What a pattern of wrong elements points at."""

    kinds: frozenset[Sign]
    """One of them is enough."""
    cause: str
    text: str


_PATTERN_CAUSES: Sequence[_PatternCause] = (
    _PatternCause(
        frozenset(
            {ElementKind.ROUNDED_TO_TF32, ElementKind.ROUNDED_TO_BF16, CaseKind.EXACTNESS_PROBE}
        ),
        "precision",
        "Precision is lost: keep inputs and sums in the type the task asks for, without tensor "
        "cores of a shorter type and without fast approximations; large sums need several "
        "accumulators or a tree.",
    ),
    _PatternCause(
        frozenset({_VECTOR_STEP}),
        VECTOR_TAIL,
        "Only sizes that are multiples of the vector width are right: the elements after the last "
        "whole vector are not handled. Treat them one by one.",
    ),
    _PatternCause(
        frozenset({*_TAILS, CaseKind.MULTIPLE_OF}),
        "last tile",
        "The last, partial tile is wrong: round the grid up, and guard loads and stores by the "
        "real extent in each dimension.",
    ),
    _PatternCause(
        frozenset({ElementKind.UNWRITTEN}),
        "not written",
        "Elements of the output are never written: the grid or the loop does not reach them, or "
        "the launch fails unseen. Round the grid up and check the index arithmetic.",
    ),
    _PatternCause(
        frozenset({CaseKind.EQUAL_DIMS}),
        "strides swapped",
        "Only square sizes are right: a row length is used where a column length belongs.",
    ),
    _PatternCause(
        frozenset({ElementKind.TRANSPOSED, ElementKind.SHIFTED, ElementKind.REVERSED}),
        "index mapping",
        "The values are right, but lie in the wrong place: rows and columns, or an offset, are "
        "mixed up.",
    ),
    _PatternCause(
        frozenset({ElementKind.MULTIPLE, ElementKind.TOO_MANY, ElementKind.ONE_TOO_MANY}),
        "counted twice",
        "Terms are counted more than once: overlapping tiles, partial sums added by every thread, "
        "or counters that are not cleared at each call.",
    ),
    _PatternCause(
        frozenset({ElementKind.FRACTION, ElementKind.TOO_FEW, ElementKind.ONE_TOO_FEW}),
        "terms lost",
        "Terms are lost: partial sums of some warps or blocks are not added, an update is not "
        "atomic, or the last terms of a loop are skipped.",
    ),
    _PatternCause(
        frozenset({ElementKind.NAN, ElementKind.INFINITE}),
        "not finite",
        "NaN or infinity: garbage is used as a number, or something overflows or divides by zero.",
    ),
    _PatternCause(
        frozenset({ElementKind.ZEROS, ElementKind.CONSTANT, ElementKind.COPIED}),
        "nothing computed",
        "Nothing of the inputs reaches the output at this size: the kernel does not run, the part "
        "beyond whole tiles is left out, or the result is never stored.",
    ),
    _PatternCause(
        frozenset({CaseKind.DISTRIBUTION}),
        "special inputs",
        "Only some kinds of input are wrong: look at signs, large magnitudes, cancellation and "
        "repeated values.",
    ),
    _PatternCause(
        frozenset({CaseKind.ABOVE, CaseKind.BELOW}),
        "size limit",
        "Right and wrong part at one size: look for a grid, an index type or a buffer with a fixed "
        "limit, and for paths taken only beyond it.",
    ),
    _PatternCause(
        frozenset({RegionKind.EVERY_NTH, RegionKind.FIRST_ELEMENT, RegionKind.LAST_ELEMENT}),
        "single places",
        "Wrong at regular or single places: look at the edges of tiles and at what one thread of "
        "each group does.",
    ),
    _PatternCause(
        frozenset({ElementKind.NEGATED}),
        "sign",
        "The sign is wrong.",
    ),
)
"""The first that fits decides."""


def wrong_result(verdict: WrongResult, context: FailureContext) -> Diagnosis:
    """Diagnose wrong elements by their pattern, with the case that shows it."""
    cause, text = _by_repeat(verdict) or _by_pattern(verdict, context) or _by_amount(verdict)
    vectors = context.source.vector_accesses
    seen = f"vector access in line {vectors[0]}" if cause == VECTOR_TAIL and vectors else ""
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            f"{verdict.failed_cases} of {verdict.cases} cases wrong",
            one_line("; ".join(describe_patterns(verdict)), 240),
            _case(verdict),
            seen,
        ),
    )


def guard_overwritten(verdict: GuardOverwritten, context: FailureContext) -> Diagnosis:
    """Diagnose a write past a buffer's end, or before its start."""
    vectors = context.source.vector_accesses
    text = f"A write lands {verdict.side} {one_line(verdict.buffer, 40)}: "
    if verdict.side == "after" and vectors:
        cause = VECTOR_TAIL
        text += "the last vector store reaches past the end. Store the last elements one by one."
    else:
        cause = "unchecked store"
        text += "guard every store by the real extent, not by the padded one."
    seen = f"vector access in line {vectors[0]}" if cause == VECTOR_TAIL else ""
    return Diagnosis(code=verdict.code, cause=cause, text=text, evidence=seen)


def input_mutated(verdict: InputMutated, context: FailureContext) -> Diagnosis:
    """Diagnose a kernel that changes an input."""
    cast = "const_cast" in context.source.code or re.search(
        r"\(\s*\w+\s*\*\s*\)", context.source.code
    )
    return Diagnosis(
        code=verdict.code,
        cause="writes an input",
        text=f"`{one_line(verdict.buffer, 40)}` is an input: work on a copy or in registers, never "
        "in place.",
        evidence="a cast takes the const away" if cast else "",
    )


def nondeterministic(verdict: Nondeterministic, context: FailureContext) -> Diagnosis:
    """Diagnose a result that depends on the order of threads."""
    atomics = context.source.atomics
    cause = (
        "plain reads stand beside atomics, or a result is read before all blocks have added to it"
        if atomics
        else "blocks read what others write in the same launch, or several threads write one "
        "element; use two launches, or give each element one writer"
    )
    return Diagnosis(
        code=verdict.code,
        cause="order of atomics" if atomics else "unsynchronised blocks",
        text=f"The same input gives different results: {cause}.",
        evidence=join_parts(
            one_line(verdict.detail or describe_instability(verdict)),
            f"atomics in line {atomics[0]}" if atomics else "",
        ),
    )


def late_write(verdict: LateWrite) -> Diagnosis:
    """Diagnose work that outlives its call."""
    return Diagnosis(
        code=verdict.code,
        cause="work outlives the call",
        text=(
            f"`{one_line(verdict.buffer, 40)}` changes after `solve` had been waited for: launch "
            "on the default stream alone and leave nothing running."
        ),
    )


def _signs(verdict: WrongResult) -> frozenset[Sign]:
    """Return all that is known of the pattern, by kind."""
    elements, cases = verdict.looks_like, verdict.case_pattern
    found: list[Sign] = []
    if elements is not None:
        found += [elements.kind, *([elements.region.kind] if elements.region else [])]
    if cases is not None:
        found += [cases.kind, *([_VECTOR_STEP] if cases.is_vector else [])]
    return frozenset(found)


def _by_pattern(verdict: WrongResult, context: FailureContext) -> tuple[str, str] | None:
    """Return what the pattern points at; None where it is unknown.

    Few sizes may share a multiple by chance: a vector tail needs vectors in the source.
    """
    signs = _signs(verdict)
    seen = (one for one in _PATTERN_CAUSES if signs & one.kinds)
    vectors = bool(context.source.vector_accesses)
    known = next((one for one in seen if vectors or one.cause != VECTOR_TAIL), None)
    if known is None:
        return None
    if known.cause == "precision" and verdict.elements is not None and verdict.elements <= FEW:
        return "terms or precision", (
            "So few outputs show no pattern: look first for terms that are left out or added twice "
            "(a tail after whole vectors, a last partial block), then for sums kept in a shorter "
            "type."
        )
    return known.cause, known.text


def _by_repeat(verdict: WrongResult) -> tuple[str, str] | None:
    if not verdict.repeat:
        return None
    return "state across calls", (
        "The first call was right and a later one was not: keep nothing from one call to the "
        "next, reset every device variable in each call, and leave nothing to the order of threads."
    )


def _by_amount(verdict: WrongResult) -> tuple[str, str]:
    """Return what is likely where no pattern is known: by how much is wrong, and how far off."""
    everything = verdict.elements is not None and verdict.wrong == verdict.elements
    if verdict.failed_cases < verdict.cases and everything:
        return "some cases", (
            "Wrong as a whole in some cases, right in others: look for paths chosen by size, and "
            "for state kept from one call to the next."
        )
    if everything:
        return "formula", (
            "Every element is wrong: check the formula and the index mapping against the task "
            "before anything else."
        )
    if verdict.error and verdict.error < 1e3 * verdict.limit:
        return "accuracy", (
            "The result is close, but not within the tolerance: add in float32 without shorter "
            "types, and in several accumulators or as a tree."
        )
    return "some elements", (
        "Some elements are wrong: check the edges of tiles, the index arithmetic, and barriers "
        "between writing and reading shared memory."
    )


def _case(verdict: WrongResult) -> str:
    """Return the case that shows it; of a hidden size nothing but that it is one."""
    if not verdict.dims or verdict.size_class == "hidden":
        return "seen at a hidden size" if verdict.size_class == "hidden" else ""
    index = ", ".join(map(str, verdict.index))
    extent = ""
    if verdict.wrong is not None and verdict.elements is not None:
        extent = f"; {verdict.wrong:,} of {verdict.elements:,} are wrong"
    return (
        f"at {describe_dims(verdict.dims)}: {one_line(verdict.buffer, 40)}[{index}] is "
        f"{verdict.got:.6g}, should be {verdict.expected:.6g}{extent}"
    )
