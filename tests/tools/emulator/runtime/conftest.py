"""Drivers: scenarios as programs with and without sanitizers."""

from pathlib import Path

import pytest
from runtime_driver import FLAGS, RUNTIME, WATCH, Ran, Run, drivers, start

from cuda_llm.tools.emulator.codegen.libraries import emulator_library
from cuda_llm.tools.native import build


@pytest.fixture(scope="session")
def plain_driver() -> Path:
    """The scenarios on the library that candidates run on."""
    library = emulator_library()
    link = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}"]
    return build("driver", drivers(), [*FLAGS, *link], WATCH)


@pytest.fixture(scope="session")
def sanitized_driver() -> Path:
    """The scenarios and the device in one program, under AddressSanitizer and UBSan."""
    sources = [*drivers(), *sorted((RUNTIME / "device").glob("*.cpp"))]
    return build(
        "driver-sanitized", sources, [*FLAGS, "-O0", "-g1", "-fsanitize=address,undefined"], WATCH
    )


@pytest.fixture
def run(plain_driver: Path) -> Run:
    """Runs a scenario: name, then level, seed and fuel."""

    def go(name: str, *, level: int = 0, seed: int = 0, fuel: int = 0, buffer: bytes = b"") -> Ran:
        return start(plain_driver, name, level, seed, fuel, buffer=buffer)

    return go
