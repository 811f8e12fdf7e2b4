"""What do single operations cost on a GPU, and how far off are its approximate functions?

    python benchmarks/constants_on_gpu.py costs --out costs.jsonl
    python benchmarks/constants_on_gpu.py functions --out FOLDER

`costs` runs `unit_costs.cu`: clocks of arithmetic, barriers and atomics, and the time of patterns
of access, a JSON object a line. `functions` runs `special_functions.cu`: `counts.jsonl` has the
distances of all 2^32 results of each function from the rounded ones, by exponent, and a zip file
for each function the distances, or results, of parts of the inputs. Each takes less than a minute.
"""

import argparse
import subprocess
import tempfile
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import record

from cuda_llm.tools.compiler.nvcc import find_toolkit

HERE = Path(__file__).parent
ZIPS = {
    "rcp_sqrt.zip": ("rcp.", "rsqrt.", "sqrt.", "div_"),
    "ex2_lg2.zip": ("ex2.", "lg2."),
    "sin.zip": ("sin.",),
    "cos.zip": ("cos.",),
    "halves_tanh.zip": ("tanh", "ex2_"),
}
"""What each file holds, by the beginnings of names."""


def compile_program(source: str, folder: Path, arch: str) -> Path:
    """Compile a program of this folder."""
    program = folder / Path(source).stem
    nvcc = str(find_toolkit().nvcc)
    flags = ("-O3", "-std=c++17", f"-arch={arch}")
    subprocess.run([nvcc, *flags, "-o", str(program), str(HERE / source)], check=True)
    return program


def record_costs() -> None:
    """Write the lines that the program prints."""
    asked = _parse("file of lines")
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program("unit_costs.cu", Path(folder), asked.arch)
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with asked.out.open("w") as file:
            subprocess.run([str(program)], stdout=file, timeout=asked.limit_s, check=False)
    print(asked.out.read_text())


def record_functions() -> None:
    """Write the counts, and pack the files of the program."""
    asked = _parse("folder of files")
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compile_program("special_functions.cu", folder, asked.arch)
        written = folder / "written"
        written.mkdir()
        with (asked.out / "counts.jsonl").open("w") as file:
            command = [str(program), str(written)]
            subprocess.run(command, stdout=file, timeout=asked.limit_s, check=False)
        packs = [
            (
                asked.out / target,
                [one for one in written.iterdir() if one.name.startswith(prefix)],
            )
            for target, prefix in ZIPS.items()
        ]
        with ProcessPoolExecutor() as pool:
            for target, size in pool.map(pack, packs):
                print(target, size)


def pack(job: tuple[Path, list[Path]]) -> tuple[str, int]:
    """Pack files into one; return its name and size."""
    target, paths = job
    with zipfile.ZipFile(target, "w", zipfile.ZIP_BZIP2) as file:
        for path in sorted(paths):
            file.write(path, path.name)
    return target.name, target.stat().st_size


def _parse(of_out: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help=of_out)
    parser.add_argument("--arch", default="sm_90a", help="as nvcc spells it")
    parser.add_argument("--limit-s", type=float, default=240.0, help="stop the program after this")
    return parser.parse_args()


if __name__ == "__main__":
    record.dispatch({"costs": record_costs, "functions": record_functions})
