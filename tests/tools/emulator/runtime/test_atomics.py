"""Every atomic operation against NumPy, lane after lane."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from corpus_sample import is_whole
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtime_driver import start

OPS = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"]
TYPES = [
    "b16", "b32", "u32", "s32", "b64", "u64", "s64",
    "f32", "f64", "f16", "f16x2", "bf16", "bf16x2",
]  # fmt: skip
WIDTH = {"b16": 2, "f16": 2, "bf16": 2, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
REQUEST = np.dtype(
    [
        ("op", "u4"),
        ("type", "u4"),
        ("width", "u4"),
        ("shared", "u4"),
        ("mask", "u4"),
        ("with_result", "u4"),
        ("cells", "u4"),
        ("unused", "u4"),
        ("cell", "u4", 32),
        ("a", "u8", 32),
        ("b", "u8", 32),
        ("out", "u8", 32),
        ("memory", "u8", 8),
    ]
)
LEGAL = [
    *((op, t) for op in ("add", "min", "max", "exch", "cas") for t in ("u32", "u64")),
    *((op, t) for op in ("min", "max") for t in ("s32", "s64")),
    *((op, t) for op in ("and", "or", "xor", "exch", "cas") for t in ("b32", "b64")),
    *((op, "u32") for op in ("inc", "dec")),
    *(("add", t) for t in ("s32", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2")),
    ("cas", "b16"),
]


def rounded_bf16(value: np.float32) -> int:
    """Nearest bfloat16, ties to even, as bits."""
    bits = int(value.view(np.uint32))
    if np.isnan(value):
        return 0x7FFF
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def half_sum(old: int, a: int, brain: bool) -> int:
    if brain:
        terms = np.array([old << 16, a << 16], np.uint32).view(np.float32)
        return rounded_bf16(np.float32(terms[0] + terms[1]))
    parts = np.array([old, a], np.uint16).view(np.float16)
    return int(np.float16(parts[0] + parts[1]).view(np.uint16))


def flushed(value: np.float32) -> np.float32:
    tiny = np.finfo(np.float32).tiny
    return np.copysign(np.float32(0), value) if abs(value) < tiny else value


def signed(bits: int, width: int) -> int:
    return bits - (1 << 8 * width) if bits >> (8 * width - 1) else bits


def applied(op: str, kind: str, old: int, a: int, b: int, shared: bool) -> int:
    """The new value, as bits."""
    width = WIDTH.get(kind, 4)
    limit = (1 << 8 * width) - 1
    if op == "add" and kind in {"f16", "bf16"}:
        return half_sum(old, a, kind == "bf16")
    if op == "add" and kind in {"f16x2", "bf16x2"}:
        brain = kind == "bf16x2"
        low = half_sum(old & 0xFFFF, a & 0xFFFF, brain)
        return half_sum(old >> 16, a >> 16, brain) << 16 | low
    if op == "add" and kind == "f32":
        x, y = np.array([old, a], np.uint32).view(np.float32)
        total = np.float32(x + y) if shared else flushed(np.float32(flushed(x) + flushed(y)))
        return int(total.view(np.uint32))
    if op == "add" and kind == "f64":
        p, q = np.array([old, a], np.uint64).view(np.float64)
        return int(np.float64(p + q).view(np.uint64))
    if op in {"min", "max"}:
        read = (lambda v: signed(v, width)) if kind.startswith("s") else (lambda v: v)
        return min(old, a, key=read) if op == "min" else max(old, a, key=read)
    match op:
        case "add":
            return old + a & limit
        case "inc":
            return 0 if old >= a else old + 1
        case "dec":
            return a if old == 0 or old > a else old - 1
        case "and":
            return old & a
        case "or":
            return old | a
        case "xor":
            return old ^ a
        case "exch":
            return a
        case _:
            return b if old == a else old


def is_nan(kind: str, bits: int) -> bool:
    match kind:
        case "f32":
            return bits & 0x7FFFFFFF > 0x7F800000
        case "f64":
            return bits & ((1 << 63) - 1) > 0x7FF << 52
        case "f16" | "f16x2":
            return any(bits >> s & 0x7FFF > 0x7C00 for s in (0, 16))
        case "bf16" | "bf16x2":
            return any(bits >> s & 0x7FFF > 0x7F80 for s in (0, 16))
        case _:
            return False


@pytest.mark.parametrize(("op", "kind"), LEGAL)
@given(data=st.data())
@settings(
    max_examples=100 if is_whole() else 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_lanes_act_one_after_another(driver: Path, op: str, kind: str, data: st.DataObject) -> None:
    width = WIDTH.get(kind, 4)
    values = st.integers(0, (1 << 8 * width) - 1) | st.integers(0, 3)
    request = np.zeros(1, REQUEST)
    request["op"], request["type"] = OPS.index(op), TYPES.index(kind)
    request["width"] = width
    shared = data.draw(st.booleans())
    request["shared"], request["with_result"] = shared, 1
    mask = data.draw(st.integers(1, 0xFFFFFFFF))
    request["mask"] = mask
    cells = data.draw(st.lists(st.integers(0, 7), min_size=32, max_size=32))
    a = data.draw(st.lists(values, min_size=32, max_size=32))
    b = data.draw(st.lists(values, min_size=32, max_size=32))
    memory = data.draw(st.lists(values, min_size=8, max_size=8))
    request["cell"], request["a"], request["b"], request["memory"] = cells, a, b, memory

    expected = list(memory)
    results: dict[int, int] = {}
    spoilt: set[int] = set()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        for lane in range(32):
            if mask >> lane & 1:
                cell = cells[lane]
                if cell not in spoilt:
                    results[lane] = expected[cell]
                expected[cell] = applied(op, kind, expected[cell], a[lane], b[lane], shared)
                # Which NaN an addition gives is not specified.
                if op == "add" and is_nan(kind, expected[cell]):
                    spoilt.add(cell)

    ran = start(driver, "atomic_request", 0, 0, 0, buffer=request.tobytes())
    assert ran.status == 0, ran.record.fault
    after = ran.arena[8192 : 8192 + REQUEST.itemsize].view(REQUEST)[0]
    for cell in set(range(8)) - spoilt:
        assert int(after["memory"][cell]) == expected[cell]
    for lane, old in results.items():
        assert int(after["out"][lane]) == old
