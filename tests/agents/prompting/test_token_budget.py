"""The budget of a prompt: kept whatever there is to say, but never at the cost of what must be."""

import random
from dataclasses import replace

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_cases import Kept, unmarked
from searches import attempt, situation

from cuda_llm.agents.prompting.render import render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.prompting.token_budget import (
    SECTIONS,
    Passage,
    count_tokens,
    cut_entries,
    cut_lines,
    fit,
)
from cuda_llm.agents.situation import Note, Situation
from cuda_llm.outcomes import CompileFailed, Diagnostic, Passed, Verdict
from cuda_llm.profile import Bottleneck, Profile
from cuda_llm.search import Brief, Hint, Kind
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.signature import signature

OURS = open_templates()
SOURCE = "// the parent\n" + "".join(f"int x{index};\n" for index in range(120))
KINDS = {
    Kind.FIRST: None,
    Kind.FIX: "r1-c1",
    Kind.IMPROVE: "r1-c2",
    Kind.DEPART: "r1-c2",
}
TEXTS = st.one_of(
    st.text(max_size=400),
    st.builds(
        str.__mul__,
        st.sampled_from(["x", "ab c\n", "`~`", "🜁", "0x1f ", "\n"]),
        st.integers(0, 9000),
    ),
)


def verdicts(text: str, many: int) -> dict[str, Verdict]:
    spot = SourceSpot(file="a.cu", line=3, text=text)
    error = Diagnostic(severity="error", message=f'identifier "foo" is undefined {text}', spot=spot)
    limit = Bottleneck(code="latency", share=0.4, explanation=text, spot=spot, advice=text)
    profile = Profile(
        device="d", hardware="h", source="modelled", bottlenecks=(limit,) * (many % 40)
    )
    return {
        "r1-c1": CompileFailed(compiler_output=text, diagnostics=(error,) * many),
        "r1-c2": Passed(profile=profile),
    }


def search(text: str, many: int) -> Situation:
    """Everything that a prompt tells is `text`, `many` times over."""
    failed = attempt("r1-c1", code="COMPILE_FAILED", summary=text, idea=text)
    passed = attempt("r1-c2", 1.5, idea=text, limited_by="latency")
    more = tuple(
        replace(failed, id=f"r2-c{index}", round=2, index=index) for index in range(1, many + 1)
    )
    plain = situation(failed, passed, *more)
    task = replace(plain.task, host=text)
    return replace(
        plain,
        task=task,
        notes={"reader": Note(text=text), "researcher": Note(text=text, about_hardware=True)},
        archive=Kept({"r1-c1": SOURCE, "r1-c2": SOURCE}, verdicts(text, many)),
    )


def order(kind: Kind, run: Situation, text: str, many: int) -> Brief:
    hint = Hint(round=1, about="r1-c1", code="latency", text=text, evidence=text, avoid=(text,))
    return Brief(
        id="r3-c1",
        round=3,
        index=1,
        kind=kind,
        parent=KINDS[kind],
        direction="another way",
        history=tuple(one.id for one in run.attempts),
        performance_hints=(hint,) * many,
    )


def must_haves(run: Situation, kind: Kind) -> tuple[str, ...]:
    source = () if kind == Kind.FIRST else (SOURCE.strip(),)
    return (run.task.description.strip(), signature(run.task), "another way", *source)


@settings(max_examples=examples(60))
@given(
    kind=st.sampled_from(sorted(KINDS)),
    text=TEXTS,
    many=st.integers(0, 60),
    budget=st.integers(3_500, 30_000),
)
def test_a_prompt_keeps_its_budget_and_what_must_be_there(
    kind: Kind, text: str, many: int, budget: int
) -> None:
    run = search(text, many)
    messages = render_prompt(order(kind, run, text, many), run, OURS, budget)
    assert sum(count_tokens(message.text) for message in messages) <= budget
    text = unmarked(messages[1].text)
    for part in must_haves(run, kind):
        assert part in text


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_be_there_stays_even_beyond_the_budget(kind: Kind) -> None:
    run = search("a lot of words\n" * 1000, 20)
    messages = render_prompt(order(kind, run, "a lot of words\n" * 1000, 20), run, OURS, 100)
    text = unmarked(messages[1].text)
    for part in must_haves(run, kind):
        assert part in text
    assert "a lot of words\na lot" not in messages[1].text


