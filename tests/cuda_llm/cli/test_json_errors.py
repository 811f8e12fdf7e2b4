"""With --json a failure is a document too, of the published shape, with a code of its own."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from commands import Command

from cuda_llm.errors import ERROR_CODES

ROOT = Path(__file__).parents[3]
SCHEMAS = sorted((ROOT / "docs/schemas").glob("*.json"))
ERROR = json.loads((ROOT / "docs/schemas/error.schema.json").read_text())
BASELINE = ROOT / "tasks/vector_add/baseline.cu"


def examples() -> list[tuple[Path, object]]:
    """Each example of each schema."""
    return [
        (path, one) for path in SCHEMAS for one in json.loads(path.read_text()).get("examples", ())
    ]


@pytest.mark.parametrize(
    ("schema", "example"), examples(), ids=lambda one: getattr(one, "name", "")
)
def test_the_examples_of_a_schema_fit_it(schema: Path, example: object) -> None:
    jsonschema.validate(example, json.loads(schema.read_text()))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("evaluate", "vector_ad", BASELINE), 2, "did you mean vector_add"),
        (("evaluate", "vector_add"), 2, "expected TASK and files"),
        (("evaluate", "vector_add", BASELINE, "--devise", "x"), 2, "--devise"),
        (("evaluate", "vector_add", BASELINE, "--precision", "x"), 2, "--precision"),
        (("run", "vector_add", "--model", "none", "--base-url", "http://127.0.0.1:9/v1"), 3, ":9"),
        (("run", "vector_add", "--candidates", "0"), 2, "--candidates"),
        (("resume", "nothing"), 2, "nothing"),
        (("check", "none.cu"), 2, "none.cu"),
        (("bench", "vector_ad"), 2, "vector_ad"),
        (("trace", "show", "nothing"), 2, "nothing"),
    ],
)
def test_a_failure_is_one_document_and_one_line(
    command: Command, arguments: tuple[object, ...], code: int, words: str
) -> None:
    ran = command(*arguments, "--json")
    assert ran.code == code
    document = json.loads(ran.stdout)
    jsonschema.validate(document, ERROR)
    error = document["error"]
    assert (error["code"], error["exit_code"]) == (ERROR_CODES[code], code)
    assert words in error["message"]
    assert " ".join(error["message"].split()) in ran.complaint


OWN_DEVICE = """
from cuda_llm.extend import open_device
from cuda_llm.tools.emulator.device import EmulatedDevice

class Slip(EmulatedDevice):
    def open(self, candidate):
        raise ValueError("a slip")

slip = Slip(open_device("emulated").hardware)
"""


def test_a_crash_has_a_code_of_its_own_and_its_traceback(command: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_DEVICE)
    ran = command("evaluate", "vector_add", BASELINE, "--device", "own.py:slip", "--json")
    assert ran.code == 70
    error = json.loads(ran.stdout)["error"]
    assert (error["code"], error["exit_code"]) == ("crash", 70)
    assert "ValueError: a slip" in error["message"]
    assert "Traceback (most recent call last)" in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("error: ValueError: a slip (a fault of cuda-llm")


def test_the_schema_and_the_page_list_every_code() -> None:
    listed = ERROR["properties"]["error"]["properties"]
    assert listed["exit_code"]["enum"] == [*ERROR_CODES]
    assert listed["code"]["enum"] == [*ERROR_CODES.values()]
    page = (ROOT / "docs/judge.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `?([a-z-]*)`? \|", page, re.MULTILINE)
    assert rows == [
        ("0", ""),
        ("1", ""),
        *((str(code), name) for code, name in ERROR_CODES.items()),
    ]
    shown = re.search(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    jsonschema.validate(json.loads(shown[1]), ERROR)
