"""Records on a real GPU what the tests compare the emulated device with.

    PYTHONPATH=src:tests/support python benchmarks/record_on_gpu.py WHAT --out FOLDER

Run from the root, with nvcc, ptxas, CuPy and a GPU of compute capability 9.0. `operations`: each
spelling of a lane operation that ptxas accepts, as a kernel of one instruction, on the operands of
tests/support/recorded_rows.py. Started again with the same folder it goes on where it stopped.
`calls`: results of the programs in tests/fixtures/recorded. `tensor`: those of
tests/support/recorded_tensor.py.
"""

import argparse
import ctypes
import datetime
import json
import lzma
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from record import dispatch
from recorded_calls import (
    ATOMIC_RESULTS,
    ATOMICS,
    COLLECTIVE_RESULTS,
    COLLECTIVE_ROWS,
    atomic_table,
    collective_table,
)
from recorded_results import recorded_types, stored_bytes
from recorded_rows import ROWS, TABLES, bits_of, operands
from recorded_tensor import CALLS, GEMM_CALLS, GROUP_CALLS, RECORD, thinned

from cuda_llm.tools.emulator.ops.lane_op import LaneOp
from cuda_llm.tools.emulator.ops.table import operations

FIXTURES = Path(__file__).parents[1] / "tests/fixtures/recorded"


def build(source: Path, folder: Path, architecture: str = "90") -> ctypes.CDLL:
    """Build a program as a native library, for one target: `-arch=sm_90a` takes in sm_90."""
    library = str(folder / f"{source.stem}.so")
    target = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    command = ["nvcc", "-O3", target, "-shared", "-Xcompiler", "-fPIC", str(source), "-o", library]
    subprocess.run(command, check=True)
    return ctypes.CDLL(library)


def call(library: ctypes.CDLL, table: Any, shape: tuple[int, ...], rows: int) -> Any:
    """Return the result of one call of `solve`."""
    import cupy

    source = cupy.asarray(table)
    out = cupy.full(shape, 0xA5A5A5A5, dtype=table.dtype)
    library.solve(ctypes.c_void_p(source.data.ptr), ctypes.c_void_p(out.data.ptr), rows)
    cupy.cuda.Device().synchronize()
    return out.get()


