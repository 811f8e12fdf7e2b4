"""`RunRequest` defines the options of a run: every way to start one has exactly its fields."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from option_table import option_table
from run_starts import asked, parts

from cuda_llm.cli.app import SUBCOMMANDS
from cuda_llm.cli.run import request_from
from cuda_llm.codec import decode, encode
from cuda_llm.components import Components
from cuda_llm.errors import UsageError
from cuda_llm.graph.request import RunOptions, RunRequest
from cuda_llm.graph.run_options import RunOption, run_options
from cuda_llm.graph.runs.keywords import OptimizeKeywords, split_keywords
from cuda_llm.graph.runs.parts import find_parts
from cuda_llm.graph.runs.record import describe_run
from cuda_llm.graph.runs.resolve import resolve_request
from cuda_llm.graph.runs.start import optimize
from cuda_llm.graph.state import SearchInput
from cuda_llm.settings import Settings

PAGE = Path(__file__).parents[2] / "docs/settings.md"
NAMES = {one.name for one in run_options()}
RUN: Any = SUBCOMMANDS["run"].load("run")
OBJECTS_ALONE = {"reflector", "tuner", "bench", "observers", "reviewer"}
"""Keywords of `optimize` that no plain value stands for."""
IN_THE_DEVICES_TEXT = {"cluster", "workers", "max_gpus"}
"""Options that the text of the device says, once the request is resolved."""

every_option = pytest.mark.parametrize("option", run_options(), ids=lambda one: one.name)


def another(option: RunOption) -> Any:
    """A value that is not the default, of the right type and within its range."""
    if option.kind is Components:
        return Components(**{one.name: not one.default for one in fields(Components)})
    if option.is_list:
        return (1.0, 2.5) if option.item_kind is float else ("first", "second")
    if option.is_mapping:
        return {"first": "one", "second": "two"}
    if option.is_choice:
        return next(word for word in get_args(option.kind) if word and word != option.default)
    if option.kind is bool:
        return not option.default
    if option.kind in (int, int | None):
        return (option.default or 0) + 3
    return 1.5 if option.kind == float | None else "another"


def spelled(option: RunOption, value: Any) -> list[str]:
    """The value as a person types it."""
    if isinstance(value, Components):
        return [f"--no-{one.name.replace('_', '-')}" for one in fields(value)]
    if isinstance(value, bool):
        return [option.flag]
    several = [f"{name}={one}" for name, one in value.items()] if option.is_mapping else value
    several = several if option.is_list or option.is_mapping else [value]
    return [word for one in several for word in (option.flag, str(one))]


def from_command_line(*arguments: str) -> RunRequest:
    """What the command line makes of them."""
    context = RUN.make_context("run", ["vector_add", *arguments])
    return request_from(context.params)


def from_keywords(**keywords: Any) -> RunRequest:
    """What `optimize` makes of them."""
    return split_keywords("vector_add", keywords)[0]


@every_option
def test_every_way_to_start_a_run_takes_every_option(option: RunOption) -> None:
    value = another(option)
    wanted = RunRequest(task="vector_add", **{option.name: value})
    assert wanted != RunRequest(task="vector_add")
    assert from_keywords(**{option.name: value}) == wanted
    if option.text.on_command_line:
        assert from_command_line(*spelled(option, value)) == wanted
    assert decode(RunRequest, encode(wanted)) == wanted


def test_defaults_are_the_same_for_every_way_to_start_a_run() -> None:
    assert from_command_line() == from_keywords() == RunRequest(task="vector_add")


def test_the_command_line_has_no_options_of_its_own() -> None:
    flags = {flag for one in RUN.params for flag in (*one.opts, *one.secondary_opts)}
    known = {one.flag for one in run_options() if one.text.on_command_line} - {"--components"}
    switches = {one.name.replace("_", "-") for one in fields(Components)}
    known |= {f"--{name}" for name in switches} | {f"--no-{name}" for name in switches}
    assert flags - {"--json", "task"} == known


def test_the_keywords_of_optimize_are_the_options_and_the_objects() -> None:
    assert set(OptimizeKeywords.__annotations__) == NAMES | OBJECTS_ALONE


def test_a_keyword_that_is_none_is_a_mistake_of_the_caller() -> None:
    """Type checkers say so too: mypy reports an ignored error that is none."""
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'rouns'; .* rounds"):
        optimize("vector_add", rouns=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="rounds='many': expected a whole number"):
        optimize("vector_add", rounds="many")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"hints='one sentence.*': expected a list, each text"):
        optimize("vector_add", hints="one sentence, not a list of them")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("candidates", "3", "'3': expected a whole number"),
        ("candidates", 2.5, "2.5: expected a whole number"),
        ("candidates", True, "True: expected a whole number"),
        ("candidates", None, "None: expected a whole number"),
        ("max_tokens", 1.5, "1.5: expected a whole number or None"),
        ("budget_usd", "1", "'1': expected a number or None"),
        ("review", "yes", "'yes': expected True or False"),
        ("out", Path("x"), "expected text"),
        ("hints", ["fine", 3], "expected a list, each text"),
        ("weights", [1, "2"], "expected a list, each a number"),
        ("objective", "mean", "'mean': expected 'geomean' or 'largest' or 'worst'"),
        ("l2", "hot", "'hot': expected 'cold' or 'warm'"),
        ("components", {"histry": False}, "has no 'histry'; did you mean history?"),
        ("components", {"history": "no"}, "['history']='no': expected True or False"),
        ("components", 3, "3: expected a Components"),
        ("agents", "lessons.py:lessons", "expected a list of names, or PlacedAgent objects"),
        ("agents", [print], "expected a list of names, or PlacedAgent objects"),
        ("agent_models", ["small"], "expected a dict from agents to models"),
        ("agent_models", {"plan": 3}, "=3: expected a name, or a chat model of LangChain"),
        ("model", 3, "3: expected a name, or a chat model of LangChain (it lacks ainvoke)"),
        ("device", 3, "3: expected a name, or a Device (it lacks name, hardware"),
        ("generator", 3, "3: expected a name, or a Generator (it lacks name, written_by, gen"),
        ("reflector", "mine", "'mine': expected a Reflector (it lacks name, reflect)"),
        ("tuner", 3, "3: expected a Tuner (it lacks propose)"),
        ("observers", print, "expected a list of functions that take an event"),
        ("observers", [3], "[3]: expected a list of functions that take an event"),
    ],
)
def test_a_value_of_a_wrong_type_is_one_line_before_anything_is_started(
    name: str, value: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(expected)) as raised:
        optimize("vector_add", **{name: value})
    assert str(raised.value).startswith(name) and "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_task_is_named_or_brought() -> None:
    with pytest.raises(UsageError, match="task=3: expected a name, a folder as text, or a Task"):
        optimize(3)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    assert from_keywords(rounds=np.int64(3), budget_usd=np.float32(0.5)).rounds == 3


def test_plain_options_have_the_types_of_the_request() -> None:
    wider = {
        tuple[str, ...]: Sequence[str],
        tuple[float, ...]: Sequence[float],
        Mapping[str, str]: dict[str, str],
    }
    kinds = {one.name: wider.get(one.kind, one.kind) for one in run_options()}
    found = get_type_hints(RunOptions)
    assert found == {name: kinds[name] for name in found}
    graph = get_type_hints(SearchInput)
    assert graph == {"task": str, **{name: kinds[name] for name in graph if name != "task"}}


def test_the_graphs_input_has_every_option_that_it_can_follow() -> None:
    follows = {one.name for one in run_options() if one.text.in_graph}
    assert set(SearchInput.__annotations__) == {"task", *follows}


def test_the_runs_record_holds_every_option(tmp_path: Path) -> None:
    record = describe_run(find_parts(asked(tmp_path), parts()))
    assert set(record["request"]) == {"task", *NAMES} - IN_THE_DEVICES_TEXT


def test_of_a_cluster_only_the_text_of_its_device_is_kept() -> None:
    request = from_command_line("--cluster", "ray://h:10001", "--workers", "A100", "--max-gpus=2")
    kept = encode(resolve_request(request))
    assert kept["device"] == "ray://h:10001/A100?max_gpus=2"
    assert not IN_THE_DEVICES_TEXT & set(kept)


def test_a_device_object_stands_beside_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out cluster, workers and max_gpus"):
        find_parts(asked(tmp_path, cluster="auto"), parts())


def test_the_settings_page_lists_every_option() -> None:
    """Fixed with: python tests/support/option_table.py"""
    begin = "<!-- options: python tests/support/option_table.py -->\n"
    table = PAGE.read_text(encoding="utf-8").partition(begin)[2].partition("\n<!-- end -->")[0]
    assert table == option_table()


@every_option
def test_a_setting_decides_where_no_option_is_given(
    option: RunOption, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = option.text.setting
    assert setting in {"", *Settings.model_fields}
    if not setting or option.text.read_later:
        return
    value = another(option)
    monkeypatch.setenv(f"CUDA_LLM_{setting.upper()}", value)
    assert (
        getattr(resolve_request(from_command_line()), option.name)
        == getattr(resolve_request(from_keywords()), option.name)
        == value
    )
    own = "emulated" if option.kind is str else "cold"
    chosen = resolve_request(from_keywords(**{option.name: own}))
    assert getattr(chosen, option.name) == own


def test_settings_name_models_for_agents_of_this_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_AGENT_MODELS", '{"hardware_research": "a", "elsewhere": "b"}')
    found = find_parts(asked(tmp_path), parts())
    assert found.request.agent_models == {"hardware_research": "a"}
    own = asked(tmp_path, agent_models={"hardware_research": "mine"})
    assert find_parts(own, parts()).request.agent_models == {"hardware_research": "mine"}


def test_a_model_for_an_agent_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--agent-model nobody=.*: no part of this run"):
        find_parts(asked(tmp_path, agent_models={"nobody": "small"}), parts())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--agent-model", "lessons"], "--agent-model lessons: expected NAME=MODEL"),
        (["--agent-model", "a=1", "--agent-model", "a=2"], "--agent-model a=2: a has one already"),
    ],
)
def test_a_model_is_named_for_one_agent_once(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        from_command_line(*arguments)


def test_an_object_may_replace_a_name(tmp_path: Path) -> None:
    model, own = SimpleNamespace(ainvoke=print), parts()
    request, overrides, _ = split_keywords(
        "vector_add",
        {
            "generator": own.generator,
            "strategy": "best-of-n",
            "agents": ["lessons.py:lessons"],
            "agent_models": {"a": "named", "b": model},
        },
    )
    assert (request.generator, request.strategy) == ("auto", "best-of-n")
    assert overrides.generator is own.generator and overrides.strategy is None
    assert request.agent_models == {"a": "named"} and overrides.agent_models == {"b": model}
    assert request.agents == ("lessons.py:lessons",) and overrides.agents == ()
    assert set(overrides.given) == {"generator", "agent_models"}
