"""Wrong kernels as functions on arrays: the kinds every task must reject."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from array_kernels import HONEST, OUTPUTS, Compute, convolve, multiply_in_order, writes
from measured_site import Buffers, Candidate

from cuda_llm.tools.device import CallOptions

Array = npt.NDArray[Any]


def mutants(task: str) -> Mapping[str, Candidate]:
    """The table's row of one task."""
    honest = HONEST[task][0]
    return {
        "zero": writes(task, lambda b: np.zeros(b[OUTPUTS[task]].shape)),
        "constant": writes(task, lambda b: np.ones(b[OUTPUTS[task]].shape)),
        "copy_of_input": writes(task, lambda b: _copy(task, b)),
        "last_tile_missing": _without_last_tile(task, honest),
        "fp16_accumulation": writes(task, HALF[task]),
        "off_by_one": writes(task, OFF_BY_ONE[task]),
        "missing_barrier": _unordered(task, honest),
        "edge_sizes_only": _only_whole_vectors(task, honest),
    }


def short_inputs(task: str, shorten: Callable[[Array], Array]) -> Candidate:
    """Honest but for the precision of its float inputs."""

    def compute(b: Buffers) -> Array:
        short = {n: shorten(a) if a.dtype == np.float32 else a for n, a in b.items()}
        return HONEST[task][0]({**short, OUTPUTS[task]: b[OUTPUTS[task]]})

    return writes(task, compute)


def to_tf32(values: Array) -> Array:
    """Eleven significant bits, to nearest."""
    return ((values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def to_bf16(values: Array) -> Array:
    """Eight significant bits, to nearest."""
    return ((values.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)


def to_fp16(values: Array) -> Array:
    """Half precision and back."""
    return values.astype(np.float16).astype(np.float32)


SHORT = {"tf32": to_tf32, "bf16": to_bf16, "fp16": to_fp16}


def _copy(task: str, b: Buffers) -> Array:
    given = next(array for name, array in b.items() if name != OUTPUTS[task])
    return np.resize(given, b[OUTPUTS[task]].shape)


def _without_last_tile(task: str, honest: Compute) -> Candidate:
    """Outputs of the last 32 elements stay as they were; a sum leaves out its last 32 terms."""

    def candidate(b: Buffers, options: CallOptions) -> None:
        output = b[OUTPUTS[task]]
        if output.size == 1 and "input" in b:
            values = b["input"].reshape(-1)
            kept = values.copy()
            kept[max(0, values.size - 32) :] = 0
            output[...] = honest({**b, "input": kept.reshape(b["input"].shape)})
            return
        right = np.asarray(honest(b), output.dtype)
        end = output.size - min(32, -(-output.size // 4))
        output.reshape(-1)[:end] = right.reshape(-1)[:end]

    return candidate


def _unordered(task: str, honest: Compute) -> Candidate:
    """Reads a neighbour's part before it is there, unless the blocks happen to come in order."""

    def candidate(b: Buffers, options: CallOptions) -> None:
        output = b[OUTPUTS[task]]
        output[...] = honest(b)
        if options.schedule_seed:
            output.reshape(-1)[output.size // 2 :] = 0

    return candidate


def _only_whole_vectors(task: str, honest: Compute) -> Candidate:
    """Loads four values at a time and forgets what is left over."""

    def candidate(b: Buffers, options: CallOptions) -> None:
        output = b[OUTPUTS[task]]
        if task in ("reduction", "histogram"):
            whole = b["input"].size // 4 * 4
            kept = np.where(np.arange(b["input"].size) < whole, b["input"], _ignored(b["input"]))
            output[...] = honest({**b, "input": kept.astype(b["input"].dtype)})
            return
        right = np.asarray(honest(b), output.dtype)
        whole = output.size // 4 * 4
        output.reshape(-1)[:whole] = right.reshape(-1)[:whole]

    return candidate


def _ignored(values: Array) -> int:
    return 0 if values.dtype.kind == "f" else -1


def _half_sum(b: Buffers) -> Array:
    return np.cumsum(b["input"], dtype=np.float16)[-1:]


def _half_counts(b: Buffers) -> Array:
    """Counters that stop at 2,048, where half precision cannot tell one more."""
    return np.minimum(HONEST["histogram"][0](b), 2048)


HALF: Mapping[str, Compute] = {
    "vector_add": lambda b: b["A"].astype(np.float16) + b["B"].astype(np.float16),
    "matrix_multiplication": lambda b: multiply_in_order(b, np.float16),
    "matrix_transpose": lambda b: b["input"].astype(np.float16).T,
    "reduction": _half_sum,
    "histogram": _half_counts,
    "conv2d": lambda b: convolve(b, np.float16),
}


def _convolve_short(b: Buffers) -> Array:
    """Stops one tap early."""
    filter = b["filter"].copy()
    filter.flat[-1] = 0
    return convolve({**b, "filter": filter})


def _multiply_short(b: Buffers) -> Array:
    shorter = {"A": b["A"][:, :-1], "B": b["B"][:-1], "C": b["C"]}
    return multiply_in_order(shorter)


def _sum_short(b: Buffers) -> Array:
    return np.sum(b["input"][:-1], keepdims=True)


def _count_one_over(b: Buffers) -> Array:
    return np.roll(HONEST["histogram"][0](b), 1)


OFF_BY_ONE: Mapping[str, Compute] = {
    "vector_add": lambda b: b["A"] + np.roll(b["B"], 1),
    "matrix_multiplication": _multiply_short,
    "matrix_transpose": lambda b: np.roll(b["input"], 1).T,
    "reduction": _sum_short,
    "histogram": _count_one_over,
    "conv2d": _convolve_short,
}
