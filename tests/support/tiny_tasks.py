"""Task folders whose every size takes a millisecond, for whole runs on the emulated device."""

import re
import shutil
from pathlib import Path

from cuda_llm.tasks.loader import load_task

SIZES = """[sizes]
bench = [{ n = 4096 }, { n = 16384 }]
edge = [{ n = 1 }, { n = 33 }, { n = 1009 }]
emulated = [{ n = 4096 }, { n = 16384 }]

[sizes.hidden]
count = 1
dims.n = { min = 1, max = 3000 }
"""
PUBLISHED = """
[published]
absolute_tolerance = 1e-5
speedups = [
    { gpu = "GTX 1660 SUPER", factor = 1.5, source = "made up" },
    { gpu = "RTX 3090 Ti", factor = 1.25, source = "made up" },
]
"""


def tiny_task(parent: Path, name: str) -> Path:
    """Vector addition at small sizes, with a check and speed-ups published of it."""
    folder = parent / name
    shutil.copytree(load_task("vector_add").folder, folder)
    file = folder / "task.toml"
    text = re.sub(r"\[sizes\].*?(?=\[tolerance\])", f"{SIZES}\n", file.read_text(), flags=re.S)
    text = re.sub(r"distributions = \[.*?\]", 'distributions = ["normal"]', text, flags=re.S)
    file.write_text(text + PUBLISHED)
    return folder
