"""`RunConfig` defines the options of a run: every way to start a run takes exactly its fields."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, SimpleNamespace
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import pytest
from run_starts import asked, parts

from cuda_llm.cli.app import SUBCOMMANDS
from cuda_llm.cli.run import config_from
from cuda_llm.errors import InputRefused, UsageError
from cuda_llm.graph.runs.graph_input import check_input
from cuda_llm.graph.runs.keywords import split_keywords
from cuda_llm.graph.runs.parts import find_parts
from cuda_llm.graph.runs.record import describe_run
from cuda_llm.graph.runs.resolve import resolve_config
from cuda_llm.graph.runs.start import optimize
from cuda_llm.run_config import GraphInput, RunConfig, flag_of, option_of, read_config
from cuda_llm.settings import Settings

NAMES = [name for name in RunConfig.model_fields if name != "task"]
RUN = SUBCOMMANDS["run"].load("run")

every_option = pytest.mark.parametrize("name", NAMES)


def another(name: str) -> Any:
    """A value that is not the default, of the right type and within its range."""
    field = RunConfig.model_fields[name]
    return ANOTHER.get(name) or made_of(field.annotation, field.default)


ANOTHER = {"base_url": "http://localhost:8000/v1"}


def made_of(kind: Any, default: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return (made_of(inner[0], None),)
    if origin is Mapping:
        return {"first": "one", "second": "two"}
    if origin is Annotated or NoneType in inner:
        return made_of(inner[0], default)
    if inner:
        return next(word for word in inner if word != default)
    if kind is int:
        return (default or 0) + 3
    return {bool: True, float: 1.5, str: "another"}[kind]


def typed(name: str, value: Any) -> list[str]:
    """The value as a person types it."""
    if value is True:
        return [flag_of(name)]
    several = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else value
    several = several if isinstance(several, (list, tuple)) else [value]
    return [word for one in several for word in (flag_of(name), str(one))]


def from_command_line(*arguments: str) -> RunConfig:
    """What the command line makes of them."""
    return config_from(RUN.make_context("run", ["vector_add", *arguments]))


def from_keywords(**keywords: Any) -> RunConfig:
    """What `optimize` makes of them."""
    return split_keywords("vector_add", keywords)[0]


@every_option
def test_every_way_to_start_a_run_takes_every_option(name: str) -> None:
    value = another(name)
    wanted = RunConfig(task="vector_add", **{name: value})
    assert wanted != RunConfig(task="vector_add")
    assert from_keywords(**{name: value}) == wanted
    assert wanted.model_fields_set == {"task", name}
    if option_of(name).on_command_line:
        assert from_command_line(*typed(name, value)) == wanted
    if name in GraphInput.model_fields:
        check_input({"task": "vector_add", name: value})


@every_option
def test_the_record_of_a_run_holds_every_option(name: str) -> None:
    config = RunConfig(task="vector_add", **{name: another(name)})
    assert read_config(config.model_dump(mode="json"), RunConfig) == config


def test_nothing_is_given_but_what_somebody_gave() -> None:
    assert from_command_line().model_fields_set == {"task"}
    assert from_command_line("--rounds", "5").model_fields_set == {"task", "rounds"}
    assert split_keywords("", {"reviewer": print})[0].model_fields_set == {"review"}


def test_a_keyword_that_is_none_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'rouns'; .* rounds"):
        optimize("vector_add", rouns=3)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("candidates", "3", "'3': expected a whole number from 1 to 256"),
        ("candidates", 2.5, "2.5: expected a whole number"),
        ("candidates", True, "True: expected a whole number"),
        ("candidates", None, "None: expected a whole number"),
        ("candidates", 0, "0: expected a whole number from 1 to 256"),
        ("rounds", 0, "0: expected a whole number from 1 to 1,000"),
        ("seed", -1, "-1: expected a whole number from 0 to"),
        ("max_tokens", 1.5, "1.5: expected a whole number"),
        ("max_tokens", -5, "-5: expected a number above 0"),
        ("budget_usd", "1", "'1': expected a number"),
        ("budget_usd", 0.0, "0.0: expected a number above 0"),
        ("budget_usd", float("nan"), "nan: expected a number above 0"),
        ("max_minutes", float("inf"), "inf: expected a number above 0"),
        ("review", "yes", "'yes': expected True or False"),
        ("out", Path("x"), "expected text"),
        ("hints", "one sentence, not a list of them", "expected a list"),
        ("hints", ["fine", 3], "[1]=3: expected text"),
        ("hints", ["fine", " "], "[1]=' ': expected text that is not blank"),
        ("weights", [1, "2"], "[1]='2': expected a number"),
        ("objective", "mean", "'mean': expected 'geomean', 'largest' or 'worst'"),
        ("l2", "hot", "'hot': expected 'cold' or 'warm'"),
        ("hardware_context", "some", "'some': expected 'full', 'name' or 'none'"),
        ("without", ["histry"], "[0]='histry': expected 'history', 'hints'"),
        ("agents", "lessons.py:lessons", "expected a list of names, or PlacedAgent objects"),
        ("agents", [print], "expected a list of names, or PlacedAgent objects"),
        ("agent_models", ["small"], "expected a dict from agents to models"),
        ("agent_models", {"plan": 3}, "=3: expected a name, or a chat model of LangChain"),
        ("agent_models", {"plan": " "}, "['plan']=' ': expected text that is not blank"),
        ("model", 3, "3: expected a name, or a chat model of LangChain (it lacks ainvoke)"),
        ("device", 3, "3: expected a name, or a Device (it lacks name, hardware"),
        ("generator", 3, "3: expected a name, or a Generator (it lacks name, written_by, gen"),
        ("reflector", "mine", "'mine': expected a Reflector (it lacks name, reflect)"),
        ("tuner", 3, "3: expected a Tuner (it lacks propose)"),
        ("observers", print, "expected a list of functions that take an event"),
        ("observers", [3], "[3]: expected a list of functions that take an event"),
        ("reviewer", 3, "3: expected a function of a review"),
    ],
)
def test_a_keyword_that_does_not_fit_is_one_line_before_anything_is_started(
    name: str, value: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(expected)) as raised:
        optimize("vector_add", **{name: value})
    assert str(raised.value).startswith(name) and "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--candidates", "0"], "--candidates 0: expected a whole number from 1 to 256"),
        (["--budget-usd", "nan"], "--budget-usd nan: expected a number above 0"),
        (["--max-minutes", "-1.5"], "--max-minutes -1.5: expected a number above 0"),
        (["--hint", ""], "--hint '': expected text that is not blank"),
        (["--without", "histry"], "--without histry: expected 'history', 'hints'"),
        (["--agent-model", "lessons"], "--agent-model lessons: expected NAME=MODEL"),
        (["--agent-model", "a=1", "--agent-model", "a=2"], "--agent-model a=2: a has one already"),
        (["--agent-model", "a="], "--agent-model a='': expected text that is not blank"),
        (["--base-url", "localhost:8000"], "--base-url localhost:8000: expected an address"),
        (["--base-url", "http://me:key@localhost/v1"], "put the key into OPENAI_API_KEY instead"),
    ],
)
def test_an_option_that_does_not_fit_is_one_line(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(complaint)}|{re.escape(complaint)}$"):
        from_command_line(*arguments)


def test_a_key_in_an_address_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        from_command_line("--base-url", "http://me:secret@localhost/v1")
    assert "secret" not in str(caught.value)


def test_a_change_is_checked_as_all_values_are() -> None:
    config = RunConfig(task="vector_add", rounds=2)
    assert config.changed(seed=3).model_fields_set == {"task", "rounds", "seed"}
    with pytest.raises(UsageError, match="--seed -1: expected a whole number from 0"):
        config.changed(seed=-1)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"task": "vector_add", "max_token": 9}, "no key 'max_token'; did you mean max_tokens?"),
        ({"task": "vector_add", "rounds": "two"}, "rounds='two': expected a whole number"),
        ({"task": "vector_add", "agents": ["mine"]}, "give them to build_graph()"),
        ({"task": "vector_add", "run_id": "mine"}, "no key 'run_id'"),
        ({"rounds": 2}, "lacks 'task'"),
    ],
)
def test_an_input_of_the_graph_that_no_run_has_is_refused(
    given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputRefused, match=re.escape(complaint)):
        check_input(given)


def test_a_task_is_named_or_brought() -> None:
    with pytest.raises(UsageError, match="task=3: expected a name, a folder as text, or a Task"):
        optimize(3)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    assert from_keywords(rounds=np.int64(3), budget_usd=np.float32(0.5)).rounds == 3


def test_the_record_of_a_run_is_its_configuration(tmp_path: Path) -> None:
    found = find_parts(asked(tmp_path), parts())
    assert read_config(describe_run(found)["request"], RunConfig) == found.config


@pytest.mark.parametrize(
    "name", [one for one in NAMES if option_of(one).setting == "read at the start"]
)
def test_a_setting_decides_where_no_option_is_given(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, default = another(name), RunConfig.model_fields[name].default
    monkeypatch.setenv(f"CUDA_LLM_{name.upper()}", str(value))
    for config in (from_command_line(), from_keywords()):
        assert getattr(resolve_config(config), name) == value
    chosen = resolve_config(from_keywords(**{name: default}))
    assert getattr(chosen, name) == default


def test_every_setting_that_decides_an_option_is_a_setting() -> None:
    assert {one for one in NAMES if option_of(one).setting} <= Settings.model_fields.keys()


def test_settings_name_models_for_agents_of_this_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_AGENT_MODELS", '{"hardware_research": "a", "elsewhere": "b"}')
    found = find_parts(asked(tmp_path), parts())
    assert found.config.agent_models == {"hardware_research": "a"}
    own = asked(tmp_path, agent_models={"hardware_research": "mine"})
    assert find_parts(own, parts()).config.agent_models == {"hardware_research": "mine"}


def test_a_model_for_an_agent_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--agent-model nobody=.*: no part of this run"):
        find_parts(asked(tmp_path, agent_models={"nobody": "small"}), parts())


def test_a_kernel_to_start_from_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.cu: No such file"):
        find_parts(asked(tmp_path, start="nowhere.cu"), parts())


def test_an_object_may_replace_a_name(tmp_path: Path) -> None:
    model, own = SimpleNamespace(ainvoke=print), parts()
    config, brought, _ = split_keywords(
        "vector_add",
        {
            "generator": own.generator,
            "strategy": "best-of-n",
            "agents": ["lessons.py:lessons"],
            "agent_models": {"a": "named", "b": model},
        },
    )
    assert (config.generator, config.strategy) == ("auto", "best-of-n")
    assert brought.generator is own.generator and brought.strategy is None
    assert config.agent_models == {"a": "named"} and brought.agent_models == {"b": model}
    assert config.agents == ("lessons.py:lessons",) and brought.agents == ()
    assert set(brought.given) == {"generator", "agent_models"}
