"""Task folders whose every size takes a millisecond, for whole runs on the emulated device."""

import re
import shutil
from pathlib import Path

from cuda_llm.tasks.loader import load_task

VECTORS = """[sizes]
bench = [{ n = 4096 }, { n = 16384 }]
edge = [{ n = 1 }, { n = 33 }, { n = 1009 }]
emulated = [{ n = 4096 }, { n = 16384 }]

[sizes.hidden]
count = 1
dims.n = { min = 1, max = 3000 }
"""
MATRICES = """[sizes]
bench = [{ rows = 256, cols = 256 }, { rows = 1024, cols = 1024 }]
edge = [{ rows = 1, cols = 1 }, { rows = 31, cols = 33 }, { rows = 65, cols = 257 }]
emulated = [{ rows = 128, cols = 128 }]

[sizes.hidden]
count = 1
dims.rows = { min = 1, max = 100 }
dims.cols = { min = 1, max = 100 }
"""
SIZES = {"vector_add": VECTORS, "matrix_transpose": MATRICES}
PUBLISHED = """
[published]
absolute_tolerance = 1e-5
speedups = [
    { gpu = "GTX 1660 SUPER", factor = 1.5, source = "made up" },
    { gpu = "RTX 3090 Ti", factor = 1.25, source = "made up" },
]
"""


def tiny_task(parent: Path, name: str, of: str = "vector_add") -> Path:
    """A shipped task at small sizes, with a check and speed-ups published of it."""
    folder = parent / name
    shutil.copytree(load_task(of).folder, folder)
    file = folder / "task.toml"
    text = with_sizes(file.read_text(), SIZES[of])
    text = re.sub(r"distributions = \[.*?\]", 'distributions = ["normal"]', text, flags=re.S)
    text = re.sub(r"\[published\].*", "", text, flags=re.S)
    file.write_text(text + PUBLISHED)
    return folder


def with_sizes(task_toml: str, sizes: str) -> str:
    """The text of a task with other sizes."""
    return re.sub(r"\[sizes\].*?(?=\[tolerance\])", f"{sizes}\n", task_toml, flags=re.S)
