"""Many runs in a browser: sorted, filtered, grouped, drawn, exported; kernels side by side."""

import csv
import http.client
import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browser import Browser
from recorded_run import OTHERS, beginning, ending, write_run
from report_runs import EVIL, write_hostile_run, write_large_run

from cuda_llm.traces.events import RunStarted
from cuda_llm.traces.files import write_json
from cuda_llm.traces.report.candidates import CandidateReader
from cuda_llm.traces.report.chart import describe_course
from cuda_llm.traces.report.courses import draw_panels
from cuda_llm.traces.report.gather import view_run
from cuda_llm.traces.report.run_lines import (
    CoursePoint,
    RunLine,
    RunLines,
    describe_switches,
    read_line,
)
from cuda_llm.traces.report.run_tables import csv_table, escape_latex, latex_table
from cuda_llm.traces.report.selection import (
    Selection,
    choose_lines,
    describe_group,
    read_selection,
)
from cuda_llm.traces.report.serve import ReportServer
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import summarise

SVG = "{http://www.w3.org/2000/svg}"
EVIL_TASK = '</style><script>document.title="owned"</script>"&%$#_{}~^\\'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measured runs of two strategies and three seeds, modelled, hostile and broken ones."""
    folder = tmp_path_factory.mktemp("runs")
    for strategy in ("fsr", "best-of-n"):
        for seed in range(3):
            name = f"{strategy}-{seed}"
            write_large_run(folder / name, rounds=4, candidates=3, strategy=strategy, seed=seed)
    write_run(folder / "modelled-done", *beginning(), *ending())
    write_run(folder / "modelled-killed", *beginning())
    write_hostile_run(folder / "<img src=x onerror=alert(1)>")
    first, *rest = beginning()
    assert isinstance(first, RunStarted)
    write_run(folder / "evil-task", replace(first, task=EVIL_TASK, strategy=EVIL), *rest)
    (folder / "broken").mkdir()
    write_json(folder / "broken/run.json", {})
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[ReportServer]:
    """A server while the tests of this file last."""
    with ReportServer(runs) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.02,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with Browser(tmp_path_factory.mktemp("browser"), width=900) as one:
        yield one


def ask(server: ReportServer, path: str) -> tuple[int, str, str]:
    """Status, type and text."""
    there = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=240)
    there.request("GET", path)
    answer = there.getresponse()
    text = answer.read().decode()
    there.close()
    return answer.status, answer.headers["Content-Type"], text


def visit(browser: Browser, address: str) -> None:
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=address)
    browser.wait("document.querySelector('h1') && document.readyState === 'complete'")


def column(browser: Browser, title: str) -> list[str]:
    """Cells below a heading, from top to bottom; a run that cannot be read has none."""
    return list(
        browser.evaluate(
            f"""(() => {{
            const heads = [...document.querySelectorAll('thead th')];
            const at = heads.findIndex((one) => one.innerText.startsWith({title!r}));
            return [...document.querySelectorAll('tbody tr')].map((row) => row.cells[at])
              .filter(Boolean).map((one) => one.innerText);
            }})()"""
        )
    )


def click(browser: Browser, place: str) -> None:
    browser.evaluate("document.documentElement.dataset.old = 'yes'")
    browser.evaluate(f"document.querySelector({place!r}).click()")
    there = "document.documentElement && document.readyState === 'complete'"
    browser.wait(f"{there} && document.documentElement.dataset.old === undefined")


def test_a_heading_sorts_and_says_so(server: ReportServer, browser: Browser) -> None:
    visit(browser, server.address + "?task=reduction")
    click(browser, "th a[href*='sort=seed']")
    assert column(browser, "seed") == sorted(column(browser, "seed"), reverse=True)
    heads = "[...document.querySelectorAll('[aria-sort]')].map((one) => one.ariaSort)"
    assert browser.evaluate(heads) == ["descending"]
    click(browser, "th a[href*='sort=seed']")
    assert column(browser, "seed") == sorted(column(browser, "seed"))
    assert browser.evaluate(heads) == ["ascending"]
    assert "task=reduction" in browser.evaluate("location.search")
    browser.evaluate("document.querySelector('th a').focus()")
    assert browser.evaluate("document.activeElement.tagName") == "A"


def test_speedups_of_two_sources_are_sorted_apart(server: ReportServer, browser: Browser) -> None:
    visit(browser, server.address + "?sort=speedup&down=1")
    sources = [one for one in column(browser, "times are") if one]
    assert set(sources) == {"measured", "modelled"}
    assert sources == sorted(sources)
    assert "sorted apart" in browser.evaluate("document.body.innerText")


def test_a_form_filters_groups_and_a_reload_shows_it_again(
    server: ReportServer, browser: Browser
) -> None:
    visit(browser, server.address)
    browser.evaluate("document.querySelector('[name=task]').value = 'reduction'")
    browser.evaluate("document.querySelector('[name=group]').value = 'strategy'")
    browser.evaluate("document.querySelector('[name=x]').value = 'tokens'")
    click(browser, ".filters button")
    for again in (False, True):
        if again:
            visit(browser, browser.evaluate("location.href"))
        assert set(column(browser, "task")) == {"reduction"}
        told = browser.evaluate(
            "[...document.querySelectorAll('tr.group')].map((one) => one.innerText)"
        )
        assert {one.split()[0] for one in told} == {"best-of-n", "fsr"}
        assert "3 runs; median" in " ".join(told)
        assert "tokens in and out" in browser.evaluate(
            "document.querySelector('svg.courses').textContent"
        )


def test_text_filters_and_clear_shows_all(server: ReportServer, browser: Browser) -> None:
    visit(browser, server.address + "?q=KILLED")
    assert set(column(browser, "run")) == {"modelled-killed", "evil-task"}
    click(browser, ".filters a")
    assert len(column(browser, "run")) == 11


def test_measured_and_modelled_have_panels_of_their_own(
    server: ReportServer, browser: Browser
) -> None:
    visit(browser, server.address)
    charts = browser.evaluate(
        "[...document.querySelectorAll('svg.courses')].map((one) => one.textContent)"
    )
    assert len(charts) >= 2
    assert all(("measured)" in one) != ("modelled)" in one) for one in charts)
    lines = "document.querySelectorAll('svg.courses')[{}].querySelectorAll('.run').length"
    at = next(index for index, one in enumerate(charts) if "best-of-n" in one)
    assert browser.evaluate(lines.format(at)) == 7


def test_a_page_fits_its_window_and_no_word_of_others_is_run(
    server: ReportServer, browser: Browser
) -> None:
    browser.errors.clear()
    for path in ("", "?group=task", "?group=strategy&x=minutes", "kernels"):
        visit(browser, server.address + path)
        assert "owned" not in browser.evaluate("document.title")
        assert (
            browser.evaluate("document.querySelectorAll('script, img, b, i, iframe').length") == 0
        )
        assert browser.evaluate("document.documentElement.scrollWidth") <= 900
    assert "<b>bold</b>" in browser.evaluate("document.body.textContent")
    assert [one for one in browser.errors if "404" not in one] == []


def test_kernels_are_beside_each_other_with_their_difference(
    server: ReportServer, browser: Browser
) -> None:
    visit(browser, server.address + "kernels?strategy=best-of-n")
    assert browser.evaluate("document.querySelectorAll('.kernel').length") == 3
    shown = browser.evaluate("document.querySelector('.kernel').textContent")
    assert "PASSED" in shown and "n = 262,144" in shown and "solve" in shown
    click(browser, "form button")
    assert "strategy=best-of-n" in browser.evaluate("location.search")
    assert browser.evaluate("document.querySelectorAll('#diff .added').length") > 0
    assert browser.evaluate("document.querySelectorAll('#diff .dropped').length") > 0


def test_exports_hold_what_is_shown(server: ReportServer) -> None:
    status, kind, text = ask(server, "/runs.csv?strategy=fsr&task=reduction&sort=seed")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert (status, kind.split(";")[0]) == (200, "text/csv")
    assert [row["seed"] for row in rows] == ["0", "0", "1", "2"]
    assert all(float(row["speedup"]) > 0 and row["time_source"] == "measured" for row in rows)
    _, kind, text = ask(server, "/runs.svg?group=strategy")
    tree = ElementTree.fromstring(text)
    assert kind.startswith("image/svg+xml")
    assert tree.findall(f".//{SVG}script") == []
    assert len([one for one in tree.iter(f"{SVG}path") if one.get("class") == "median"]) >= 3
    _, _, text = ask(server, "/runs.latex")
    assert text.startswith(r"\begin{tabular}") and text.count(r"\\") == 12


def test_two_runs_are_needed_to_compare(server: ReportServer) -> None:
    assert ask(server, "/compare?run=fsr-0")[0] == 400
    assert ask(server, "/compare?run=fsr-0&run=fsr-1")[0] == 200


def test_hostile_text_is_escaped_in_every_export() -> None:
    line = RunLine(run_id=EVIL, task=EVIL_TASK, strategy="=cmd()", state="killed")
    (row,) = csv.DictReader(io.StringIO(csv_table([line])))
    assert (row["run"], row["task"], row["strategy"]) == (EVIL, EVIL_TASK, "'=cmd()")
    table = latex_table([line])
    assert r"\textless{}/style\textgreater{}" in table and r"\&\%\$\#\_\{\}" in table
    assert escape_latex("\\~^") == r"\textbackslash{}\textasciitilde{}\textasciicircum{}"


def line_of(name: str, *speedups: float | None, state: str = "finished", seed: int = 0) -> RunLine:
    """A run with a choice after every four candidates."""
    course = tuple(
        CoursePoint(
            candidates=4 * index,
            calls=index,
            tokens=index * 100,
            minutes=float(index),
            usd=None,
            speedup=one,
        )
        for index, one in enumerate(speedups, start=1)
    )
    return RunLine(
        run_id=name,
        task="t",
        device="d",
        time_source="measured",
        strategy=name.partition("-")[0],
        state=state,
        speedup=speedups[-1],
        seed=seed,
        course=course,
    )


def test_a_group_begins_with_its_last_first_kernel_and_ends_with_an_unfinished_run() -> None:
    lines = [line_of("a-1", 1.0, 2.0, 4.0), line_of("a-2", None, 3.0, state="killed")]
    ((group,),) = [one.groups for one in draw_panels(lines, "strategy", "candidates")]
    assert group.steps == ((8.0, 2.0, 2.5, 3.0),)
    assert group.end == 8
    assert "of 2 runs, range 3.00x to 4.00x; 1 unfinished" in describe_course(group)
    assert describe_group(lines).startswith("2 runs, 1 unfinished; median 3.50x")


def test_a_finished_run_keeps_its_best() -> None:
    lines = [line_of("a-1", 1.0), line_of("a-2", 1.0, 3.0)]
    ((group,),) = [one.groups for one in draw_panels(lines, "strategy", "candidates")]
    assert group.steps == ((4.0, 1.0, 1.0, 1.0), (8.0, 1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ((1.0, 2.0), "lower: ranges apart"),
        ((1.0, 3.5), "tie: ranges overlap"),
        ((3.0, 4.0), "tie: equal results"),
        ((1.0,), "not compared: fewer than 2 runs"),
    ],
)
def test_groups_are_ranked_only_where_their_ranges_are_apart(
    others: tuple[float, ...], verdict: str
) -> None:
    lines = [line_of("a-1", 3.0), line_of("a-2", 4.0)]
    lines += [line_of(f"b-{index}", one) for index, one in enumerate(others)]
    (panel,) = draw_panels(lines, "strategy", "candidates")
    assert [one.verdict for one in panel.groups] == ["highest median", verdict]


def test_an_unknown_price_has_no_place_on_the_axis_of_dollars() -> None:
    (panel,) = draw_panels([line_of("a-1", 3.0)], "strategy", "usd")
    assert (panel.groups[0].runs, panel.groups[0].without) == ((), 1)


def test_a_sort_is_stable_and_unknown_values_are_last() -> None:
    lines = [
        replace(line_of("a", 2.0), seed=None),
        *(line_of("b", 2.0, seed=1), line_of("c", 2.0, seed=0), line_of("d", 2.0, seed=1)),
    ]
    for down, expected in ((False, "cbda"), (True, "bdca")):
        found = choose_lines(lines, Selection(sort="seed", down=down))
        assert "".join(one.run_id for one in found) == expected


def test_a_query_is_read_back_as_it_was_written() -> None:
    from urllib.parse import parse_qs

    wanted = Selection(
        text="a&b",
        where=(("task", "x=y"), ("strategy", "fsr+no-pairs")),
        runs=("one", "two"),
        sort="speedup",
        down=True,
        group="setup",
        x="tokens",
    )
    assert read_selection(parse_qs(wanted.query())) == wanted
    assert read_selection({"sort": ["nobody"], "group": ["speedup"], "x": ["y"]}) == Selection()


def test_switches_are_the_options_that_differ_from_their_defaults() -> None:
    request = {"task": "t", "seed": 3, "tune": 8, "without": [], "hardware_context": "full"}
    assert describe_switches(request) == ""
    given = request | {"tune": 2, "without": ["history", "hints"], "strict": True}
    assert describe_switches(given) == "--without history --without hints --tune 2 --strict"


@pytest.mark.parametrize("name", ["fsr-1", "modelled-done", "modelled-killed", "resumed"])
def test_a_line_says_what_the_whole_history_says(runs: Path, tmp_path: Path, name: str) -> None:
    run = RunFolder(runs / name)
    if name == "resumed":
        run = write_run(tmp_path / name, *beginning(), *OTHERS, *ending())
    line, whole, view = read_line(run), summarise(run), view_run(CandidateReader(run))[0]
    for field in ("task", "state", "rounds", "candidates", "best", "speedup", "objective"):
        assert getattr(line, field) == getattr(whole, field), field
    assert (line.calls, line.usd) == (whole.spend.calls, whole.spend.usd)
    assert line.minutes == pytest.approx(view.wall_s / 60)
    assert [one.speedup for one in line.course][:-1] == [one.speedup for one in view.steps]


def test_a_line_is_read_again_only_where_the_events_have_changed(tmp_path: Path) -> None:
    lines = RunLines()
    run = write_run(tmp_path / "run", *beginning())
    first = lines.of(run)
    assert lines.of(RunFolder(run.path)) is first
    write_run(tmp_path / "run", *ending())
    assert (first.state, lines.of(run).state) == ("killed", "finished")
