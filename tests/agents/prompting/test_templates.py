"""A user's own templates: by file name, and every mistake is reported before any work."""

from pathlib import Path

import pytest
from prompt_cases import brief
from searches import situation

from cuda_llm.agents.prompting.render import render_prompt
from cuda_llm.agents.prompting.templates import VALUES, open_templates
from cuda_llm.agents.prompting.token_budget import SECTIONS
from cuda_llm.errors import UsageError
from cuda_llm.search import Kind


def refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as refused:
        open_templates(folder)
    return str(refused.value)


def test_a_template_of_the_user_replaces_ours_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "first.j2").write_text("Mine: {{ task }} {{ signature }} {{ history }}")
    messages = render_prompt(brief(Kind.FIRST, history=()), situation(), open_templates(tmp_path))
    assert messages[1].text.startswith("Mine: Transpose")
    assert "one fenced block" in messages[0].text


def test_a_partial_is_replaced_everywhere(tmp_path: Path) -> None:
    (tmp_path / "_task.j2").write_text("My task: {{ title }}")
    messages = render_prompt(brief(Kind.FIRST, history=()), situation(), open_templates(tmp_path))
    assert messages[1].text.startswith("My task: Matrix transpose")


def test_a_section_shown_twice_still_keeps_the_budget(tmp_path: Path) -> None:
    from cuda_llm.agents.prompting.token_budget import count_tokens

    (tmp_path / "first.j2").write_text("{{ task }}{{ host_code }}{{ host_code }}{{ hardware }}")
    order = brief(Kind.FIRST, history=())
    messages = render_prompt(order, situation(), open_templates(tmp_path), 1_500)
    assert sum(count_tokens(one.text) for one in messages) <= 1_500


def test_a_file_that_is_no_prompt_is_named_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "frist.j2").write_text("x")
    message = refusal(tmp_path)
    assert "frist.j2" in message
    assert "first.j2, fix.j2, improve.j2, system.j2" in message


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "is no folder" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("one\n{% if history %}\n", 3, "endif"),
        ("one\n\n{{ histroy }}\n", 3, "histroy is no value of a prompt"),
        ("{% if depart %}\n{{ sorcery }}{% endif %}", 2, "sorcery"),
        ("x\n{{ task | shout }}\n", 2, "shout"),
        ("x\n{% include 'other.j2' %}\n", 2, "other.j2"),
        ("x\n{{ task.words }}\n", 2, "words"),
        ("x\n{{ 1 / 0 }}\n", 2, "division"),
    ],
)
def test_a_broken_template_is_reported_with_file_line_and_what_is_wrong(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    (tmp_path / "fix.j2").write_text(text)
    message = refusal(tmp_path)
    assert words in message
    assert f"fix.j2:{line}: " in message or "endif" in words


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "fix.j2").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in refusal(tmp_path)


def test_every_section_has_a_value_and_every_value_is_used_by_a_template() -> None:
    ours = open_templates()
    assert {section.name for section in SECTIONS} <= set(VALUES)
    everything = "".join(ours.texts.values())
    assert not [name for name in VALUES if name not in everything]


def test_our_own_templates_use_no_unknown_name(tmp_path: Path) -> None:
    for name, text in open_templates().texts.items():
        (tmp_path / name).write_text(text)
    assert open_templates(tmp_path) == open_templates()