def out_folder() -> Path:
    """Return the folder of the results, made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def record_calls() -> None:
    """Build, call, write."""
    out = out_folder()
    with tempfile.TemporaryDirectory() as name:
        made = [build(FIXTURES / f"{one}.cu", Path(name)) for one in ("collectives", "atomics")]
        shape = (COLLECTIVE_ROWS, COLLECTIVE_RESULTS, 32)
        collectives = call(made[0], collective_table(), shape, shape[0])
        wide = (len(ATOMICS), ATOMIC_RESULTS, ROWS)
        atomics = call(made[1], atomic_table(), wide, 0)
    path = out / "cuda_calls_h200.npz"
    np.savez_compressed(path, collectives=collectives, atomics=atomics)
    print(f"{path.stat().st_size} bytes")


def record_tensor() -> None:
    """Build each program for sm_90a, call it once, write what is kept of what it left."""
    import cupy

    out = out_folder()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for one in (*CALLS, *GROUP_CALLS, *GEMM_CALLS):
            (source := Path(name) / f"{one.name}.cu").write_text(one.source)
            library = build(source, Path(name), "90a")
            buffers = [cupy.asarray(one.given), *map(cupy.zeros_like, map(cupy.asarray, one.left))]
            library.solve(*(ctypes.c_void_p(buffer.data.ptr) for buffer in buffers), one.rows)
            cupy.cuda.Device().synchronize()
            for part, buffer in zip(one.parts, buffers[1:], strict=True):
                found[part] = thinned(part, buffer.get())
    np.savez_compressed(out / RECORD, **found)
    print(f"{(out / RECORD).stat().st_size} bytes")


HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
PARAMETERS = 7
"""Five arguments and two results at most."""


def _register(t: str) -> str:
    return "pred" if t == "pred" else f"b{max(bits_of(t), 16)}"


def probe(name: str, spelling: str, op: LaneOp) -> list[str]:
    """Return the lines of one kernel: thread i takes row i."""
    lines = [f".visible .entry {name}("]
    lines.append(", ".join(f".param .u64 p{i}" for i in range(PARAMETERS)) + ")")
    lines += ["{", ".reg .b64 %at, %base;", ".reg .b32 %row, %turn, %carry, %wide;"]
    lines += [".reg .b16 %byte;", ".reg .pred %chosen;", "mov.u32 %row, %tid.x;"]
    for i, t in enumerate(op.arguments):
        lines.append(f".reg .{_register(t)} %a{i};")
        width = max(bits_of(t), 8)
        lines += _address(i, width // 8)
        if t == "pred":
            lines += ["ld.global.u8 %byte, [%at];", f"setp.ne.u16 %a{i}, %byte, 0;"]
        else:
            lines.append(f"ld.global.b{width} %a{i}, [%at];")
    results = recorded_types(op)
    for i, t in enumerate(results):
        size = stored_bytes(spelling, t)
        register = "pred" if t == "pred" else f"b{max(8 * size, 16)}"
        lines.append(f".reg .{register} %d{i};")
    lines += _applied(spelling, op)
    for i, t in enumerate(results):
        size = stored_bytes(spelling, t)
        lines += _address(5 + i, size)
        if t == "pred":
            lines += [f"selp.b16 %byte, 1, 0, %d{i};", "st.global.b8 [%at], %byte;"]
        else:
            lines.append(f"st.global.b{8 * size} [%at], %d{i};")
    return [*lines, "ret;", "}"]


def _address(parameter: int, size: int) -> list[str]:
    return [
        f"ld.param.u64 %base, [p{parameter}];",
        f"mad.wide.u32 %at, %row, {size}, %base;",
    ]


def _applied(spelling: str, op: LaneOp) -> list[str]:
    """Return the instruction itself, with the flag it reads and writes."""
    opcode = spelling.partition("/")[0]
    arguments = [f"%a{i}" for i in range(len(op.arguments))]
    if op.reads_carry or op.writes_carry:
        return _with_carry(opcode, op, arguments)
    target = "|".join(f"%d{i}" for i in range(len(recorded_types(op))))
    if not opcode.startswith("lop3."):
        return [f"{opcode} {target}, {', '.join(arguments)};"]
    lines = [f"and.b32 %turn, %row, {len(TABLES) - 1};"]
    for i, table in enumerate(TABLES):
        arguments[3] = str(table)
        lines.append(f"setp.eq.u32 %chosen, %turn, {i};")
        lines.append(f"@%chosen {opcode} {target}, {', '.join(arguments)};")
    return lines


def _with_carry(opcode: str, op: LaneOp, arguments: list[str]) -> list[str]:
    subtracts = opcode.startswith("sub")
    lines = []
    if op.reads_carry:
        lines.append(f"selp.b32 %carry, 1, 0, {arguments.pop()};")
        made = "sub.cc.u32 %wide, 0, %carry;" if subtracts else "add.cc.u32 %wide, %carry, -1;"
        lines.append(made)
    lines.append(f"{opcode} %d0, {', '.join(arguments)};")
    if op.writes_carry:
        lines.append(f"{'subc' if subtracts else 'addc'}.u32 %carry, 0, 0;")
        lines.append("setp.ne.u32 %d1, %carry, 0;")
    return lines


def assemble(operations: Mapping[str, LaneOp], cubin: Path) -> tuple[dict[str, str], list[str]]:
    """Build a cubin. Return the kernel of each spelling, and the spellings ptxas refuses."""
    left = dict(operations)
    refused: list[str] = []
    while left:
        names = {spelling: f"probe{i}" for i, spelling in enumerate(left)}
        owner: list[str] = [""] * HEAD.count("\n")
        text = HEAD
        for spelling, op in left.items():
            lines = probe(names[spelling], spelling, op)
            owner += [spelling] * len(lines)
            text += "\n".join(lines) + "\n"
        wrong = _refused(text, owner, cubin)
        if not wrong:
            return names, refused
        refused += wrong
        for spelling in wrong:
            del left[spelling]
    return {}, refused


def _refused(text: str, owner: Sequence[str], cubin: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probes.ptx"
        source.write_text(text)
        command = ["ptxas", "-arch=sm_90", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    lines = {int(n) for n in re.findall(r"line (\d+); (?:error|fatal)", done.stderr)}
    if not lines:
        raise SystemExit(done.stderr)
    return list(dict.fromkeys(owner[n - 1] for n in sorted(lines)))


assert ROWS <= 1024, "one block holds all rows"


GROUP = 100
"""Spellings a module."""


def record_group(ops: Mapping[str, LaneOp], cubin: Path, names: Mapping[str, str]) -> list[bytes]:
    """Return the results of every spelling that has a kernel, in order."""
    import cupy

    module = cupy.RawModule(path=str(cubin))
    inputs: dict[tuple[str, ...], list[Any]] = {}
    found = []
    for spelling, name in names.items():
        op = ops[spelling]
        key = (*op.arguments, "lop3" if spelling.startswith("lop3.") else "")
        if key not in inputs:
            columns = operands(spelling, op.arguments)
            inputs[key] = [
                cupy.asarray(c.astype(f"u{max(bits_of(t), 8) // 8}"))
                for c, t in zip(columns, op.arguments, strict=True)
            ]
        types = recorded_types(op)
        outputs = [cupy.full(8 * ROWS, 0xA5, dtype=cupy.uint8) for _ in range(2)]
        unused = outputs[0]
        passed = [*inputs[key], *[unused] * (5 - len(op.arguments)), *outputs]
        module.get_function(name)((1,), (ROWS,), tuple(passed))
        sizes = [stored_bytes(spelling, t) * ROWS for t in types]
        found.append(b"".join(o.get().tobytes()[:n] for o, n in zip(outputs, sizes, strict=False)))
    return found


def gpu() -> dict[str, str]:
    """Return the facts of the GPU and the toolkit."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    name, driver, capability = subprocess.check_output(query, text=True).strip().split(", ")
    ptxas = subprocess.check_output(["ptxas", "--version"], text=True).split("release ")[1]
    return {
        "gpu": name,
        "driver": driver,
        "compute_capability": capability,
        "ptxas": ptxas.split(",")[0],
        "date": datetime.date.today().isoformat(),
    }


