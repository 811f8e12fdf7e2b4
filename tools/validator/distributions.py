"""Named input distributions, each `(source, shape, dtype, *arguments) -> array`.

`tasks.distribution` defines how a task spells a distribution.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.distribution import maker_in, maker_of, parse_distribution
from cuda_llm.tasks.element_types import ElementType, element_type
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.made_inputs import make_inputs
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device.buffers import HOST, Array, Arrays, Random
from cuda_llm.tools.validator.adversaries import ARRANGEMENTS, landmarks, split_arrangement
from cuda_llm.tools.validator.float_values import (
    all_equal,
    constant_rows,
    denormal,
    exact_odd,
    exact_odd_13bit,
    exact_signs,
    first_high,
    full_rank,
    heavy_tail,
    infinities,
    large,
    magnitudes,
    mixed,
    normal,
    outliers,
    scaled_rows,
    sparse,
    spike,
    uniform,
    uniform_signed,
    uniform_unit,
    zeros,
)
from cuda_llm.tools.validator.whole_numbers import (
    DRAWN_AT_ONCE,
    MADE_BYTES,
    Shape,
    Source,
    bins,
    bit_patterns,
    descending_ints,
    ints,
    ints_full_range,
    is_in_parts,
    nearly_sorted_ints,
    rare_bins,
    sorted_ints,
)

InputDistribution = Callable[..., Array]

DISTRIBUTIONS: Mapping[str, InputDistribution] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            normal,
            uniform_signed,
            uniform_unit,
            uniform,
            heavy_tail,
            large,
            denormal,
            zeros,
            all_equal,
            constant_rows,
            sparse,
            mixed,
            magnitudes,
            scaled_rows,
            full_rank,
            bit_patterns,
            spike,
            outliers,
            infinities,
            exact_odd,
            exact_odd_13bit,
            exact_signs,
            first_high,
            landmarks,
            ints_full_range,
            ints,
            sorted_ints,
            nearly_sorted_ints,
            descending_ints,
            bins,
            rare_bins,
        )
    }
)

SYMMETRIC = frozenset({"normal", "uniform_signed"})
"""Independent elements around zero, no long tail: their sums cancel, so tolerances are tight."""

TINY = frozenset({"denormal", "zeros"})
"""Distributions of numbers so small that no formula of them overflows on the way."""

REPEATED = frozenset({"all_equal", "constant_rows", "spike"})
"""Distributions of equal values: every addition of a chain may round the same way."""

DOMINANT = frozenset({"magnitudes", "bit_patterns", "outliers"})
"""Few elements, or none that is a number, decide a sum."""

REGIONS = "regions of "
"""Prefix of the spelling of several distributions in one array; no task writes it."""

FILLED = frozenset({"all_equal", "constant_rows", "spike", "outliers", "first_high", "landmarks"})
"""Nothing is made on the way but what is drawn in parts."""
SORTED_BYTES = 16
"""An element of whole numbers, on the way to them: eight bytes each, sorted beside themselves."""


def in_regions(spellings: Sequence[str]) -> str:
    """Return the spelling of these distributions side by side in one array."""
    return REGIONS + "; ".join(dict.fromkeys(spellings))


def spellings_in(spelling: str) -> list[str]:
    """Return the distributions that share an array: a single distribution, unless the case has
    regions. Of an arrangement it is the distribution whose values are arranged."""
    return split_arrangement(spelling)[1].removeprefix(REGIONS).split("; ")


def drawing_bytes(
    spelling: str, size: int, at_once: int = DRAWN_AT_ONCE, dtype: str = "float32"
) -> int:
    """Return the memory that drawing `size` elements of a type takes beside the array itself."""
    element = element_type(dtype)
    if element.is_complex:
        # A part, before it goes to its place.
        part_bytes = element.item_bytes // 2 * size
        return part_bytes + drawing_bytes(spelling, size, at_once, element.part)
    if not element.is_native:
        # The numbers, before they are stored as bits.
        number_bytes = element_type(element.array).item_bytes
        return number_bytes * size + drawing_bytes(spelling, size, at_once, element.array)
    if maker_of(spelling):
        return SORTED_BYTES * size
    names = [parse_distribution(one).name for one in spellings_in(spelling)]
    at_most = min(size, at_once)
    parted = [is_in_parts(DISTRIBUTIONS[name]) or name in FILLED for name in names]
    return MADE_BYTES * at_most if all(parted) else max(SORTED_BYTES * size, MADE_BYTES * at_most)


def short_label(spelling: str) -> str:
    """Return the spelling as verdicts name it."""
    return "regions of every kind" if spelling.startswith(REGIONS) else spelling


def draw(
    spelling: str,
    rng: Random,
    shape: Shape,
    dtype: npt.DTypeLike,
    dims: Mapping[str, int],
    density: float = 1.0,
    arrays: Arrays = HOST,
    at_once: int = DRAWN_AT_ONCE,
) -> Array:
    """Draw an array of the distribution a task spells `spelling`; `density` is a probe's.

    Several distributions share an array: rows next to each other, or segments of a vector. Large
    arrays are drawn `at_once` elements at a time where the distribution allows it. `dtype` is the
    name of an element type, or a type of NumPy; elements of types that NumPy lacks are returned as
    memory holds them. Both parts of complex numbers are drawn from the distribution.
    """
    element = element_type(dtype if isinstance(dtype, str) else np.dtype(dtype).name)
    if element.is_complex:
        numbers = arrays.xp.empty(shape, element.array)
        for part in (numbers.real, numbers.imag):
            part[...] = draw(spelling, rng, shape, element.part, dims, density, arrays, at_once)
        return numbers
    if 0 in shape:
        return arrays.xp.empty(shape, element.stored_as)
    source = Source(rng, arrays, at_once, element)
    values = _numbers(spelling, source, shape, element.array, dims, density)
    return values if element.is_native else _stored(values, element, source)


def draw_made(
    task: Task,
    row: Mapping[str, str],
    dims: Mapping[str, int],
    rng: Random,
    arrays: Arrays = HOST,
) -> dict[str, Array]:
    """Draw the inputs of a row of distributions that a function of inputs.py makes; empty where the
    row names none. Raises TaskError where inputs.py fails."""
    function = maker_in(row.values())
    if not function:
        return {}
    low, high = arrays.to_host(rng.integers(0, 1 << 31, size=(2,))).tolist()
    made = make_inputs(task, function, low | high << 31, dims)
    return {name: arrays.xp.asarray(one) for name, one in made.items()}


def _stored(values: Array, element: ElementType, source: Source) -> Array:
    """Round numbers to elements, a part of a large array at a time."""
    stored = source.xp.empty(values.shape, element.stored_as)
    flat, drawn = stored.reshape(-1), values.reshape(-1)
    for first in range(0, flat.size, source.at_once):
        part = slice(first, first + source.at_once)
        flat[part] = element.encode(drawn[part], source.xp)
    return stored


def _numbers(
    spelling: str,
    source: Source,
    shape: Shape,
    dtype: str,
    dims: Mapping[str, int],
    density: float,
) -> Array:
    """Draw numbers, not yet rounded to elements of a type that NumPy lacks."""
    arrays, rng = source.arrays, source.rng
    arrangement, spelling = split_arrangement(spelling)
    if arrangement:
        values = _numbers(spelling, source, shape, dtype, dims, density)
        return ARRANGEMENTS[arrangement](source, values)
    kinds = [_bound(one, source, dtype, dims, density) for one in spellings_in(spelling)]
    if len(kinds) == 1:
        return kinds[0](shape)
    values = arrays.xp.empty(shape, dtype)
    rows = values.reshape(-1, shape[-1]) if len(shape) > 1 else values
    order, widths = (arrays.to_host(rng.random(len(kinds))) for _ in range(2))
    shares = np.cumsum(widths + 0.5) / (widths + 0.5).sum()
    ends = np.rint(shares * rows.shape[0]).astype(int).tolist()
    for first, last, number in zip((0, *ends), ends, np.argsort(order), strict=False):
        if first < last:
            rows[first:last] = kinds[number]((last - first, *rows.shape[1:]))
    return values


def _bound(
    spelling: str, source: Source, dtype: npt.DTypeLike, dims: Mapping[str, int], density: float
) -> Callable[[Shape], Array]:
    parsed = parse_distribution(spelling)
    arguments = [evaluate(text, dims) for text in parsed.arguments]
    if density < 1:
        arguments.append(density)
    return lambda shape: DISTRIBUTIONS[parsed.name](source, shape, dtype, *arguments)
