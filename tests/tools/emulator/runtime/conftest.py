"""The scenarios of the runtime as one program under AddressSanitizer and UBSan."""

from pathlib import Path

import pytest
from runtime_driver import RUNTIME, SANITIZED, WATCH, Ran, Run, drivers, start

from cuda_llm.tools.native import build


@pytest.fixture(scope="session")
def driver() -> Path:
    """The scenarios and the device, which takes a minute to build."""
    sources = [*drivers(), *sorted((RUNTIME / "device").glob("*.cpp"))]
    return build("driver", sources, SANITIZED, WATCH)


@pytest.fixture
def run(driver: Path) -> Run:
    """Runs a scenario: name, then level, seed and fuel."""

    def go(name: str, *, level: int = 0, seed: int = 0, fuel: int = 0, buffer: bytes = b"") -> Ran:
        return start(driver, name, level, seed, fuel, buffer=buffer)

    return go
