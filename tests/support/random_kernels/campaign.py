"""Try random programs on the emulated device for as long as there is time.

    PYTHONPATH=tests/support python -m random_kernels.campaign --seconds 600

Each seed is one program for one target; a program that differs from its oracle is kept, with what
differed, in the folder of `--keep`. Exit status 1 if there was one.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from random_kernels.program import draw_program
from random_kernels.trial import FLAGS, Difference, try_program

TARGETS = ("sm_75", "sm_86", "sm_90", "sm_120")
SHAPES: tuple[tuple[str, ...], ...] = ((), (), (), ("-G",), ("-Xcicc=-O1",))
"""Extra flags that change the shape of the PTX."""


def attempt(seed: int, kernels: int) -> tuple[str, list[Difference] | str]:
    """Run one seed; says how it was compiled and what differed, or what broke."""
    target = TARGETS[seed % len(TARGETS)]
    extra = SHAPES[seed // len(TARGETS) % len(SHAPES)]
    with tempfile.TemporaryDirectory() as folder:
        program = draw_program(seed, kernels)
        trial = try_program(program, seed, Path(folder), target=target, flags=(*FLAGS, *extra))
        try:
            return " ".join((target, *extra)), asyncio.run(trial)
        except AssertionError as error:
            return " ".join((target, *extra)), str(error)


def main() -> int:
    """Run, print a line a seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kernels", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--keep", type=Path, default=Path("differences"))
    arguments = parser.parse_args()
    end, seed, bad = time.monotonic() + arguments.seconds, arguments.seed, 0
    while time.monotonic() < end:
        built, found = attempt(seed, arguments.kernels)
        print(f"seed {seed} {built}: {found or 'right'}", flush=True)
        if found:
            bad += 1
            arguments.keep.mkdir(parents=True, exist_ok=True)
            name = f"{seed}-{built.split()[0]}"
            text = draw_program(seed, arguments.kernels).text()
            (arguments.keep / f"{name}.cu").write_text(text)
            (arguments.keep / f"{name}.txt").write_text(f"{built}\n{found}\n")
        seed += 1
    tried = seed - arguments.seed
    print(f"{tried * arguments.kernels} kernels in {tried} programs, {bad} programs differ")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
