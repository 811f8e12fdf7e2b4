"""The scenarios of the runtime as a program."""

from pathlib import Path

import pytest
from corpus_sample import is_whole
from runtime_driver import FLAGS, RUNTIME, SANITIZED, WATCH, Ran, Run, drivers, start

from cuda_llm.tools.emulator.codegen.libraries import emulator_library
from cuda_llm.tools.native import build


@pytest.fixture(scope="session")
def driver() -> Path:
    """The scenarios on the library that candidates run on.

    In `make evidence` they and the device are one program under AddressSanitizer and UBSan, which
    takes two minutes of a core to build. `make test` has the runner of GPUs under them.
    """
    if is_whole():
        sources = [*drivers(), *sorted((RUNTIME / "device").glob("*.cpp"))]
        return build("driver-sanitized", sources, SANITIZED, WATCH)
    library = emulator_library()
    link = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}"]
    return build("driver", drivers(), [*FLAGS, *link], WATCH)


@pytest.fixture
def run(driver: Path) -> Run:
    """Runs a scenario: name, then level, seed and fuel."""

    def go(name: str, *, level: int = 0, seed: int = 0, fuel: int = 0, buffer: bytes = b"") -> Ran:
        return start(driver, name, level, seed, fuel, buffer=buffer)

    return go
