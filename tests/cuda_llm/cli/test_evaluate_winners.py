"""`cuda-llm evaluate --from-run`: a run's kernels on other devices and by another nvcc."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from commands import Command
from tiny_tasks import tiny_task

from cuda_llm.graph.benchmark.folder import find_benchmark
from cuda_llm.graph.runs.elsewhere import JudgedElsewhere, KernelElsewhere, find_contenders
from cuda_llm.tools.compiler.nvcc import find_toolkit

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/elsewhere.schema.json").read_text())
DEVICES = ("--device", "emulated:RTX 3090 Ti", "--device", "emulated:RTX 4090")


def standing(*speedups: float | None, spread: float = 0.0) -> JudgedElsewhere:
    kernels = (
        KernelElsewhere(id=f"r1-c{number}", code="PASSED", speedup=one, spread=spread)
        for number, one in enumerate(speedups, start=1)
    )
    return JudgedElsewhere(
        task="task",
        run="run",
        device="emulated",
        hardware="GPU",
        time_source="modelled",
        nvcc="13.0",
        kernels=tuple(kernels),
    )


@pytest.mark.parametrize(
    ("speedups", "spread", "expected"),
    [
        ((3.0, 2.0, 1.0), 0.0, "fastest"),
        ((2.0, 3.0, None), 0.0, "slower"),
        ((2.0, 2.02, 1.0), 0.0, "tie"),
        ((2.0, 2.2, 1.0), 0.1, "tie"),
        ((None, 2.0, 1.0), 0.0, "wrong"),
        ((2.0, None, None), 0.0, "fastest"),
        ((2.0,), 0.0, "fastest"),
    ],
)
def test_a_winner_is_fastest_beyond_what_equal_kernels_may_differ_by(
    speedups: tuple[float | None, ...], spread: float, expected: str
) -> None:
    assert standing(*speedups, spread=spread).standing == expected


def test_the_winners_of_a_benchmark_are_judged_on_each_device_by_each_nvcc(
    command: Command, tmp_path: Path
) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--candidates", "2", "--rounds", "1", "--tune", "0", "--device", "emulated")
    ran = command("bench", task, *options, "--out", out, "--json")
    assert ran.code == 0, ran.stderr
    folder = find_benchmark("latest", out)
    other = tmp_path / "other" / "nvcc"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec "{find_toolkit().nvcc}" "$@"\n')
    other.chmod(0o755)

    told = command("evaluate", "--from-run", folder.path, *DEVICES, "--nvcc", other, "--json")
    assert told.code == 0, told.stderr
    document = json.loads(told.stdout)
    jsonschema.validate(document, SCHEMA)
    assert [one["device"][-4:] for one in document["judged"]] == ["0 Ti", "4090"]
    (run,) = document["runs"]
    (row,) = json.loads(ran.stdout)["rows"]
    first = document["judged"][0]["kernels"][0]
    assert (first["id"], first["code"], first["speedup"]) == (row["best"], "PASSED", row["speedup"])
    assert next(iter(run["kernels"])) == row["best"]

    again = command("evaluate", "--from-run", folder.run("tiny").path, *DEVICES)
    assert again.code == 0, again.stderr
    assert "compiling" not in again.stderr, "both were judged, and the folder has them"
    assert again.stdout.count("PASSED") == 2 and "emulated RTX 4090" in again.stdout
    assert "the winner passes in 2 of 2" in again.stdout


def test_an_interrupted_judging_goes_on_with_what_is_left(
    command: Command, process: Command, tmp_path: Path
) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--candidates", "1", "--rounds", "1", "--tune", "0", "--device", "emulated")
    assert command("run", task, *options, "--out", out).code == 0
    (run,) = out.glob("*")
    stopped = process(
        *("evaluate", "--from-run", run, *DEVICES),
        until=lambda: any(run.glob("elsewhere/*.json")),
    )
    assert stopped.code == 130, stopped.stderr
    assert "interrupted: 1 of 2 are left; the same command goes on" in stopped.complaint
    (first,) = run.glob("elsewhere/*.json")
    before = first.stat().st_mtime_ns
    again = command("evaluate", "--from-run", run, *DEVICES)
    assert again.code == 0, again.stderr
    assert again.stdout.count("PASSED") == 2 and again.stderr.count("compiling") == 1
    assert first.stat().st_mtime_ns == before


def test_a_kernel_that_is_damaged_since_does_not_pass_elsewhere(
    command: Command, tmp_path: Path
) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--candidates", "1", "--rounds", "1", "--tune", "0", "--device", "emulated")
    assert command("run", task, *options, "--out", out).code == 0
    (run,) = out.glob("*")
    (kernel,) = find_contenders_sources(run)
    baseline = (task / "baseline.cu").read_text()
    kernel.write_text(baseline.replace("A[i] + B[i]", "A[i] - B[i]"))
    told = command("evaluate", "--from-run", run, "--device", "emulated", "--json")
    assert told.code == 1, told.stdout
    (found,) = json.loads(told.stdout)["judged"]
    assert found["standing"] == "wrong" and found["kernels"][0]["speedup"] is None
    shutil.rmtree(run / "elsewhere")


def find_contenders_sources(run: Path) -> list[Path]:
    from cuda_llm.traces.run_folder import RunFolder

    folder = RunFolder(run)
    return [folder.candidate(one.id) / "source.cu" for one in find_contenders(folder).kernels]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "expected TASK and files, or --from-run RUN"),
        (("vector_add",), "expected TASK and files, or --from-run RUN"),
        (("vector_add", "a.cu", "--device", "emulated", "--device", "cuda:0"), "more than one"),
        (("--from-run", "latest", "--strict"), "leave out: --strict"),
        (("vector_add", "a.cu", "--from-run", "latest"), "leave out: TASK, FILES"),
        (("--from-run", "nothing"), "no run 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_told_before_any_work(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "a.cu").write_text("")
    told = command("evaluate", *arguments)
    assert (told.code, complaint in told.complaint) == (2, True), told.stderr


def test_an_nvcc_that_is_none_is_told_before_any_work(command: Command, tmp_path: Path) -> None:
    run = shutil.copytree(
        Path(__file__).parents[3] / "traces/examples/reduction-playbook", tmp_path / "run"
    )
    told = command("evaluate", "--from-run", run, "--device", "emulated", "--nvcc", "/gone/nvcc")
    assert (told.code, "--nvcc /gone/nvcc: no such program" in told.complaint) == (2, True)
