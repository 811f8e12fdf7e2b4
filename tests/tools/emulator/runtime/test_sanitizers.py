"""The runtime's own memory behaves, whatever a kernel does."""

import re
from pathlib import Path

import pytest
from runtime_driver import DRIVERS, FAULT_EXIT, start

NAMES = sorted(
    name
    for source in DRIVERS.glob("*.cpp")
    for name in re.findall(r'^    \{"(\w+)",', source.read_text(), re.MULTILINE)
)
CRASHES = {"host_reads_nothing"}
FUEL = 300_000
"""All scenarios end with it as with any more but those that never end."""
FULL, SAMPLE = 2, 3


def levels_of(name: str) -> tuple[int, ...]:
    """Return the levels of a scenario's calls: grids of many blocks are sampled, too."""
    return (FULL, SAMPLE) if name.startswith("many_blocks") else (FULL,)


@pytest.mark.evidence
@pytest.mark.parametrize("name", NAMES)
def test_no_scenario_upsets_the_sanitizers(driver: Path, name: str) -> None:
    for level in levels_of(name):
        ran = start(driver, name, level, 3, FUEL)
        assert name in CRASHES or ran.status in (0, FAULT_EXIT), ran.errors
