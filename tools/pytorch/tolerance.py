"""Chooses how results of an imported task are judged, from the operators of its module."""

from dataclasses import dataclass
from enum import StrEnum

from cuda_llm.tasks.task import ToleranceClass, is_float
from cuda_llm.tools.pytorch.trace import ModuleTrace

_MOVING = frozenset(
    {
        "max_pool1d", "max_pool2d_with_indices", "max_pool3d_with_indices", "max", "min", "amax",
        "amin", "argmax", "argmin", "relu", "clone", "copy", "gather", "flip", "triu", "tril",
        "clamp_min", "index_select", "cat", "sort", "topk",
    }
)  # fmt: skip
"""Operators whose results are elements of their input, or 0."""
_ADDING = frozenset(
    {
        "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "convolution", "add", "mul", "sum", "mean",
        "cumsum", "avg_pool1d", "avg_pool2d", "avg_pool3d", "clone", "copy", "triu", "tril", "flip",
        "diag_embed", "cat", "expand", "zeros_like", "new_zeros", "index", "constant_pad_nd",
        "narrow", "slice", "zeros", "_unsafe_view",
    }
)  # fmt: skip
"""Operators that are linear in each of their arguments."""
_CONTRACTING = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "dot", "convolution"})


class ScaleRule(StrEnum):
    """Scale by which an element's error is divided."""

    NONE = "none"
    """No scale: results are exact."""
    TERMS = "terms"
    """Sum of the absolute values of the element's terms."""
    SPREAD = "spread"
    """The element's absolute value plus the root mean square of its tensor."""


@dataclass(frozen=True, kw_only=True)
class Judging:
    """The `[tolerance]` of a task and the scale of its reference."""

    kind: ToleranceClass
    scale: ScaleRule
    terms: str


def choose_judging(trace: ModuleTrace, terms: str) -> Judging:
    """Choose by the operators that the module called; `terms` of its longest sum."""
    names = {one.name for one in trace.operators}
    floats = any(is_float(one.dtype) for one in trace.outputs)
    if not floats or names <= _MOVING:
        return Judging(kind=ToleranceClass.EXACT, scale=ScaleRule.NONE, terms="1")
    linear = names <= _ADDING
    kind = ToleranceClass.DOT if names & _CONTRACTING else ToleranceClass.REDUCTION
    return Judging(kind=kind, scale=ScaleRule.TERMS if linear else ScaleRule.SPREAD, terms=terms)
