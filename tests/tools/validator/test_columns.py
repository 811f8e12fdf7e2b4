"""What is done to one buffer of many slots is what NumPy does slot by slot."""

from typing import Any

import numpy as np
import pytest
from slot_memory import as_bytes, column
from strict_arrays import strict_arrays

from cuda_llm.tools.device.buffers import HOST, Arrays, BufferSpec, Role
from cuda_llm.tools.validator import columns

WAYS = {"host": HOST, "kernels": strict_arrays()[0], "no kernels": strict_arrays(None)[0]}
SPECS = [
    BufferSpec(name=f"{dtype} {shape}", role=Role.OUT, dtype=dtype, shape=shape)
    for dtype, shape in [
        *(("uint8", (1,)), ("float16", (7,)), ("float64", (130,)), ("int32", (2, 3, 4))),
        ("float32", ()),
    ]
]
ORDERS = {
    "one": [0],
    "some": [6, 2, 9],
    "all": [int(slot) for slot in np.random.default_rng(1).permutation(256)],
}


@pytest.fixture(params=WAYS)
def arrays(request: pytest.FixtureRequest) -> Arrays:
    return WAYS[request.param]


@pytest.fixture(params=SPECS, ids=lambda spec: spec.name)
def spec(request: pytest.FixtureRequest) -> BufferSpec:
    found: BufferSpec = request.param
    return found


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> list[int]:
    return ORDERS[request.param]


def filled(spec: BufferSpec, order: list[int]) -> Any:
    """A column of random bytes, in memory where the slots lie apart."""
    data = column(spec, 256 if len(order) > 1 else 1).data
    rng = np.random.default_rng(spec.nbytes)
    for row in data:
        as_bytes(np.asarray(row)[...])[...] = rng.integers(0, 256, spec.nbytes, np.uint8)
    if spec.shape == ():
        data[...] = rng.random(len(data))
    return data


def there(data: Any, arrays: Arrays) -> Any:
    """The same memory, as the arrays see it."""
    return data if arrays is HOST else arrays.xp.wrap(data)


def bits(data: Any) -> Any:
    """Comparable, NaNs included."""
    return [np.ascontiguousarray(row).tobytes() for row in data]


def test_only_the_chosen_slots_are_filled(
    spec: BufferSpec, order: list[int], arrays: Arrays
) -> None:
    data = filled(spec, order)
    before = bits(data)
    columns.fill([there(data, arrays)], order, 0x7B, arrays)
    expected = [b"\x7b" * spec.nbytes if slot in order else row for slot, row in enumerate(before)]
    assert bits(data) == expected


def test_rows_come_in_the_requested_order(
    spec: BufferSpec, order: list[int], arrays: Arrays
) -> None:
    data = filled(spec, order)
    rows = arrays.to_host(columns.gather(there(data, arrays), order, arrays))
    assert rows.shape == (len(order), *spec.shape)
    assert bits(rows) == [bits(data)[slot] for slot in order]


def test_a_byte_that_changed_in_one_slot_is_found_in_its_column(
    spec: BufferSpec, order: list[int], arrays: Arrays
) -> None:
    same, data = filled(spec, order), filled(spec, order)
    rows = np.stack([np.asarray(data[slot]) for slot in order])
    pairs = [(there(one, arrays), there(rows.copy(), arrays)) for one in (same, data)]
    assert columns.first_changed(pairs, order, arrays) is None

    for slot in {order[0], order[len(order) // 2], order[-1]}:
        row = data[slot, ...].reshape(-1).view(np.uint8)
        row[-1] ^= 64
        assert columns.first_changed(pairs, order, arrays) == 1
        row[-1] ^= 64
    assert columns.first_changed(pairs, order, arrays) is None


def test_changes_in_other_slots_are_ignored(arrays: Arrays) -> None:
    data = filled(SPECS[3], ORDERS["some"])
    rows = np.stack([data[slot] for slot in ORDERS["some"]])
    data[5, ...] = 0
    pairs = [(there(data, arrays), there(rows, arrays))]
    assert columns.first_changed(pairs, ORDERS["some"], arrays) is None