def save(folder: Path, results: Mapping[str, bytes], refused: list[str]) -> Path:
    """Write the results so far."""
    spellings = sorted(results)
    facts = {**gpu(), "rows": ROWS, "spellings": spellings, "refused": sorted(refused)}
    payload = json.dumps(facts).encode() + b"\n" + b"".join(results[s] for s in spellings)
    path = folder / "ptx_operations.xz"
    path.write_bytes(lzma.compress(payload, preset=9))
    return path


def record_operations() -> None:
    """Assemble, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, default=540)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--dry-run", action="store_true", help="assemble only")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    ops = operations()
    parts = arguments.out / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    groups = [list(ops)[i : i + GROUP] for i in range(0, len(ops), GROUP)]
    left = [i for i in range(len(groups)) if not (parts / f"{i}.json").exists()]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        cubins = {i: Path(folder) / f"{i}.cubin" for i in left}
        made = pool.map(lambda i: assemble({s: ops[s] for s in groups[i]}, cubins[i]), left)
        for i, (names, refused) in zip(left, made, strict=True):
            if time.monotonic() > deadline:
                print(f"stopped after {arguments.limit_s:g} s")
                break
            if arguments.dry_run:
                print(i, len(names), len(refused), flush=True)
                continue
            found = record_group(ops, cubins[i], names) if names else []
            done = {
                "results": {s: b.hex() for s, b in zip(names, found, strict=True)},
                "refused": refused,
            }
            (parts / f"{i}.json").write_text(json.dumps(done))
    if not arguments.dry_run:
        results: dict[str, bytes] = {}
        all_refused: list[str] = []
        for part in sorted(parts.glob("*.json")):
            done = json.loads(part.read_text())
            results |= {s: bytes.fromhex(text) for s, text in done["results"].items()}
            all_refused += done["refused"]
        path = save(arguments.out, results, all_refused)
        print(f"{len(results)} recorded, {len(all_refused)} refused, {path.stat().st_size} bytes")


if __name__ == "__main__":
    dispatch({"operations": record_operations, "calls": record_calls, "tensor": record_tensor})
