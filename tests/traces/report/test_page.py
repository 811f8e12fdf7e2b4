"""The file itself: small, soon written, holding nothing that a browser would load or run."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_runs import EVIL, write_hostile_run, write_large_run

from cuda_llm.traces.report.candidates import harmless
from cuda_llm.traces.report.gather import gather
from cuda_llm.traces.report.page import as_script_data, render_page
from cuda_llm.traces.run_folder import RunFolder

EXAMPLE = Path(__file__).parents[3] / "traces/examples/reduction-playbook"
MOST_BYTES_A_CANDIDATE = 20_000
"""Most of it is the source and the prompt, which candidates of a run share."""


class Tags(HTMLParser):
    """The elements of a page, and what its scripts and styles hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip() and self.elements:
            self.texts.append((self.elements[-1][0], data))


def test_a_run_of_many_candidates_fits_in_a_small_file(tmp_path: Path) -> None:
    run = write_large_run(tmp_path / "run", rounds=10, candidates=10)
    page = render_page(gather(run))
    assert page.count('"kind":"') >= 100
    assert len(page.encode()) <= MOST_BYTES_A_CANDIDATE * 100


def test_the_same_run_gives_the_same_file() -> None:
    pages = {render_page(gather(RunFolder(EXAMPLE))) for _ in range(2)}
    assert len(pages) == 1


def test_nothing_is_loaded_and_only_our_script_may_run() -> None:
    page = render_page(gather(RunFolder(EXAMPLE)))
    tags = Tags(page)
    assert {tag for tag, _ in tags.elements} == {
        *("html", "head", "meta", "title", "style", "body", "noscript", "script"),
    }
    assert not [given for _, given in tags.elements if given.keys() & {"src", "href", "style"}]
    policy = next(g["content"] for _, g in tags.elements if "http-equiv" in g) or ""
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    assert allowed["default-src"] == "'none'"
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert script and style
    for name, found in (("script-src", script), ("style-src", style)):
        digest = hashlib.sha256(found.group(1).encode()).digest()
        assert allowed[name] == f"'sha256-{base64.b64encode(digest).decode()}'"
    # No address but the name of the SVG standard.
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_words_of_others_never_stand_in_the_page_as_they_are(tmp_path: Path) -> None:
    page = render_page(gather(write_hostile_run(tmp_path / "run")))
    assert "owned'</script>" not in page
    assert page.count("<script") == 3
    assert "\x1b" not in page and "\u202e" not in page
    assert {tag for tag, _ in Tags(page).elements} & {"img", "b", "i"} == set()


def test_texts_come_back_whole_out_of_the_pack(tmp_path: Path) -> None:
    gathered = gather(write_hostile_run(tmp_path / "run"))
    packed = re.search(r'id="packed">([^<]*)<', render_page(gathered))
    assert packed
    whole = json.loads(gzip.decompress(base64.b64decode(packed.group(1))))
    for name, text in gathered.texts.items():
        assert "\n".join(whole["lines"][one] for one in whole["texts"][name]) == text
    assert whole["candidates"].keys() == {row.id for row in gathered.run.rows}


@pytest.mark.parametrize("text", [EVIL, "</script>", "<!--", "\u2028\u2029", "]]>", "&lt;"])
def test_data_is_read_back_as_it_was_and_ends_no_tag(text: str) -> None:
    data = as_script_data({"text": text})
    assert json.loads(data) == {"text": text}
    assert not set("<>&\u2028\u2029") & set(data)


def test_control_characters_are_seen_and_do_nothing() -> None:
    assert harmless("a\tb\nc\r\nd") == "a\tb\nc\nd"
    assert (
        harmless("\x1b[31mred\u202e") == "\N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}"
    )
