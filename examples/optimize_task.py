"""Search a fast kernel from a script: `python examples/optimize_task.py [TASK]`."""

import sys

from cuda_llm import load_task, optimize


def main(name: str = "matrix_transpose") -> None:
    result = optimize(load_task(name), candidates=3, rounds=2)
    if result.best is None:
        print(f"nothing passed; see {result.run_dir}")
        return
    print(f"{result.best.id}: {result.speedup:.2f}x the baseline on {result.device}")
    print(f"times are {result.time_source}, the kernel is written by: {result.written_by}")
    print(result.source)


if __name__ == "__main__":
    main(*sys.argv[1:])
