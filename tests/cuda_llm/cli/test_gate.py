"""`cuda-llm gate` is green for a tie, and red for a kernel that got wrong, racy or slower."""

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from commands import Command
from tiny_tasks import tiny_task

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/gate.schema.json").read_text())
ADD = "C[i] = A[i] + B[i];"
RACY = f"__shared__ int last; last = i; {ADD} if (last < 0) C[i] = 0;"
DEARER = """float sum = A[i];
        for (int k = 0; k < 40; ++k) sum = __fadd_rn(sum, float(n < 0));
        C[i] = sum + B[i];"""


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(("git", *who, *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two kernels in a git repository, committed."""
    baseline = (tiny_task(tmp_path, "tiny") / "baseline.cu").read_text()
    assert ADD in baseline
    text = ""
    for name in ("one", "two"):
        (tmp_path / f"{name}.cu").write_text(baseline)
        text += f'[kernel.{name}]\nfile = "{name}.cu"\ntask = "tiny"\nsizes = ["n=1024"]\n'
    (tmp_path / "kernels.toml").write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def edit(folder: Path, name: str, body: str) -> None:
    path = folder / f"{name}.cu"
    path.write_text(path.read_text().replace(ADD, body))


def test_a_tie_passes_and_a_racy_and_a_dearer_kernel_fail(
    command: Command, repository: Path
) -> None:
    assert "first: gate --record" in command("gate").complaint
    recorded = command("gate", "--record")
    assert recorded.code == 0, recorded.stderr
    recording = repository / "kernels.gate.json"
    before = recording.read_text()
    for damaged, complaint in (
        (before.replace('"nvcc": "', '"nvcc": "9'), "record again"),
        (re.sub('"speedup": [^,]+', '"speedup": 0', before), "a number above 0"),
        (f"<<<<<<< HEAD\n{before}", "merge conflict"),
        (before[:-9], "is not JSON"),
    ):
        recording.write_text(damaged)
        assert complaint in command("gate").complaint
    recording.write_text(before)

    edit(repository, "one", f"/* as it was */ {ADD}")
    edit(repository, "two", DEARER)
    gated = command("gate", "--json", "--junit", "gate.xml", "--markdown", "gate.md")
    assert gated.code == 1, gated.stderr
    document = json.loads(gated.stdout)
    jsonschema.validate(document, SCHEMA)
    one, two = document["kernels"]
    assert (one["failures"], one["change"], one["ratio"]) == ([], "tie", 1.0)
    assert "warp_instructions" in {each.get("name") for each in two["failures"]}
    assert recording.read_text() == before
    assert "1 of 2 kernels pass" in (repository / "gate.md").read_text()
    cases = ElementTree.parse("gate.xml").findall(".//testcase")
    assert [case.find("failure") is None for case in cases] == [True, False]

    edit(repository, "one", RACY)
    again = command("gate", "--record")
    assert again.code == 1 and f"recorded in {recording.name}" in again.stdout
    kept = json.loads(recording.read_text())["devices"]["emulated RTX 3090 Ti"]["kernels"]
    old = json.loads(before)["devices"]["emulated RTX 3090 Ti"]["kernels"]
    assert kept["one"] == old["one"] and kept["two"] != old["two"]
    recording.unlink()
    beside = command("gate", "--against", "HEAD")
    assert beside.code == 1, beside.stderr
    assert [line[:17] for line in beside.stdout.splitlines() if line[0] != " "] == [
        "FAILED one: DATA_",
        "FAILED two: PASSE",
        "0 of 2 kernels pa",
    ]
    assert "compared with commit HEAD" in beside.stdout
    assert "no such commit" in command("gate", "--against", "nowhere").complaint
