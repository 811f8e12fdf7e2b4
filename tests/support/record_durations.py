"""Writes `tests/durations.json` from what pytest measured.

    .venv/bin/pytest -n logical --junit-xml=build/all.xml
    .venv/bin/python tests/support/record_durations.py build/all.xml
    .venv/bin/pytest -n logical --junit-xml=build/quick.xml -m "not slow"
    .venv/bin/python tests/support/record_durations.py build/all.xml build/quick.xml

A function is slow where one of its tests took `SLOW_S` or more. The second run leaves those out:
a quick test that takes `SHARED_S` there made what the tests of its file share, and a slow one had
made it in the first run. Then all functions of that file are slow.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from shards import RECORD, file_of, without_parameters

SLOW_S = 1.0
SHARED_S = 3.0


def seconds_of(report: Path) -> dict[str, list[float]]:
    """Return what the tests of each function took, by node ids without parameters."""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        function = without_parameters(case.attrib["name"])
        taken[f"{file}::{function}"].append(float(case.attrib["time"]))
    return dict(taken)


def slow_functions(reports: Sequence[Path]) -> dict[str, float]:
    """Return the seconds of each slow function, all its parameters together, of its longest run."""
    every, *quick = map(seconds_of, reports)
    slow = {function for function, seconds in every.items() if max(seconds) >= SLOW_S}
    sharing = {
        file_of(function)
        for report in quick
        for function, seconds in report.items()
        if function not in slow and max(seconds) >= SHARED_S
    }
    slow |= {function for function in every if file_of(function) in sharing}
    return {
        function: round(max(sum(one.get(function, [])) for one in (every, *quick)), 1)
        for function in sorted(slow)
    }


if __name__ == "__main__":
    found = slow_functions([Path(report) for report in sys.argv[1:]])
    RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
