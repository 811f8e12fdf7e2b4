"""docs/extending.md names what is there, and its code works."""

import asyncio
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from device_works import crash, tell_where
from graph_runs import context_in, run_graph
from model_server import ModelServer, Say
from reflection_scenes import UNPADDED
from run_starts import asked, events, parts, the_run
from typer.testing import CliRunner

from cuda_llm.agents.find_agent import find_agent
from cuda_llm.agents.protocols import Reflector, Stage
from cuda_llm.agents.situation import Situation
from cuda_llm.errors import InfrastructureError
from cuda_llm.graph.runs.start import start
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AgentDecided, AttemptJudged

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/extending.md").read_text()
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


def typed(folder: Path, words: str, extra: str = "") -> subprocess.CompletedProcess[str]:
    """Type every command of the page that begins so, or one where it is given `extra`."""
    lines = re.findall(rf"^    ({words}.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert lines
    return subprocess.run(
        ["sh", "-ec", "\n".join(lines) + extra],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )


def verdicts(evaluated: subprocess.CompletedProcess[str]) -> list[str]:
    """Those of the table of files, in its order."""
    assert evaluated.returncode == 0, evaluated.stderr
    return re.findall(r"^  \w+\.cu +([A-Z_]+)", evaluated.stdout, re.MULTILINE)


def test_every_file_it_links_to_is_there() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert len(targets) > 6
    assert [one for one in targets if not (ROOT / "docs" / one).exists()] == []


def test_every_name_in_the_code_base_that_it_mentions_exists() -> None:
    names = set(re.findall(r"`(cuda_llm(?:\.\w+)*)`", PAGE))
    assert "cuda_llm.extend" in names
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(import_module(module), attribute), name


def test_every_option_it_names_is_one_of_run() -> None:
    from cuda_llm.cli.app import build_app

    with ExitStack() as log:
        output = (
            CliRunner()
            .invoke(build_app(), ["run", "--help"], env={"COLUMNS": "300"}, obj=log)
            .output
        )
    options = set(re.findall(r"`?(--[a-z][a-z-]+)", PAGE))
    assert len(options) > 5
    assert [one for one in options if one not in output] == []


def test_it_lists_the_stages_in_order() -> None:
    listed = ", ".join(f"`{stage}`" for stage in Stage)
    assert listed in " ".join(PAGE.split())


def test_it_lists_every_template_a_user_may_replace() -> None:
    files = {one.name for one in (ROOT / "agents/prompts").glob("*.j2")}
    named = set(re.findall(r"`([a-z_]+\.j2)`", PAGE))
    assert named == {one for one in files if not one.startswith("_")}


def test_it_lists_what_a_situation_has() -> None:
    (listed,) = re.findall(r"^- A `Situation` has (.*?)^- ", PAGE, re.MULTILINE | re.DOTALL)
    named = [one for one in re.findall(r"`(\w+)`", listed) if one != "None"]
    assert named == [one.name for one in fields(Situation)]


def test_every_file_it_runs_is_there() -> None:
    specs = re.findall(r"(examples/[\w/]+\.py):(\w+)", PAGE)
    assert specs
    for file, attribute in specs:
        assert f"{attribute}" in (ROOT / file).read_text()


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
        asyncio.run(start(order, overrides=parts()))
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


@pytest.mark.parametrize("name", ["remote", "accelerator"])
def test_its_devices_tell_a_right_kernel_from_a_wrong_one(tmp_path: Path, name: str) -> None:
    saved(tmp_path, f"{name}.py")
    for words in ("cp tasks/vector_add", "sed "):
        assert typed(tmp_path, words).returncode == 0
    evaluated = typed(tmp_path, f"cuda-llm evaluate .*--device {name}.py:")
    assert verdicts(evaluated) == ["PASSED", "WRONG_RESULT"]


def test_its_device_in_another_process_starts_a_worker_again_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, "remote.py")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/support"))
    device: Any = open_device(f"{tmp_path}/remote.py:Remote")
    device.prepare()
    with device.worker:
        first, site = asyncio.run(device.carry_out(tell_where))
        with pytest.raises(InfrastructureError, match="worker: ended before it answered"):
            asyncio.run(device.carry_out(crash))
    second, _ = asyncio.run(device.carry_out(tell_where))
    with device.worker:
        device.worker.communicate()
    assert device.worker.returncode == 0
    assert len({first, second, os.getpid()}) == 3
    assert site == "emulated RTX 3090 Ti"


def test_a_run_on_its_device_is_resumed_on_it(tmp_path: Path) -> None:
    saved(tmp_path, "remote.py")
    stopped = typed(tmp_path, "cuda-llm run vector_add --device remote.py:", " --review")
    assert stopped.returncode == 0, stopped.stderr
    resumed = typed(tmp_path, "cuda-llm resume latest")
    assert resumed.returncode == 0, resumed.stderr
    assert "remote emulated RTX 3090 Ti" in resumed.stdout


def test_the_declaration_of_tunables_it_shows_is_understood() -> None:
    from cuda_llm.agents.tunables.read import read_space
    from cuda_llm.agents.tunables.space import Space

    lines = [one.strip() for one in PAGE.splitlines() if "tunable" in one and "    " in one[:4]]
    space = read_space("\n".join(lines) + "\n" + UNPADDED)
    assert isinstance(space, Space)
    assert {"TILE", "VARIANT"} <= {one.name for one in space.tunables}
