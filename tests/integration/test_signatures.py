"""Kernels and launchers as people write them: each becomes a task, or is refused with the edit that
makes it fit.

A file of `fixtures/signatures` says what is expected: `// expects: admissible`, `refused: TEXT`, or
`confirm: EDIT` where the draft asks what cannot be known. `// entry:` is what `--entry` gives.
"""

import asyncio
import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from corpus_sample import sample

from cuda_llm.errors import UsageError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import choose_entry, draft, find_guesses, write_task
from cuda_llm.tasks.task import DimRange, HiddenSizes, Task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import DEFAULT_GPU, open_emulated

FILES = sorted((Path(__file__).parents[1] / "fixtures/signatures").glob("*.cu"))
ADMISSIBLE = [file for file in FILES if "// expects: admissible\n" in file.read_text()]
REFUSED = [file for file in FILES if "// expects: refused: " in file.read_text()]
EMULATED = {1: (500, 3000), 2: (40, 70), 3: (17, 24)}
EDGES = ((1,), (3, 31, 18), (33, 2, 7))


def drafted(file: Path, out: Path) -> Task:
    source = file.read_text()
    entry = re.search(r"^// entry: (.*)$", source, re.MULTILINE)
    named = entry[1] if entry else choose_entry(source, file.name)
    return load_task(write_task("mine", out, draft("mine", source, named, file.name)))


def at_small_sizes(task: Task) -> Task:
    """Keep a task's text, but few and small sizes: the emulated device runs every thread."""
    small = [dict.fromkeys(task.dims, extent) for extent in EMULATED.get(len(task.dims), (6, 10))]
    edge = [dict(zip(task.dims, cycle(extents), strict=False)) for extents in EDGES]
    dims = {name: DimRange(minimum=1, maximum=small[0][name]) for name in task.dims}
    sizes = replace(
        task.sizes,
        bench=(small[-1],),
        emulated=tuple(small),
        edge=tuple(edge),
        hidden=HiddenSizes(dims=dims, count=1),
    )
    return replace(task, sizes=sizes)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_is_drafted_or_refused_with_an_edit(file: Path, tmp_path: Path) -> None:
    if file not in REFUSED:
        assert find_guesses(drafted(file, tmp_path))
        return
    edit = re.search(r"// expects: refused: (.*)", file.read_text())
    assert edit
    with pytest.raises(UsageError) as caught:
        drafted(file, tmp_path)
    assert edit[1] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", sample(ADMISSIBLE, every=6), ids=lambda file: file.stem)
def test_a_draft_is_admissible_as_it_stands(file: Path, tmp_path: Path) -> None:
    task = at_small_sizes(drafted(file, tmp_path))
    admission = asyncio.run(check_task(task, open_emulated(DEFAULT_GPU)))
    assert admission.ok, admission.problems
