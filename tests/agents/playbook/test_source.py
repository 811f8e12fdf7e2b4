"""Shared headers stand in a playbook's text, so that a kernel that is written out is one file."""

from pathlib import Path

import pytest

from cuda_llm.agents.playbook.generator import open_playbook
from cuda_llm.agents.playbook.source import HEADERS, read_playbook
from cuda_llm.tasks.loader import list_tasks, load_task


def test_a_header_stands_in_the_place_of_its_include(tmp_path: Path) -> None:
    playbook = tmp_path / "playbook.cu"
    playbook.write_text('int first;\n#include "shared/elementwise.cuh"\nint last;\n')
    first, *between, last = read_playbook(playbook).splitlines()
    assert (first, last) == ("int first;", "int last;")
    text = "\n".join(between)
    assert "values_of(Vector x)" in text
    assert "using Vector = float4;" in text, "of the header that the header includes"
    assert "The playbook defines" not in text, "what a header says to those who include it"


def test_an_include_of_another_header_is_left_to_the_compiler(tmp_path: Path) -> None:
    playbook = tmp_path / "playbook.cu"
    text = '#include "shared/nothing.cuh"\n#include "mine.cuh"\n#include <cuda_runtime.h>\n'
    playbook.write_text(text)
    assert read_playbook(playbook) == text


@pytest.mark.parametrize("name", list_tasks())
def test_a_kernel_of_a_shipped_playbook_includes_no_header_of_ours(name: str) -> None:
    kernels = open_playbook(load_task(name))
    assert '#include "' not in kernels.write(kernels.space.defaults)


def test_every_shared_header_is_included() -> None:
    files = [*HEADERS.glob("*/playbook.cu"), *HEADERS.glob("shared/*.cuh")]
    included = "\n".join(file.read_text() for file in files)
    names = [header.name for header in HEADERS.glob("shared/*.cuh")]
    assert names
    assert not [name for name in names if f'#include "shared/{name}"' not in included]
