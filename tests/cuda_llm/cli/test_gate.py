"""`cuda-llm gate` is green for a tie, and red for a kernel that got wrong, racy or slower."""

import json
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
    recording.write_text(before.replace('"nvcc": "', '"nvcc": "9'))
    assert "record again" in command("gate").complaint
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
    recording.unlink()
    beside = command("gate", "--against", "HEAD")
    assert beside.code == 1, beside.stderr
    assert "FAILED one: DATA_RACE" in beside.stdout and "FAILED two: PASSED" in beside.stdout
    assert "compared with commit HEAD" in beside.stdout
    assert "no such commit" in command("gate", "--against", "nowhere").complaint
