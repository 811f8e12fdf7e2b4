"""Native parts are built once and whole, however many processes ask at the same time."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from cuda_llm.errors import InfrastructureError, MissingError
from cuda_llm.tools.native import build, content_key, find_gxx
from cuda_llm.tools.native.build import BATCHES, LEAST_BATCH_BYTES


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with a program and its header."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "answer.h").write_text("#define ANSWER 3\n")
    (folder / "main.cpp").write_text('#include "answer.h"\nint main() { return ANSWER; }\n')
    return folder


def answer(program: Path) -> int:
    return subprocess.run([program], check=False).returncode


def test_a_program_is_built_once_for_each_content(sources: Path) -> None:
    main = [sources / "main.cpp"]
    first = build("answer", main, [], sources)
    changed_at = first.stat().st_mtime_ns

    assert answer(first) == 3
    assert build("answer", main, [], sources) == first
    assert first.stat().st_mtime_ns == changed_at

    (sources / "answer.h").write_text("#define ANSWER 4\n")
    second = build("answer", main, [], [sources])
    assert second != first
    assert answer(second) == 4


def write_many(folder: Path, header: str) -> list[Path]:
    """Sources enough to be compiled several at once, each of which includes the header."""
    parts = []
    for number in range(BATCHES):
        part = folder / f"part{number}.cpp"
        code = f"#include <{header}>\nint part{number}() {{ return {number}; }}\n"
        part.write_text(code + "//".ljust(LEAST_BATCH_BYTES) + "\n")
        parts.append(part)
    text = "int part3();\nint main() { return part3(); }\n"
    (folder / "main.cpp").write_text(text)
    return [*parts, folder / "main.cpp"]


def test_a_part_of_many_sources_works_and_leaves_nothing_else(
    sources: Path, own_cache: Path
) -> None:
    assert answer(build("many", write_many(sources, "vector"), [], sources)) == 3
    assert {path.name for path in own_cache.glob("native/*/*/*")} == {"many", "manifest.json"}


def test_a_header_that_is_missing_is_told_of_a_source_that_names_it(sources: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"part\d\.cpp:1:.*nonesuch"):
        build("many", write_many(sources, "nonesuch"), [], sources)


SCRIPT = """
import sys
from pathlib import Path
from cuda_llm.tools.native import build
folder = Path(sys.argv[1])
print(build("answer", [folder / "main.cpp"], [], folder))
"""


def test_several_processes_may_build_at_once(sources: Path, own_cache: Path) -> None:
    command: Sequence[str] = [sys.executable, "-c", SCRIPT, str(sources)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    paths = {process.communicate()[0].strip() for process in running}

    assert len(paths) == 1
    assert answer(Path(paths.pop())) == 3
    assert {path.name for path in own_cache.glob("native/*/*/*")} == {"answer", "manifest.json"}


def test_an_interrupt_leaves_no_compiler(sources: Path, slow_program: str) -> None:
    """g++ is a driver: what computes is a child of it."""
    (sources / "main.cpp").write_text(slow_program)
    command = [sys.executable, "-c", SCRIPT, str(sources)]

    def compilers() -> list[str]:
        found = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
        mine = [line for line in found if line and str(sources / "main.cpp") in line]
        return [line[0] for line in mine if "cc1plus" in line[0]]

    running = subprocess.Popen(
        command,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not compilers() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert compilers()
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=240) != 0
    assert compilers() == []


def test_a_failure_is_one_line_with_the_first_error(sources: Path) -> None:
    (sources / "main.cpp").write_text("\nint main() { return undefined; }\nint x = other;\n")

    with pytest.raises(InfrastructureError) as raised:
        build("answer", [sources / "main.cpp"], [], sources)
    assert "answer does not build" in str(raised.value)
    assert "main.cpp:2" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_compiler_is_reported_with_how_to_install_it(
    sources: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingError, match=r"g\+\+ is missing; install it: apt-get install"):
        build("answer", [sources / "main.cpp"], [], sources)


def test_native_code_is_keyed_by_the_cpu() -> None:
    plain = content_key(find_gxx(), ["-O2"]).hexdigest()
    native = content_key(find_gxx(), ["-march=native"]).hexdigest()

    assert plain == content_key(find_gxx(), ["-O2"]).hexdigest()
    assert native != plain
