"""Keeps a finished benchmark below `experiments/`, as a record that names no place of this machine.

python benchmarks/record_experiment.py FOLDER NAME

Checkpoints are left out, and tables but for `table.md`; rows are computed again from the runs.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cuda_llm.errors import CudaLLMError, UsageError
from cuda_llm.graph.benchmark.folder import BenchmarkFolder, find_benchmark
from cuda_llm.graph.benchmark.recompute import recompute_rows
from cuda_llm.graph.benchmark.render import markdown
from cuda_llm.graph.benchmark.tables import make_page

EXPERIMENTS = Path(__file__).with_name("experiments")
LEFT_OUT = ("checkpoint.sqlite*", "*.lock", "report.html", "table.*", "elsewhere")
PLACE = re.compile(r"""["'\s=](/[A-Za-z0-9._-]+){2,}""")
"""An absolute path in a text."""


def main(arguments: list[str]) -> int:
    """Keep the benchmark; return 0."""
    if len(arguments) != 2:
        raise UsageError("expected FOLDER NAME, a finished benchmark and the name of its record")
    made = keep(find_benchmark(arguments[0]), EXPERIMENTS / arguments[1])
    print(made.path)
    return 0


def keep(folder: BenchmarkFolder, place: Path) -> BenchmarkFolder:
    """Copy a finished benchmark to `place`. Raises UsageError where it is not finished, and where
    its record would name a place of this machine."""
    if not folder.is_done(folder.read_plan()):
        raise UsageError(f"{folder.path}: not finished; go on with: {folder.resume_command}")
    shutil.copytree(folder.path, place, ignore=shutil.ignore_patterns(*LEFT_OUT))
    made = BenchmarkFolder(place)
    for file in files_of(place):
        text = file.read_text(encoding="utf-8")
        file.write_text(without_places(text, folder.path), encoding="utf-8")
    plan = made.read_plan()
    rows = recompute_rows(made, plan)
    for name, row in zip(plan.tasks, rows, strict=True):
        made.write_row(name, replace(row, run=f"runs/{name}"))
    (place / "table.md").write_text(markdown(make_page(plan, rows)), encoding="utf-8")
    named = [file for file in files_of(place) if PLACE.search(file.read_text(encoding="utf-8"))]
    if named:
        raise UsageError(f"{named[0]}: names a place of this machine; edit it there")
    return made


def files_of(place: Path) -> Iterator[Path]:
    """Yield every file below a folder."""
    yield from (one for one in sorted(place.rglob("*")) if one.is_file())


def without_places(text: str, folder: Path) -> str:
    """Return the text with relative paths for those of the benchmark and of the current folder, and
    without the lines that name this Python."""
    lines = [line for line in text.splitlines(keepends=True) if sys.executable not in line]
    shorter = "".join(lines).replace(str(folder), f"traces/benchmarks/{folder.name}")
    shorter = shorter.replace(f"{folder.parent}/", "traces/benchmarks/")
    shorter = re.sub(r'"[^"]*/traces/benchmarks"', '"traces/benchmarks"', shorter)
    return shorter.replace(f"{Path.cwd()}/", "")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CudaLLMError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
