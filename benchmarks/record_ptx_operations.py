"""Records on a real GPU what every lane operation gives, for the tests that run without one.

Each spelling of the table that ptxas accepts becomes a kernel of one instruction; it is applied to
the operands of tests/support/recorded_rows.py and the bits of its results are kept. Needs ptxas,
CuPy and a GPU of compute capability 9.0. From the root:

    PYTHONPATH=src:tests/support python benchmarks/record_ptx_operations.py --out FOLDER

Started again with the same folder it goes on where it stopped.
"""

import argparse
import datetime
import json
import lzma
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ptx_probes import assemble
from recorded_results import recorded_types, stored_bytes
from recorded_rows import ROWS, bits_of, operands

from cuda_llm.tools.emulator.ops.lane_op import LaneOp
from cuda_llm.tools.emulator.ops.table import operations

GROUP = 100
"""Spellings a module."""


def record_group(ops: Mapping[str, LaneOp], cubin: Path, names: Mapping[str, str]) -> list[bytes]:
    """Results of every spelling that has a kernel, in order."""
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
    """What was recorded on."""
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
    """Writes what there is so far."""
    spellings = sorted(results)
    facts = {**gpu(), "rows": ROWS, "spellings": spellings, "refused": sorted(refused)}
    payload = json.dumps(facts).encode() + b"\n" + b"".join(results[s] for s in spellings)
    path = folder / "ptx_operations.xz"
    path.write_bytes(lzma.compress(payload, preset=9))
    return path


def main() -> None:
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
        results, all_refused = {}, []
        for part in sorted(parts.glob("*.json")):
            done = json.loads(part.read_text())
            results |= {s: bytes.fromhex(text) for s, text in done["results"].items()}
            all_refused += done["refused"]
        path = save(arguments.out, results, all_refused)
        print(f"{len(results)} recorded, {len(all_refused)} refused, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
