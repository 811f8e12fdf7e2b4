"""Every benchmark and every script can be imported: their names are those of today's product."""

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from record import ROOT

BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_can_be_imported(name: str) -> None:
    assert import_module(name).__doc__


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_can_be_imported(path: Path) -> None:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.__doc__
