"""The whole command against a model that writes every kind of kernel at an endpoint that fails.

What must come out: the right winner, every verdict, no request too many, all of it in the events.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from model_server import Answer, Busy, ModelServer, Raw, Say
from scripted_kernels import (
    BEST,
    CHEATING,
    CRASHING,
    GOOD,
    HANGING,
    NOT_COMPILING,
    SLOW,
    WRONG,
    ScriptedModel,
    fenced,
    truncated,
    without_layout,
)
from tiny_tasks import tiny_task

from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AttemptJudged, ModelCalled, ModelRetried
from cuda_llm.traces.run_folder import RunFolder

TRIES = 4
TRY_S = 12.0

MISDECLARED = f"#define LANES 32  // tunable: 8 16\n{SLOW}"

FIRST_ROUND: list[list[Answer]] = [
    [Busy(429, retry_after="1"), Say(fenced(GOOD))],
    [Busy(500), Say(fenced(MISDECLARED))],
    [Say(fenced(WRONG), cut="broken"), Say(fenced(WRONG))],
    [Say(fenced(NOT_COMPILING), reasoning="is there such a function?")],
    [Raw(b"<html>gateway</html>"), Say(fenced(HANGING))],
    [Say(fenced(CRASHING), wait_s=3 * TRY_S), Say(fenced(CRASHING))],
    [Say(fenced(CHEATING))],
    [truncated(BEST)],
    [Say("")],
    [Busy(503)],
]
AGAIN: list[Answer] = [Say(fenced(GOOD))]
SECOND_ROUND: list[list[Answer]] = [[Say(fenced(BEST))], *[AGAIN] * 9]

REQUESTS = [2, 2, 2, 1, 2, 2, 1, 1, 1, TRIES, *[1] * 10]
"""By prompt, in order of arrival."""

FIRST_CODES = {
    "PASSED": 2,
    "WRONG_RESULT": 1,
    "COMPILE_FAILED": 1,
    "TIMED_OUT": 1,
    "HOST_CRASHED": 1,
    "POLICY_VIOLATION": 1,
    "NO_CODE": 3,
}
KEY = "sk-4f1d-which-nobody-may-read-in-a-run"
SECOND_CODES = {"PASSED": 1, "DUPLICATE": 9}


def test_a_run_with_a_failing_model_ends_with_the_right_winner(tmp_path: Path) -> None:
    model = ScriptedModel([*FIRST_ROUND, *SECOND_ROUND])
    with ModelServer(model, key=KEY) as server:
        done = run(tmp_path, server)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    folder = RunFolder(Path(result["run_dir"]))

    first, second = ([one["code"] for one in part["candidates"]] for part in result["rounds"])
    assert Counter(first) == FIRST_CODES
    assert Counter(second) == SECOND_CODES

    prompts = [(folder.candidate(f"r2-c{n}") / "prompt.md").read_text() for n in range(1, 11)]
    assert all("the default 32 of LANES is not among its values" in text for text in prompts)

    best = result["best"]
    assert best["written_by"] == "model"
    kept = without_layout(folder.source(best["candidate"]))
    assert kept == without_layout(BEST)
    assert best["speedup"] > 1.2

    assert model.counts == REQUESTS
    assert model.probes == 1
    assert len(server.requests) == sum(REQUESTS) + 1 + model.critiques

    events = [recorded.event for recorded in read_events(folder.events)]
    judged = [event.attempt for event in events if isinstance(event, AttemptJudged)]
    assert Counter(attempt.code for attempt in judged) == Counter(first) + Counter(second)
    calls = [event for event in events if isinstance(event, ModelCalled)]
    assert Counter(call.outcome for call in calls if call.agent == "generator") == {
        "ok": 19,
        "server_error": 1,
    }
    assert result["usage"]["model_calls"] == sum(call.outcome == "ok" for call in calls)
    retried = [event.reason for event in events if isinstance(event, ModelRetried)]
    assert Counter(reason.split(":")[0] for reason in retried) == {
        "rate_limited": 1,
        "server_error": 1 + (TRIES - 1),
        "cut_off": 1,
        "not_json": 1,
        "timed_out": 1,
    }
    assert sum(call.lost_tries for call in calls) == 3

    kept_files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(kept_files) > 50
    assert not any(KEY.encode() in text for text in kept_files)
    assert KEY not in done.stdout + done.stderr


def run(folder: Path, server: ModelServer) -> "subprocess.CompletedProcess[str]":
    """`cuda-llm run` as a user of this server would start it."""
    options = ["--device", "emulated", "--candidates", "10", "--rounds", "2", "--tune", "0"]
    environment = {
        **os.environ,
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": server.base_url,
        "CUDA_LLM_MODEL_TRY_S": str(TRY_S),
        "CUDA_LLM_MODEL_TRIES": str(TRIES),
        "CUDA_LLM_CALL_LIMIT_S": "2",
    }
    task = tiny_task(folder, "matrix_transpose", of="matrix_transpose")
    command = [sys.executable, "-P", "-m", "cuda_llm", "run", str(task), *options]
    return subprocess.run(
        [*command, "--model", "scripted", "--out", str(folder / "runs"), "--json"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
