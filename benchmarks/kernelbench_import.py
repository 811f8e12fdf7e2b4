"""Imports the problems of KernelBench and has each task judge its own module, on the CPU.

    python benchmarks/kernelbench_import.py LEVEL1 --out benchmarks/results/kernelbench_level1.json

A task that is admissible has accepted the module's own float32 results at every size, and rejected
outputs that need no computation. Resumes: what is in the output is not done again.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.kernelbench.import_problems import import_problems
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.validator.admissible import check_task


def main() -> None:
    """Import and judge until the limit, and write what is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, default=540.0)
    chosen = parser.parse_args()
    known: dict[str, Any] = {}
    if chosen.out.is_file():
        known = json.loads(chosen.out.read_text())["problems"]
    begun, device = time.monotonic(), open_device("emulated")
    with tempfile.TemporaryDirectory() as folder:
        for one in import_problems(chosen.problems, Path(folder)):
            if one.problem.name in known:
                continue
            if time.monotonic() - begun > chosen.limit_s:
                break
            if one.folder is None:
                known[one.problem.name] = {"is": "refused", "why": one.reason}
                continue
            problems = asyncio.run(check_task(load_task(one.folder), device)).problems
            known[one.problem.name] = (
                {"is": "inadmissible", "why": problems[0].replace(str(one.folder), "")}
                if problems
                else {"is": "admissible"}
            )
    counts = Counter(one["is"] for one in known.values())
    told = {"counts": dict(counts), "problems": known}
    chosen.out.write_text(json.dumps(told, indent=1) + "\n")
    print(dict(counts))


if __name__ == "__main__":
    main()
