"""The page "your PyTorch function in ten minutes", each of its files written and each command run
as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs/your-pytorch-function.md"


@pytest.mark.evidence
def test_the_page_leads_from_a_function_to_an_export(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = []
    for kind, name, text in blocks:
        if kind != "console":
            (tmp_path / name).write_text(text)
            continue
        for line in text.splitlines():
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=tmp_path,
                env={**os.environ, "PATH": own},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            said.append(done.stdout)
    said_all = "".join(said)
    assert "__nv_bfloat16* out1, int x_0, int x_1)" in said_all
    assert "add_norm: admissible" in said_all
    best = re.search(r"best +([\d.]+)x the baseline's speed", said_all)
    assert best
    assert float(best[1]) > 2.0
    assert (tmp_path / "fast_add_norm/task/add_norm/module.py").is_file()
