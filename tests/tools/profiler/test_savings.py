"""No saving leads below what the task, or the kernel itself, needs."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.codec import decode
from cuda_llm.profile import Bottleneck
from cuda_llm.tools.profiler.bottlenecks import limit_savings

ROOT = Path(__file__).parents[3]
REPORTS = sorted(ROOT.glob("traces/examples/*/candidates/*/profile.json"))


def recorded_bottlenecks(path: Path) -> tuple[Bottleneck, ...]:
    found: list[object] = []

    def visit(node: object) -> None:
        if isinstance(node, dict):
            found.extend(node.get("bottlenecks") or ())
            for child in node.values():
                visit(child)
        elif isinstance(node, list):
            for child in node:
                visit(child)

    visit(json.loads(path.read_text()))
    return tuple(decode(Bottleneck, one) for one in found)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("part", [0.5, 0.9, 0.99, 1.1])
def test_no_recorded_saving_leads_below_a_floor(path: Path, part: float) -> None:
    for one in recorded_bottlenecks(path):
        (limited,) = limit_savings([one], part * one.time_us)
        assert limited.time_us - limited.saved_us >= min(part, 1) * one.time_us - 1e-9
        assert limited.saved_us <= one.saved_us


@given(
    time_us=st.floats(0.1, 1e6),
    saved=st.floats(0, 1),
    floor=st.floats(0, 2),
)
def test_no_saving_leads_below_a_floor(time_us: float, saved: float, floor: float) -> None:
    one = Bottleneck(
        code="latency", share=saved, explanation="", saved_us=saved * time_us, time_us=time_us
    )
    (limited,) = limit_savings([one], floor * time_us)
    assert limited.time_us - limited.saved_us >= min(1.0, floor) * time_us * (1 - 1e-9)
    assert 0 <= limited.share <= 1
