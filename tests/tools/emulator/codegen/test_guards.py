"""Loads that race with nothing, as they only guard an update or are for nobody, are found."""

import asyncio
import re

import pytest
from corpus_sample import sample
from kernel_runs import compiled

from cuda_llm.tools.emulator.codegen.guards import meeting_blocks
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ptx.parse import parse

_SITE = re.compile(r'\{"(\w+)[^"]*", \d+, \d+, \d+, \d+, \d+, \d+, \w+, (\d+), ')


@pytest.fixture(scope="module", params=sample(("sm_86", "sm_90"), every=2))
def guarded(request: pytest.FixtureRequest) -> dict[str, bool]:
    """Whether any load of each kernel of `guards.cu` only guards an update, or is for nobody."""
    made = asyncio.run(compiled("guards", request.param))
    found = generate(parse(made.ptx.read_text(), "guards.cu"), (), "guards.cu", "")
    rows = re.findall(r"sites\d+\[\] = \{(.*)\};", found.text)
    return {
        table.symbol: any(int(updates) and opcode == "ld" for opcode, updates in _SITE.findall(row))
        for table, row in zip(found.kernels, rows, strict=True)
    }


def test_a_load_guards_an_update_where_nothing_else_depends_on_it(
    guarded: dict[str, bool],
) -> None:
    assert guarded
    assert guarded == {name: name.startswith("only_") for name in guarded}


def test_ways_meet_where_all_lead_through() -> None:
    # 0 -> 1 or 2; 1 -> 3; 2 -> 3 or the end; 3 -> 4 or back to 3; 4 -> the end.
    ways = [(1, 2), (3,), (3, -1), (3, 4), (-1,)]
    assert meeting_blocks(ways) == {0: None, 1: 3, 2: None, 3: 4, 4: None}
