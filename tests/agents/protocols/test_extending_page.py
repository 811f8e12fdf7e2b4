"""The code of docs/extending.md and the declarations of docs/playbook.md work."""

import asyncio
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from graph_runs import context_in, run_graph
from model_server import ModelServer, Say
from reflection_scenes import UNPADDED
from run_starts import asked, events, parts, the_run

from cuda_llm.agents.find_agent import find_agent
from cuda_llm.agents.protocols import Reflector, Stage
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Space
from cuda_llm.graph.runs.start import start
from cuda_llm.own_part import find_misfit
from cuda_llm.search import Brief
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Site, Work
from cuda_llm.tools.device.device import do_no_work
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AgentDecided, AttemptJudged

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/extending.md").read_text()
PLAYBOOK_PAGE = (ROOT / "docs/playbook.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def defined(name: str) -> Any:
    """What the block that defines `name` gives."""
    (block,) = [one for one in BLOCKS if f" {name}(" in one or f" {name}:" in one]
    space: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, f"{name} of docs/extending.md", "exec"), space)
    return space[name]


def events_of(folder: Path, **parts: Any) -> tuple[dict[str, Any], list[Any]]:
    context = context_in(folder, rounds=1, **parts)
    state = asyncio.run(run_graph(context))
    return state, [one.event for one in read_events(context.folder.events)]


def saved(folder: Path, name: str) -> None:
    """Save the block of which the page says so, and what its commands need."""
    (before, block) = re.findall(rf"Saved as `{name}`(.*?)```python\n(.*?)```", PAGE, re.DOTALL)[0]
    assert "```" not in before
    (folder / name).write_text(block)
    (folder / "tasks").symlink_to(ROOT / "tasks")


def lines_of_page(words: str) -> list[str]:
    """Every command of the page that begins so."""
    lines = re.findall(rf"^    ({words}.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert lines
    return lines


def test_its_agent_runs_in_the_graph(tmp_path: Path) -> None:
    (block,) = [one for one in BLOCKS if "def sizes_first" in one]
    (tmp_path / "my_agents.py").write_text(block)
    placed = find_agent(f"{tmp_path}/my_agents.py:sizes_first")
    assert placed.after == Stage.BASELINE
    _, events = events_of(tmp_path, agents=(placed,))
    (decision,) = [
        one for one in events if isinstance(one, AgentDecided) and one.agent == "sizes_first"
    ]
    assert decision.note == "Most of the time goes to {'n': 1024}."


def test_its_agent_that_asks_runs_as_it_is_named(tmp_path: Path) -> None:
    (block,) = [one for one in BLOCKS if "def plan(" in one]
    (tmp_path / "my_agents.py").write_text(block)
    with ModelServer(lambda _: Say("tile it"), model="PLANNER") as server:
        order = asked(
            tmp_path / "runs",
            rounds=1,
            agents=(f"{tmp_path}/my_agents.py:plan",),
            agent_models={"plan": "PLANNER"},
            base_url=server.base_url,
        )
        asyncio.run(start(order, brought=parts()))
    decisions = [one for one in events(the_run(tmp_path / "runs")) if isinstance(one, AgentDecided)]
    assert ("plan", "tile it") in [(one.agent, one.note) for one in decisions]
    assert load_task("vector_add").description in server.requests[-1].prompt


def test_its_generator_offers_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "r1-c1.cu").write_text("int ok_50_1;\n")
    _, events = events_of(tmp_path, generator=defined("FromFolder")(str(tmp_path)), candidates=2)
    judged = {one.attempt.id: one.attempt for one in events if isinstance(one, AttemptJudged)}
    assert {name: one.code for name, one in judged.items()} == {
        "r1-c1": "PASSED",
        "r1-c2": "NO_CODE",
    }
    assert judged["r1-c1"].written_by == "human"


def test_its_reflector_takes_part(tmp_path: Path) -> None:
    reflector: Reflector = defined("OneHint")()
    _, events = events_of(tmp_path, reflector=reflector)
    decided = [one for one in events if isinstance(one, AgentDecided) and one.agent == "one_hint"]
    assert [one.decisions for one in decided] == [("one hint is enough",)]


def test_its_device_tells_a_right_kernel_from_a_wrong_one(tmp_path: Path) -> None:
    saved(tmp_path, "accelerator.py")
    lines = [
        line
        for words in ("cp tasks/vector_add", "sed ", "cuda-llm evaluate .*--device accelerator.py:")
        for line in lines_of_page(words)
    ]
    ran = subprocess.run(
        ["sh", "-ec", "\n".join(lines)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert ran.returncode == 1, ran.stderr
    assert re.findall(r"^  \w+\.cu +([A-Z_]+)", ran.stdout, re.M) == ["PASSED", "WRONG_RESULT"]


def test_its_device_that_wraps_another_times_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(defined("Timed")().carry_out(Work.of(do_no_work)))
    assert re.fullmatch(r"do_no_work: \d+\.\d s\n", capsys.readouterr().err)


def test_its_generators_table_names_every_field_of_a_brief() -> None:
    (table,) = re.findall(
        r"^\| field of `Brief` \| is \|\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE
    )
    firsts = "\n".join(row.split(" | ")[0] for row in table.split("\n"))
    assert set(re.findall(r"`(\w+)`", firsts)) == {one.name for one in fields(Brief)}


def test_its_site_has_every_member_and_its_table_names_each() -> None:
    assert find_misfit(defined("open_accelerator")(), Site) == ""
    (table,) = re.findall(r"^\| of the site \| is \|\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE)
    named = re.findall(
        r"`(\w+)(?:\(\w*\))?`", "\n".join(row.split(" | ")[0] for row in table.split("\n"))
    )
    assert set(named) == {name for name in vars(Site) if not name.startswith("_")}


def test_the_declaration_of_tunables_of_the_playbook_page_is_understood() -> None:
    (block,) = re.findall(r"```c\+\+\n(.*?)```", PLAYBOOK_PAGE, re.DOTALL)
    lines = [one for one in block.splitlines() if "tunable" in one]
    space = read_space("\n".join(lines) + "\n" + UNPADDED)
    assert isinstance(space, Space)
    assert {"TILE", "VARIANT"} <= {one.name for one in space.tunables}
