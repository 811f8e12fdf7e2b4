"""Who writes the kernels."""

from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm.errors import MissingError, UsageError
from cuda_llm.graph.parts import GeneratorChoice
from cuda_llm.graph.runs.parts import choose_generator, load_generator
from cuda_llm.tasks.loader import load_task

TASK = replace(load_task("vector_add"), playbook=load_task("vector_add").folder / "playbook.cu")
BARE = replace(TASK, playbook=None)


def test_auto_asks_a_model_where_one_is_named() -> None:
    assert choose_generator("auto", BARE, has_model=True).name == "llm"


def test_auto_takes_the_playbook_without_a_model_and_notes_it() -> None:
    chosen = choose_generator("auto", TASK, has_model=False)
    assert chosen.name == "playbook"
    assert "no model is named" in chosen.note


def test_without_model_and_playbook_auto_searches_the_kernel_to_start_from() -> None:
    chosen = choose_generator("auto", BARE, has_model=False, start="mine.cu")
    assert chosen.name == "tuner"
    assert "vector_add has no playbook, so mine.cu itself is searched" in chosen.note
    assert choose_generator("auto", BARE, has_model=True, start="mine.cu").name == "llm"


def test_beside_a_playbook_the_kernel_to_start_from_is_searched_where_asked() -> None:
    chosen = choose_generator("auto", TASK, has_model=False, start="mine.cu")
    assert chosen.name == "playbook"
    assert "--generator tuner searches the kernel of --start" in chosen.note


def test_a_generator_asked_for_by_name_has_no_note() -> None:
    assert choose_generator("playbook", TASK, has_model=True).note == ""


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("auto", "task vector_add has no playbook and no model is named; name one with --model"),
        ("auto", "search a kernel of yours with --start FILE.cu"),
        ("playbook", "task vector_add has no playbook; name one with --model"),
        ("llm", "no model is named; name one with --model"),
    ],
)
def test_no_model_and_no_playbook_is_an_error(wanted: str, message: str) -> None:
    with pytest.raises(MissingError) as caught:
        choose_generator(wanted, BARE, has_model=False)
    assert message in str(caught.value)


def test_an_unknown_name_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="unknown generator 'gpt'; there are auto, llm, playbook"):
        choose_generator("gpt", TASK, has_model=False)


def test_a_dotted_path_is_taken_as_it_is() -> None:
    assert choose_generator("mine:Writer", BARE, has_model=False).name == "mine:Writer"


OWN = """
class Writer:
    name, written_by = "own", "human"

    def __init__(self, folder, *others, depth, wide=1):
        self.folder = folder

    async def generate(self, brief, situation): ...


class Broken:
    def __init__(self):
        raise ValueError("no such folder")


mine = Writer("here", depth=2)
"""


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (
            "Writer",
            "Writer needs folder, depth; make one beside it, as in "
            "`mine = Writer(folder=..., depth=...)`, and name that: PATH:mine",
        ),
        ("Broken", "cannot be made: ValueError: no such folder"),
    ],
)
def test_a_class_that_cannot_be_made_is_told_with_the_mend(
    tmp_path: Path, attribute: str, message: str
) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    with pytest.raises(UsageError) as caught:
        load_generator(GeneratorChoice(f"{path}:{attribute}"), BARE, "")
    expected = f"generator '{path}:{attribute}': {message}".replace("PATH", str(path))
    assert str(caught.value) == expected
    made = load_generator(GeneratorChoice(f"{path}:mine"), BARE, "")
    assert made is not None and made.name == "own"
