"""`cuda-llm bench`: killed, stopped and gone on with; refused; what `--quick` leaves out."""

import json
import shlex
import signal
from pathlib import Path

import jsonschema
import pytest
from commands import Command
from model_server import Answer, ModelServer, Request, Say
from scripted_writer import KERNEL
from tiny_tasks import tiny_task

from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.cli.bench import make_quick
from cuda_llm.graph.benchmark.folder import find_benchmark
from cuda_llm.run_config import RunConfig

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/evaluate.schema.json").read_text())
BENCH_SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/schemas/bench.schema.json").read_text()
)


def test_what_cannot_be_is_refused_before_any_work(command: Command, tmp_path: Path) -> None:
    assert "no_such_task" in command("bench", "no_such_task").complaint
    twice = command("bench", "vector_add", "vector_add", "--device", "emulated")
    assert (twice.code, "two tasks are called vector_add" in twice.complaint) == (2, True)
    assert "there are none" in command("bench", "--resume", "latest").complaint
    assert command("bench", "--replay", "latest").code == 2
    (tmp_path / "bench.json").write_text('{"schema": 9}')
    newer = command("bench", "--resume", tmp_path)
    assert (newer.code, "expected schema 1" in newer.complaint) == (2, True)


def test_a_resumed_benchmark_takes_no_other_settings(command: Command) -> None:
    more = command("bench", "--resume", "latest", "--rounds", "2")
    assert (more.code, "leave out: rounds" in more.complaint) == (2, True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--seed", "1", "--sweep", "seed=1,2"), "--seed and --sweep seed=... exclude each other"),
        (("--sweep", "seed=0,x"), "--seed x: expected a whole number from 0"),
        (("--sweep", "strategy=fsr,greedy"), "unknown strategy 'greedy'"),
        (("--sweep", "candidats=1,2"), "did you mean candidates"),
        (("--strategy", "greedy"), "unknown strategy 'greedy'"),
        (("--preset", "papers"), "--preset papers: no such preset; did you mean paper?"),
        (("--resume", "latest", "--sweep", "seed=0,1"), "leave out: sweep"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_any_work(
    command: Command, tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    ran = command("bench", "vector_add", *options)
    assert (ran.code, complaint in ran.complaint) == (2, True), ran.stderr
    assert not list(tmp_path.iterdir())


def test_a_sweep_runs_every_combination_and_compares_them(command: Command, tmp_path: Path) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--quick", "--candidates", "1", "--device", "emulated", "--out", out)
    sweeps = ("--sweep", "seed=0,1", "--sweep", "strategy=best-of-n")
    ran = command("bench", task, *options, *sweeps, "--json")
    assert ran.code == 0, ran.stderr
    document = json.loads(ran.stdout)
    jsonschema.validate(document, BENCH_SCHEMA)
    assert list(document["sweep"]) == ["tiny-seed-0", "tiny-seed-1"]
    assert document["settings"]["strategy"] == "best-of-n"
    assert [one["setting"]["seed"] for one in document["comparison"]] == [0, 1]
    lines = [line for line in ran.stderr.splitlines() if line.startswith("runs: ")]
    assert lines == [
        "runs: 0 of 2 ended, 0 failed; running now: tiny-seed-0",
        "runs: 1 of 2 ended, 0 failed; running now: tiny-seed-1",
        "runs: 2 of 2 ended, 0 failed",
    ]
    again = command("bench", "--resume", "latest", "--out", out)
    assert again.code == 0 and "tiny (seed 1): " in again.stdout
    assert (
        "geometric mean" in again.stdout
        and "roofline" not in again.stdout
        and "runs: " not in again.stderr
    )


def test_a_sweep_killed_in_the_middle_finishes_the_rest_only_by_the_command_it_keeps(
    process: Command, command: Command, tmp_path: Path
) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--candidates", 1, "--rounds", 1, "--tune", 0, "--device", "emulated", "--out", out)
    ran = process(
        *("bench", task, *options, "--sweep", "hardware_context=full,none", "--sweep", "seed=0,1"),
        until=lambda: any(out.glob("*/runs/tiny-hardware_context-none-seed-0/events.jsonl")),
        send=signal.SIGKILL,
    )
    assert ran.code == -signal.SIGKILL, ran.stderr
    folder = find_benchmark("latest", out)
    before = {path.parent.name: path.read_bytes() for path in folder.runs.glob("*/events.jsonl")}
    done = {path.stem for path in (folder.path / "results").glob("*.json")}
    assert 2 <= len(done) < 4
    program, *again = shlex.split(folder.resume_command)
    assert program == "cuda-llm"
    ended = command(*again, "--json")
    assert ended.code == 0, ended.stderr
    assert all((folder.run(name).events.read_bytes() == before[name]) for name in done)
    document = json.loads(ended.stdout)
    jsonschema.validate(document, BENCH_SCHEMA)
    assert [one["state"] for one in document["rows"]] == ["done"] * 4
    assert document["settings"]["candidates"] == 1
    (pair,) = document["pairs"]
    assert (pair["option"], pair["value"], pair["reference"]) == (
        "hardware_context",
        "none",
        "full",
    )
    assert (pair["pairs"], pair["ratio"], pair["finding"]) == (2, 1.0, "tie"), "no prompt is read"


def write_kernel(request: Request) -> Answer:
    """What a model says that always writes the same right kernel."""
    if PROBE in request.prompt:
        return Say("ready")
    if "response_format" in request.body:
        return Say('{"bottleneck": "memory", "change": "wider loads", "reason": "bytes"}')
    return Say(f"```cuda\n{KERNEL % {'each': 4, 'fault': ''}}\n```")


def test_a_model_stands_beside_the_playbook_with_what_it_cost(
    command: Command, tmp_path: Path
) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--candidates", 2, "--rounds", 1, "--tune", 0, "--device", "emulated", "--out", out)
    with ModelServer(write_kernel) as server:
        ran = command(
            *("bench", task, *options, "--sweep", "generator=playbook,llm", "--json"),
            *("--model", "scripted", "--base-url", server.base_url),
        )
        assert ran.code == 0, ran.stderr
        asked = len(server.requests)
    document = json.loads(ran.stdout)
    jsonschema.validate(document, BENCH_SCHEMA)
    playbook, model = document["rows"]
    assert (playbook["written_by"], model["written_by"]) == ("playbook", "model")
    assert 0 == playbook["model_calls"] < model["model_calls"] == asked
    assert (model["first_round_passed"], model["first_round_evaluations"]) == (1, 2), "one repeats"
    ours, theirs = document["comparison"]
    assert theirs["setting"] == {"generator": "llm"}
    assert theirs["totals"]["input_tokens"] == model["input_tokens"] > 0
    assert theirs["totals"]["stages"]["model"] > 0 == ours["totals"]["stages"]["model"]
    (pair,) = document["pairs"]
    ratio = model["speedup"] / playbook["speedup"]
    assert (pair["value"], pair["ratio"]) == ("llm", pytest.approx(ratio))
    (table,) = out.glob("*/table.md")
    tasks = table.read_text().partition("## Tasks")[2].partition("##")[0].splitlines()
    (row,) = (line for line in tasks if line.startswith("| tiny | llm |"))
    (mean,) = (line for line in tasks if line.startswith("| geometric mean of 1, modelled | llm |"))
    assert all(f" | – | {ratio:.2f}x | " in line for line in (row, mean)), "no library, a playbook"


def test_models_are_compared_at_one_endpoint(command: Command, tmp_path: Path) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--candidates", 1, "--rounds", 1, "--tune", 0, "--device", "emulated", "--out", out)
    with ModelServer(write_kernel, model="strong", more_models=("weak",)) as server:
        ran = command(
            *("bench", task, *options, "--generator", "llm", "--sweep", "model=strong,weak"),
            *("--base-url", server.base_url, "--json"),
        )
        assert ran.code == 0, ran.stderr
        asked = {one.body["model"] for one in server.requests}
    assert asked == {"strong", "weak"}
    document = json.loads(ran.stdout)
    assert [row["setting"] for row in document["rows"]] == [{"model": "strong"}, {"model": "weak"}]
    (pair,) = document["pairs"]
    assert (pair["value"], pair["ratio"]) == ("weak", 1.0)


def test_a_finished_benchmark_is_computed_again_from_its_runs_without_a_device(
    command: Command, tmp_path: Path
) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--quick", "--candidates", "1", "--device", "emulated", "--out", out)
    first = command("bench", task, *options, "--json")
    assert first.code == 0, first.stderr
    there = out.rename(tmp_path / "elsewhere")
    (stored,) = there.glob("*/results/tiny.json")
    row = json.loads(stored.read_text())
    stored.write_text(json.dumps({**row, "speedup": 99.0, "usd": 7.0, "limiters": []}))
    plan = stored.parents[1] / "bench.json"
    plan.write_text(plan.read_text().replace('"device": "emulated"', '"device": "cuda:7"'))
    again = command("bench", "--resume", "latest", "--out", there, "--json", CUDA_LLM_NVCC="/gone")
    assert again.code == 0, again.stderr
    (before,), (after,) = (json.loads(one.stdout)["rows"] for one in (first, again))
    assert after == {**before, "run": str(stored.parents[1] / "runs/tiny")}


def test_a_benchmark_of_the_playbook_stands_beside_another(
    command: Command, tmp_path: Path
) -> None:
    task, first, second = tiny_task(tmp_path, "tiny"), tmp_path / "first", tmp_path / "second"
    options = ("--candidates", "1", "--rounds", "1", "--tune", "0", "--device", "emulated")
    assert command("bench", task, *options, "--out", first).code == 0
    (playbook,) = first.iterdir()
    ran = command("bench", task, *options, "--out", second, "--beside", playbook, "--json")
    assert ran.code == 0, ran.stderr
    document = json.loads(ran.stdout)
    jsonschema.validate(document, BENCH_SCHEMA)
    assert document["rows"][0]["over_playbook"] == 1.0, "the same search"
    assert document["aggregates"][0]["over_playbook"]["geometric_mean"] == pytest.approx(1.0)
    again = command("bench", "--resume", playbook, "--beside", document["folder"])
    assert again.code == 0 and "over the playbook" in again.stdout
    plan = playbook / "bench.json"
    plan.write_text(
        plan.read_text().replace('"time_source": "modelled"', '"time_source": "measured"')
    )
    other = command("bench", "--resume", "latest", "--out", second, "--beside", playbook)
    assert (other.code, "do not stand beside each other" in other.complaint) == (2, True)


def test_presets_are_shown_with_their_question_and_their_command(command: Command) -> None:
    ran = command("bench", "--preset", "list")
    assert ran.code == 0 and "hardware-context: Does it matter" in ran.stdout
    assert "bench matrix_transpose --sweep hardware_context=full,name,none" in ran.stdout
    assert "paper" in json.loads(command("bench", "--preset", "list", "--json").stdout)


def test_the_command_line_goes_over_a_preset(command: Command, tmp_path: Path) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--candidates", "1", "--rounds", "1", "--sweep", "hardware_context=full,none")
    ran = command(
        *("bench", task, "--preset", "hardware-context", *options, "--seed", "3"),
        *("--device", "emulated", "--out", out, "--json"),
    )
    assert ran.code == 0, ran.stderr
    document = json.loads(ran.stdout)
    jsonschema.validate(document, BENCH_SCHEMA)
    assert document["preset"] == "hardware-context"
    assert list(document["sweep"].values()) == [
        {"hardware_context": "full"},
        {"hardware_context": "none"},
    ]
    assert (document["settings"]["seed"], document["settings"]["tune"]) == (3, 0)


def test_quick_goes_over_a_preset(command: Command, tmp_path: Path) -> None:
    task, out = tiny_task(tmp_path, "tiny"), tmp_path / "out"
    options = ("--quick", "--device", "emulated", "--out", out, "--json")
    ran = command("bench", task, "--preset", "vector-add", *options)
    assert ran.code == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert (document["settings"]["candidates"], document["settings"]["rounds"]) == (2, 1)
    assert document["left_out"].startswith("candidates 2, rounds 1, tune 0")


def test_quick_says_what_it_leaves_out_and_gives_way_to_what_is_typed() -> None:
    quick, left_out = make_quick(RunConfig(candidates=5))
    assert (quick.candidates, quick.rounds, quick.tune) == (5, 1, 0)
    assert left_out.startswith("rounds 1, tune 0, where rounds 5, tune 8 is usual")


def test_evaluate_says_where_the_published_check_would_accept(
    command: Command, tmp_path: Path
) -> None:
    task, kernel = tiny_task(tmp_path, "tiny"), tmp_path / "nan.cu"
    baseline = (task / "baseline.cu").read_text()
    kernel.write_text(baseline.replace("A[i] + B[i]", 'nanf("")'))
    ran = command("evaluate", task, kernel, "--device", "emulated")
    assert (ran.code, "WRONG_RESULT" in ran.stdout) == (1, True), ran.stderr
    assert "published    the check that is published with the task accepts" in ran.stdout
    document = json.loads(
        command("evaluate", task, kernel, "--device", "emulated", "--json").stdout
    )
    jsonschema.validate(document, SCHEMA)
    assert document["results"][0]["published_check"]["accepts"]
