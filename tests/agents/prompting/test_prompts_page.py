"""docs/prompts.md shows the prompt that is really rendered."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.components import Components
from cuda_llm.outcomes import ReplyFault

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "prompts.md").read_text()


def test_the_generated_parts_are_up_to_date() -> None:
    command = [sys.executable, "scripts/prompts_page.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": "tests/support"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_names_every_template_switch_and_outcome() -> None:
    named = set(re.findall(r"`([\w.]+)`", PAGE))
    assert set(open_templates().texts) <= named
    assert set(Components.__dataclass_fields__) <= named
    assert set(get_args(ReplyFault)) <= named
