"""A report in a real Chromium, from disk, with the network off, by keyboard."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from browser import Browser
from recorded_run import OTHERS, beginning, ending, write_run
from report_runs import EVIL, write_hostile_run, write_large_run

from cuda_llm.traces.events import GeneratorFailed
from cuda_llm.traces.report.gather import gather
from cuda_llm.traces.report.page import render_page
from cuda_llm.traces.run_folder import RunFolder

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "traces/examples/reduction-playbook"
VIEWS = ("progress", "tree", "candidates", "timeline", "cost", "rounds", "hints", "compare")
PANES = ("about", "times", "roofline", "profile", "source", "diff", "prompt", "reply", "log")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser without a network."""
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        one.offline()
        yield one


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run of 48 candidates, beside another run."""
    here = tmp_path_factory.mktemp("large")
    run = write_large_run(here / "run", rounds=6, candidates=8)
    other = write_large_run(here / "other-run", rounds=2, candidates=4)
    page = here / "large.html"
    page.write_text(render_page(gather(run), gather(other)))
    return page


def file_of(folder: Path, run: RunFolder, other: RunFolder | None = None) -> Path:
    """The report of a run as a file."""
    page = folder / "report.html"
    page.write_text(render_page(gather(run), gather(other) if other else None))
    return page


def address_of(page: Path, fragment: str = "") -> str:
    return f"{page.as_uri()}#{fragment}"


def drawn(browser: Browser, place: str) -> str:
    """What a person reads in a part of the page."""
    return str(browser.evaluate(f"document.querySelector({place!r}).innerText"))


def pane(browser: Browser) -> str:
    """Name of the pane that is chosen, once it is drawn."""
    browser.wait("document.querySelector('#pane [role=tab][aria-selected=true]')")
    found = browser.evaluate("document.querySelector('#pane [role=tab][aria-selected=true]').id")
    return str(found).removeprefix("pane-")


def test_every_view_and_pane_is_reached_by_keyboard(browser: Browser, large: Path) -> None:
    browser.errors.clear()
    browser.open(address_of(large))
    for number, view in enumerate(VIEWS, start=1):
        browser.press(str(number))
        assert f"view={view}" in browser.evaluate("location.hash")
        selected = browser.evaluate(
            "[...document.querySelectorAll('nav [aria-selected=true]')].map((one) => one.id)"
        )
        assert selected == [f"view-{view}"]
        assert len(drawn(browser, "#view")) > 80
    browser.press("2")
    browser.press("b")
    for name in PANES:
        assert pane(browser) == name
        assert drawn(browser, "#pane-body").strip()
        browser.press("]")
    assert pane(browser) == "about"
    browser.press("[")
    assert pane(browser) == "log"
    browser.press("Escape")
    assert browser.evaluate("document.getElementById('pane').children.length") == 0
    assert browser.errors == []
    assert {one.partition("#")[0] for one in browser.requested} == {large.as_uri()}


def test_keys_walk_the_lineage_and_the_table(browser: Browser, large: Path) -> None:
    browser.open(address_of(large, "view=tree&c=r3-c4"))
    for key, expected in (("j", "r3-c5"), ("k", "r3-c4"), ("ArrowDown", "r3-c5")):
        browser.press(key)
        assert f"c={expected}" in browser.evaluate("location.hash")
    browser.press("ArrowLeft")
    assert re.search(r"c=r2-c\d+", browser.evaluate("location.hash"))
    browser.press("/")
    for letter in "wrong":
        browser.press(letter)
    browser.press("Escape")
    texts = browser.evaluate(
        "[...document.querySelectorAll('td.result')].map((one) => one.innerText)"
    )
    assert texts and set(texts) == {"WRONG_RESULT"}
    browser.press("?")
    assert browser.evaluate("document.getElementById('help').open")
    browser.press("?")
    assert not browser.evaluate("document.getElementById('help').open")


def test_selection_survives_reload_and_travels_as_a_link(browser: Browser, large: Path) -> None:
    browser.open(address_of(large))
    browser.press("3")
    browser.press("b")
    browser.press("]")
    assert pane(browser) == "times"
    link = browser.evaluate("location.href")
    chosen = drawn(browser, "#pane h2")
    browser.reload()
    assert (pane(browser), drawn(browser, "#pane h2")) == ("times", chosen)
    assert browser.evaluate("document.querySelector('tr.selected') !== null")
    browser.open(link)
    assert (pane(browser), drawn(browser, "#pane h2")) == ("times", chosen)


def test_a_modelled_run_says_so_wherever_it_shows_a_time(browser: Browser, tmp_path: Path) -> None:
    page = file_of(tmp_path, RunFolder(EXAMPLE))
    browser.open(address_of(page, "view=candidates&c=r3-c4&pane=times"))
    browser.wait("document.querySelector('#pane svg')")
    assert "times are modelled" in drawn(browser, "#top")
    assert "speed-up, modelled" in drawn(browser, "#view thead")
    assert drawn(browser, "#pane tbody").count("modelled") == 3


def test_words_of_others_are_shown_and_never_run(browser: Browser, tmp_path: Path) -> None:
    browser.errors.clear()
    browser.requested.clear()
    page = file_of(tmp_path, write_hostile_run(tmp_path / "run"))
    browser.open(address_of(page))
    title = browser.evaluate("document.title")
    for number in range(1, len(VIEWS) + 1):
        browser.press(str(number))
    browser.press("b")
    for name in PANES:
        assert pane(browser) == name
        if name in ("about", "profile", "source", "prompt", "reply", "log"):
            assert "<b>bold</b>" in drawn(browser, "#pane-body")
            assert "\x1b" not in drawn(browser, "#pane-body")
        browser.press("]")
    assert browser.evaluate("document.title") == title == "reduction · run"
    assert browser.evaluate("document.querySelectorAll('img, b, i, iframe').length") == 0
    assert browser.errors == []
    assert {one.partition("#")[0] for one in browser.requested} == {page.as_uri()}


def test_modelled_and_measured_are_never_on_one_axis(browser: Browser, tmp_path: Path) -> None:
    measured = write_large_run(tmp_path / "measured", rounds=2, candidates=4)
    page = file_of(tmp_path, measured, RunFolder(EXAMPLE))
    browser.open(address_of(page, "view=compare"))
    assert browser.evaluate("document.querySelectorAll('#view svg.plot').length") == 2
    told = drawn(browser, "#view .missing")
    assert "not to be ranked" in told and "modelled" in told and "measured" in told
    titles = "[...document.querySelectorAll('#view svg text.title')].map((one) => one.textContent)"
    assert [one for one in browser.evaluate(titles) if "speed-up" in one] == [
        *("speed-up (×, measured)", "speed-up (×, modelled)"),
    ]


def test_a_damaged_run_says_in_one_line_what_is_missing(browser: Browser, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *beginning(), *OTHERS, *ending())
    with run.events.open("ab") as events:
        events.write(b'{"v":2,"seq":99')
    (run.candidate("r1-c2") / "verdict.json").write_text("{")
    browser.errors.clear()
    browser.open(address_of(file_of(tmp_path, run), "c=r1-c2"))
    told = drawn(browser, "p.missing")
    assert "events.jsonl: 1 line cut off" in told and "r1-c2/verdict.json: broken" in told
    browser.wait("document.getElementById('pane-body')")
    assert "COMPILE_FAILED" in drawn(browser, "#pane-body")
    assert browser.errors == []


def test_a_page_that_is_kept_current_loads_itself_again(browser: Browser, tmp_path: Path) -> None:
    gathered = gather(write_run(tmp_path / "run", *beginning()))
    running = replace(gathered, run=replace(gathered.run, live=True, state_text="under way"))
    page = tmp_path / "report.html"
    page.write_text(render_page(running))
    browser.open(address_of(page, "view=tree&c=r1-c2"))
    assert "kept current" in drawn(browser, "#top")
    page.write_text(render_page(gather(write_run(tmp_path / "run", *ending()))))
    browser.wait("document.getElementById('top') && !document.querySelector('.live')")
    browser.wait("document.getElementById('pane-body')")
    assert "c=r1-c2" in browser.evaluate("location.hash")


def test_the_first_chart_uses_its_height_and_colours_say_who_wrote(
    browser: Browser, large: Path
) -> None:
    browser.open(address_of(large))
    marks = "[...document.querySelectorAll('svg.plot .mark.passed')]"
    heights = browser.evaluate(
        f"{marks}.map((one) => one.getBoundingClientRect().top)"
        ".filter((one, at, all) => Math.min(...all) === one || Math.max(...all) === one)"
    )
    frame = browser.evaluate("document.querySelector('svg.plot').getBoundingClientRect().height")
    assert max(heights) - min(heights) > 0.6 * frame
    assert browser.evaluate(f"{marks}.every((one) => one.classList.contains('by-model'))")
    assert "by the model" in drawn(browser, ".legend")


def test_a_person_and_the_tuner_have_colours_of_their_own(browser: Browser) -> None:
    page = Path(browser.folder) / "history.html"
    page.write_text(render_page(gather(RunFolder(ROOT / "traces/examples/histogram-model"))))
    browser.open(address_of(page))
    fill = "getComputedStyle(document.querySelector('.plot .by-{}:not(.best) .shape')).fill"
    assert browser.evaluate(fill.format("tuner")) != browser.evaluate(fill.format("model"))
    assert "by the tuner" in drawn(browser, ".legend")


def test_a_row_is_no_taller_for_a_text_that_is_beyond_the_edge(
    browser: Browser, tmp_path: Path
) -> None:
    run = write_large_run(tmp_path / "run", rounds=1, candidates=3)
    name = run.candidates()[0]
    known = run.attempt(name)
    assert known is not None
    run.write_attempt(replace(known, idea="a long idea " * 200))
    browser.open(address_of(file_of(tmp_path, run), f"view=candidates&c={name}"))
    browser.wait("document.getElementById('pane-body')")
    rows = "[...document.querySelectorAll('#view tbody tr')].map((one) => one.offsetHeight)"
    assert max(browser.evaluate(rows)) < 60


def test_reviews_and_tracebacks_are_shown_and_never_run(browser: Browser, tmp_path: Path) -> None:
    told = [
        replace(one, traceback=f"Traceback (most recent call last):\n{EVIL}")
        if isinstance(one, GeneratorFailed)
        else one
        for one in OTHERS
    ]
    browser.errors.clear()
    page = file_of(tmp_path, write_run(tmp_path / "run", *beginning(), *told, *ending()))
    browser.open(address_of(page, "view=rounds&c=r1-c2"))
    browser.wait("document.getElementById('pane-body')")
    assert "reviewed by ada" in drawn(browser, "#view")
    browser.evaluate("document.querySelector('.traceback summary').click()")
    for place in ("#view .traceback pre", "#pane-body pre"):
        assert "Traceback (most recent" in drawn(browser, place)
        assert "<b>bold</b>" in drawn(browser, place)
    assert "owned" not in browser.evaluate("document.title")
    assert browser.errors == []
