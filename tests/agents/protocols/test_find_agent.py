"""Agents by short name, dotted path and file; and what is reported where there is none."""

from pathlib import Path

import pytest

from cuda_llm.agents.find_agent import SHIPPED, find_agent, is_agent
from cuda_llm.agents.protocols import Stage
from cuda_llm.agents.researcher.research import hardware_research
from cuda_llm.errors import UsageError

OWN = '''
from langgraph.graph import START, StateGraph

async def advise(situation):
    """An agent."""

async def early(situation):
    """Another."""

early.after = "start"
early.agent_name = "first_of_all"

def not_async(situation):
    """No agent."""

async def greedy(situation, archive):
    """Takes what no agent is given."""

class Adviser:
    async def __call__(self, situation):
        """An agent with something to remember."""

adviser = Adviser()

async def lost(situation):
    """Stands nowhere."""

lost.after = "coffee"

async def misnamed(situation):
    """Has no name for a node."""

misnamed.agent_name = "no name"
'''


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own_agents.py"
    path.write_text(OWN)
    return path


def test_what_ships_is_found_by_its_short_name() -> None:
    found = find_agent("hardware_research")
    assert (found.name, found.after, found.agent) == (
        "hardware_research",
        Stage.START,
        hardware_research,
    )
    for name in SHIPPED:
        assert find_agent(name).name == name


def test_an_agent_is_found_by_dotted_path() -> None:
    path = "cuda_llm.agents.researcher.research:hardware_research"
    assert find_agent(path).agent is hardware_research


def test_an_agent_is_found_in_a_file_and_stands_behind_the_research(own: Path) -> None:
    found = find_agent(f"{own}:advise")
    assert (found.name, found.after) == ("advise", Stage.RESEARCH)


def test_an_agent_is_found_in_a_module_of_the_current_folder(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.parent)
    assert find_agent("own_agents:advise").name == "advise"


def test_its_attributes_name_and_place_it(own: Path) -> None:
    found = find_agent(f"{own}:early")
    assert (found.name, found.after) == ("first_of_all", Stage.START)


def test_the_user_has_the_last_word_on_its_place(own: Path) -> None:
    assert find_agent(f"{own}:early@reflection").after == Stage.REFLECTION


def test_an_object_with_an_async_call_is_an_agent(own: Path) -> None:
    assert find_agent(f"{own}:adviser").name == "adviser"


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_can_be_named(own: Path, stage: Stage) -> None:
    assert find_agent(f"{own}:advise@{stage}").after == stage


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("nobody", "no agent is called 'nobody'; expected one of hardware_research"),
        ("no_such_package.agents:advise", "No module named 'no_such_package'"),
        ("no/such/file.py:advise", "no such file no/such/file.py"),
        ("OWN:nothing", "has no 'nothing'; there are: "),
        ("OWN:advize", "has no 'advize'; did you mean advise?"),
        ("own_agents.py", "own_agents.py:NAME"),
        ("OWN:not_async", "neither an async callable with one argument nor a compiled LangGraph"),
        ("OWN:greedy", "neither an async callable with one argument"),
        ("OWN:Adviser", "neither an async callable with one argument nor a compiled LangGraph"),
        ("OWN:advise@lunch", "there is no stage 'lunch'; expected one of start, hardware_research"),
        ("OWN:lost", "there is no stage 'coffee'"),
        ("OWN:misnamed", "its name 'no name' cannot be a node's"),
    ],
)
def test_what_is_wrong_is_reported_with_place_and_mend(own: Path, spec: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_agent(spec.replace("OWN", str(own)))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_in_the_file_of_an_agent_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "broken_agent.py"
    path.write_text("raise RuntimeError('the key is missing')\n")
    with pytest.raises(UsageError, match="RuntimeError: the key is missing"):
        find_agent(f"{path}:advise")


def test_a_class_and_a_plain_value_are_no_agents() -> None:
    assert not is_agent(int)
    assert not is_agent(7)
    assert is_agent(hardware_research)