def test_a_short_prompt_is_not_cut() -> None:
    run = search("a word", 2)
    text = render_prompt(order(Kind.FIX, run, "a word", 2), run, OURS)[1].text
    assert "left out" not in text


def test_errors_outlive_history_when_room_is_short() -> None:
    run = search("one line of it\n" * 40, 40)
    text = render_prompt(order(Kind.FIX, run, "one line of it", 40), run, OURS, 4_200)[1].text
    assert "one line of it" in text.partition("## What went wrong")[2]
    assert "# What was tried" not in text or "attempts left out" in text


def test_the_table_serves_what_must_stay_outside_the_budget_and_each_other_section_in_turn() -> (
    None
):
    kept = {section.name for section in SECTIONS if not section.priority}
    assert kept == {"task", "signature", "direction", "parent_source"}
    movable = [section for section in SECTIONS if section.priority]
    assert [section.priority for section in movable] == list(range(1, len(movable) + 1))
    assert sum(section.least for section in movable) <= 1
    assert all(section.least <= section.most <= 1 for section in movable)


LINES = st.lists(st.text(alphabet="ab c1`\t", max_size=30), min_size=1, max_size=60)


@given(LINES, st.integers(0, 300))
def test_a_cut_log_keeps_its_head_and_tail_and_counts_what_is_missing(
    lines: list[str], limit: int
) -> None:
    text = "\n".join(lines)
    cut = cut_lines(Passage(entries=tuple(lines)), limit)
    assert count_tokens(cut) <= limit
    if cut in (text, ""):
        return
    head, _, rest = cut.partition("... ")
    missing, _, tail = rest.partition(" lines left out")
    assert text.startswith(head)
    assert text.endswith(tail.removeprefix("\n"))
    kept = head.count("\n") + (tail.count("\n"))
    assert kept + int(missing) == len(lines)


@given(LINES, st.integers(0, 300), st.randoms())
def test_cut_entries_are_the_most_important_ones_in_their_order(
    entries: list[str], limit: int, rng: random.Random
) -> None:
    numbered = [f"{index}: {entry}" for index, entry in enumerate(entries)]
    keep = list(range(len(entries)))
    rng.shuffle(keep)
    cut = cut_entries(Passage(entries=tuple(numbered), ranking=tuple(keep), noun="attempts"), limit)
    assert count_tokens(cut) <= limit
    lines = cut.split("\n")
    shown = [line for line in lines if line in numbered]
    assert shown == sorted(shown, key=lambda line: int(line.partition(":")[0]))
    if cut and len(shown) < len(numbered):
        assert lines[0] == f"... {len(numbered) - len(shown)} attempts left out"


@given(st.dictionaries(st.sampled_from([one.name for one in SECTIONS]), LINES), st.integers(0, 900))
def test_sections_together_keep_the_room_they_share(texts: dict[str, list[str]], room: int) -> None:
    passages = {name: Passage(entries=tuple(lines)) for name, lines in texts.items()}
    cut = fit(passages, room)
    movable = {section.name for section in SECTIONS if section.priority}
    assert sum(count_tokens(text) for name, text in cut.items() if name in movable) <= room
    assert all(cut[name] == passages[name].text for name in set(cut) - movable)


@given(st.text(), st.text())
def test_an_estimate_of_two_texts_together_is_at_most_their_sum(one: str, two: str) -> None:
    assert count_tokens(one + two) <= count_tokens(one) + count_tokens(two) + 1
    assert 0 <= count_tokens(one) <= len(one.encode(errors="surrogatepass"))


def test_the_estimate_is_near_what_tokenisers_count_and_above() -> None:
    """cl100k has 12 and 39 tokens for these, counted by hand from its merges."""
    assert 12 <= count_tokens("if (i < n) C[i] = A[i] + B[i];") <= 30
    source = situation().task.baseline.read_text()
    assert 2.0 < len(source) / count_tokens(source) < 3.5
