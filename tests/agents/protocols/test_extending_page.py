"""docs/extending.md names what is there, and its code works."""

import asyncio
import re
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from graph_runs import context_in, run_graph
from model_server import ModelServer, Say
from reflection_scenes import UNPADDED
from run_starts import asked, events, parts, the_run
from typer.testing import CliRunner

from cuda_llm.agents.find_agent import find_agent
from cuda_llm.agents.protocols import Reflector, Stage
from cuda_llm.graph.runs.start import start
from cuda_llm.tasks.loader import load_task
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
            .invoke(build_app({"run"}), ["run", "--help"], env={"COLUMNS": "300"}, obj=log)
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
    judged = [one.attempt for one in events if isinstance(one, AttemptJudged)]
    assert [one.code for one in judged] == ["PASSED", "NO_CODE"]
    assert judged[0].written_by == "human"


def test_its_reflector_takes_part(tmp_path: Path) -> None:
    reflector: Reflector = defined("OneHint")()
    _, events = events_of(tmp_path, reflector=reflector)
    decided = [one for one in events if isinstance(one, AgentDecided) and one.agent == "one_hint"]
    assert [one.decisions for one in decided] == [("one hint is enough",)]


def test_the_declaration_of_tunables_it_shows_is_understood() -> None:
    from cuda_llm.agents.tunables.read import read_space
    from cuda_llm.agents.tunables.space import Space

    lines = [one.strip() for one in PAGE.splitlines() if "tunable" in one and "    " in one[:4]]
    space = read_space("\n".join(lines) + "\n" + UNPADDED)
    assert isinstance(space, Space)
    assert {"TILE", "VARIANT"} <= {one.name for one in space.tunables}
