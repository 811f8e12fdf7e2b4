"""The page "your kernel in ten minutes", each of its files written and each command run as it
stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import find_guesses

PAGE = Path(__file__).parents[3] / "docs/your-kernel.md"


def test_the_page_leads_from_a_file_to_a_verified_export(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _, _ in blocks if kind == "console"] == ["console"] * 4
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
    assert "my_gemv: admissible" in "".join(said)
    assert "correct" in said[-1]
    assert not find_guesses(load_task(tmp_path / "my_gemv"))
    made = (tmp_path / "fast_gemv/README.md").read_text()
    assert re.search(r"Written by: human, tuned or rewritten from `r\d-\w+` without a model", made)
    best = re.search(r"best +([\d.]+)x the baseline's speed", "".join(said))
    assert best
    assert float(best[1]) > 1.2
