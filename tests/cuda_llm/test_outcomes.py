"""Every verdict has a code of its own, words for a person and a place in the published schema."""

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest

from cuda_llm.cli.evaluate_output import evaluate_document, report
from cuda_llm.outcomes import InfraFailed, Passed, RaceKind, SyncKind, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.open_device import open_device

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/schemas/evaluate.schema.json").read_text(encoding="utf-8"))
VARIANTS: tuple[type[Any], ...] = get_args(Verdict)
SAMPLES = {
    str: "text",
    int: 3,
    int | None: 3,
    float: float("nan"),
    bool: True,
    tuple[int, ...]: (1, 2),
    RaceKind: "write-write",
    SyncKind: "deadlock",
}


def sample(variant: type[Any]) -> Any:
    """A verdict with something in every field that has no default. Not a number is a number."""
    hints = get_type_hints(variant)
    values = {}
    for field in fields(variant):
        if field.default is MISSING and field.default_factory is MISSING:
            values[field.name] = SAMPLES.get(hints[field.name], {"n": 5})
    return variant(**values)


def test_codes_are_stable_and_distinct() -> None:
    codes = [variant.code for variant in VARIANTS if variant is not InfraFailed]
    (listed,) = (
        choice["enum"]
        for choice in SCHEMA["$defs"]["result"]["properties"]["verdict"]["properties"]["code"][
            "anyOf"
        ]
        if "enum" in choice
    )
    assert len(set(codes)) == len(VARIANTS) - 1
    assert codes == listed
    assert InfraFailed(component="runner", detail="").code == "INFRA_RUNNER"


def test_the_page_of_faults_says_of_every_code_what_to_do() -> None:
    page = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z_*]+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert rows == [*(one.code for one in VARIANTS if one is not InfraFailed), "INFRA_*"]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_verdict_can_be_read_by_people_and_programs(variant: type[Any]) -> None:
    judged = Judged(name="mine.cu", verdict=sample(variant))
    rows = list(report(judged))
    if variant is not Passed:
        assert rows[0][0] == judged.verdict.code
        assert all(text for _, text in rows)
    text = evaluate_document(load_task("vector_add"), open_device("emulated"), [judged])
    jsonschema.validate(json.loads(text), SCHEMA)
    assert json.loads(text)["results"][0]["verdict"]["code"] == judged.verdict.code
