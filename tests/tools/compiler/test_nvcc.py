"""The toolkit is found where the setting says and through wrappers, or reported missing."""

import os
from pathlib import Path

import pytest

from cuda_llm.errors import MissingError
from cuda_llm.tools.compiler.nvcc import find_toolkit


def wrapper(folder: Path) -> Path:
    """A script that stands for the real nvcc."""
    script = folder / "bin" / "nvcc"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\nexec {find_toolkit().nvcc} "$@"\n')
    script.chmod(0o755)
    return script


def test_the_real_root_is_found() -> None:
    toolkit = find_toolkit()

    assert toolkit.nvcc == toolkit.root / "bin" / "nvcc"
    assert (toolkit.root / "nvvm" / "bin" / "cicc").exists()
    assert toolkit.version.startswith("13.")


def test_wrappers_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find_toolkit()
    script = wrapper(tmp_path)
    monkeypatch.setenv("CUDA_LLM_NVCC", str(script))
    assert find_toolkit() == real

    monkeypatch.delenv("CUDA_LLM_NVCC")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_toolkit() == real

    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    assert find_toolkit() == real


def test_a_missing_temporary_folder_does_not_hide_the_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = find_toolkit()
    monkeypatch.setenv("CUDA_LLM_NVCC", str(wrapper(tmp_path)))
    monkeypatch.setenv("TMPDIR", "/nowhere")
    assert find_toolkit() == real


@pytest.mark.parametrize("content", [None, "not a program", "#!/bin/sh\nexit 1\n"])
def test_a_setting_that_names_no_working_nvcc_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    chosen = tmp_path / "nvcc"
    if content is not None:
        chosen.write_text(content)
        chosen.chmod(0o755)
    monkeypatch.setenv("CUDA_LLM_NVCC", str(chosen))

    with pytest.raises(MissingError, match=r"CUDA_LLM_NVCC\) names no nvcc that runs") as raised:
        find_toolkit()
    assert "pip install 'cuda-llm[toolkit]'" in raised.value.remedy
