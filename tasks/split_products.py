"""Products of fp32 numbers on tensor cores, each number as a sum of shorter ones: their error, and
the rate that is left (Ootomo and Yokota 2022, arXiv 2203.03341)."""

from dataclasses import dataclass

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tasks.task import Task, ToleranceClass
from cuda_llm.tasks.tolerances import ROUNDING_UNIT, Terms, limits


@dataclass(frozen=True, kw_only=True)
class Split:
    """A way to multiply two fp32 numbers that are split into parts of a shorter type."""

    kind: str
    """Type of the parts, as `tensor_dense_tflops` spells it."""
    parts: int
    products: int
    """Products of parts that are computed; the smallest ones are left out."""

    @property
    def name(self) -> str:
        """Return the split in words, as in `three of two tf32 parts`."""
        return f"one of {self.kind}" if self.parts == 1 else f"three of two {self.kind} parts"

    @property
    def error(self) -> float:
        """Return the largest relative error of a product of n parts, (n + 1) u^n: what n parts lose
        of both operands, and the products that are left out, from the n-th order of u on."""
        return float((self.parts + 1) * ROUNDING_UNIT[self.kind] ** self.parts)


SPLITS = (
    Split(kind="tf32", parts=1, products=1),
    Split(kind="tf32", parts=2, products=3),
    Split(kind="bf16", parts=2, products=3),
)


def roundings_of(task: Task, split: Split) -> float:
    """Return the error of a product in rounding units of the task's precision."""
    return split.error / limits(task.tolerance, Terms(symmetric=True)).unit


def is_exact_enough(task: Task, split: Split) -> bool:
    """Return whether the task's limits allow the error of a split's products."""
    return split.error <= _most_error(task)


def _most_error(task: Task) -> float:
    own = limits(task.tolerance, Terms(symmetric=True))
    return own.max_units * own.unit


def split_tflops(task: Task, hardware: Hardware) -> float:
    """Return the most operations on fp32 numbers, in 1e12 a second, that tensor cores do within the
    task's limits; 0 where the task sums no products in fp32, or the chip lacks the types."""
    tolerance, rates = task.tolerance, hardware.peaks.tensor_dense_tflops
    if tolerance.precision != "fp32" or tolerance.kind is not ToleranceClass.DOT:
        return 0.0
    usable = [one for one in SPLITS if one.kind in rates and is_exact_enough(task, one)]
    return max((rates[one.kind] / one.products for one in usable), default=0.0)
