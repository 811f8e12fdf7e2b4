"""A run's folder holds whole files, whenever the process dies, and reads back what was written."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_run import ATTEMPTS, ERROR_HINT, HINT, REMEDY, SOURCE, passed

from cuda_llm.conversation import Call, CallStore, Message, Reply, Usage
from cuda_llm.errors import UnusableFile, UsageError
from cuda_llm.outcomes import CompileFailed, NoCode, Passed, TimedOut, Verdict
from cuda_llm.search import Archive, Draft, Hint
from cuda_llm.traces.run_folder import RunFolder

REPLY = Reply(text="```cuda\r\nint x;\n```", reasoning="hm", usage=Usage(output_tokens=3, usd=0.5))


def archive_of(run: RunFolder) -> Archive:
    """Checked by the type checker: a run's folder is an Archive."""
    return run


def store_of(run: RunFolder) -> CallStore:
    """Checked by the type checker: a run's folder is a Vault."""
    return run


def test_every_part_of_a_candidate_reads_back_as_it_was_written(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "a-run")
    run.write_brief(REMEDY)
    run.write_draft("r2-c1", Draft(source=SOURCE, idea="tiles", tunables={"TILE": 32}))
    run.write_attempt(ATTEMPTS[0])
    run.write_build_log("r2-c1", ["a warning"])
    assert run.brief("r2-c1") == REMEDY
    assert run.draft("r2-c1") == Draft(source=SOURCE, idea="tiles", tunables={"TILE": 32})
    assert run.attempt("r1-c1") == ATTEMPTS[0]
    assert archive_of(run).source("r2-c1") == SOURCE
    assert (run.candidate("r2-c1") / "build.log").read_text() == "a warning\n"


def test_hints_get_ids_by_round_and_a_file_each(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    later = replace(HINT, round=2)
    kept = run.keep_hints([HINT, ERROR_HINT, later])
    assert [one.id for one in kept] == ["r1-h1", "r1-h2", "r2-h1"]
    assert kept == (HINT, ERROR_HINT, later)
    assert sorted(one.name for one in (tmp_path / "hints").iterdir()) == [
        *("r1-h1.json", "r1-h2.json", "r2-h1.json"),
    ]
    assert run.hint("r1-h2") == ERROR_HINT
    assert run.hint("r9-h9") is None


def test_the_same_hint_keeps_its_id_also_in_a_later_process(tmp_path: Path) -> None:
    """A step that a kill interrupted is repeated: what it had kept is not kept twice."""
    RunFolder(tmp_path).keep_hints([HINT])
    again = RunFolder(tmp_path).keep_hints([ERROR_HINT, HINT])
    assert [one.id for one in again] == ["r1-h2", "r1-h1"]


def test_a_hint_that_was_changed_is_another_one_whatever_id_it_brings(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    (kept,) = run.keep_hints([HINT])
    (changed,) = run.keep_hints([replace(kept, text="Another text.")])
    assert (kept.id, changed.id) == ("r1-h1", "r1-h2")
    (strange,) = run.keep_hints([replace(ERROR_HINT, id="../../elsewhere")])
    assert strange.id == "r1-h3"


def test_a_brief_names_its_hints_and_reads_back_with_them(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_brief(REMEDY)
    written = json.loads((run.candidate(REMEDY.id) / "brief.json").read_text())
    assert written["error_hints"] == ["r1-h1"]
    assert RunFolder(tmp_path).brief(REMEDY.id) == REMEDY
    (tmp_path / "hints/r1-h1.json").unlink()
    with pytest.raises(UsageError, match=r"hints/r1-h1\.json: gone; restore it"):
        RunFolder(tmp_path).brief(REMEDY.id)


def test_a_source_that_is_not_the_one_answered_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "a-run")
    run.write_draft("r2-c1", Draft(source=SOURCE))
    (run.candidate("r2-c1") / "source.cu").write_text(SOURCE + " ")
    with pytest.raises(UsageError, match="not the source that was judged; restore it"):
        run.draft("r2-c1")


@pytest.mark.parametrize(
    "verdict",
    [
        passed(2.5),
        Passed(notes=("a note",)),
        CompileFailed(compiler_output="no"),
        TimedOut(stage="kernel", limit_s=float("inf")),
    ],
    ids=lambda verdict: verdict.code,
)
def test_a_verdict_reads_back_with_its_profile(tmp_path: Path, verdict: Verdict) -> None:
    run = RunFolder(tmp_path)
    run.write_verdict("r1-c1", verdict)
    assert archive_of(run).verdict("r1-c1") == verdict


def test_an_older_profile_is_not_taken_for_that_of_a_later_verdict(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for verdict in (passed(2.5), CompileFailed(compiler_output="no"), Passed()):
        run.write_verdict("r1-c1", verdict)
        assert run.verdict("r1-c1") == verdict


def test_what_is_not_there_yet_is_none(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "a-run")
    assert run.brief("r1-c1") is None
    assert run.draft("r1-c1") is None
    assert run.attempt("r1-c1") is None
    assert run.kept_verdict("r1-c1") is None
    assert store_of(run).load_reply("candidates/r1-c1") is None
    assert run.source("r1-c1") == ""
    assert run.candidates() == ()
    with pytest.raises(KeyError):
        run.verdict("r1-c1")


def test_a_reply_without_a_kernel_reads_back(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    answer = NoCode(message="cut off", kind="truncated")
    run.write_draft("r1-c1", answer)
    assert run.draft("r1-c1") == answer


def test_candidates_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for name in ("r1-c10", "r1-c9", "r10-c1", "r2-t1", "baseline"):
        run.write_source(name, SOURCE)
    assert run.candidates() == ("baseline", "r1-c9", "r1-c10", "r2-t1", "r10-c1")


@given(text=st.text(st.characters(codec="utf-8")))
def test_a_source_keeps_every_character_and_its_sum(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    import hashlib

    run = RunFolder(tmp_path_factory.mktemp("run"))
    assert run.write_source("r1-c1", text) == hashlib.sha256(text.encode()).hexdigest()
    assert run.source("r1-c1") == text


def test_half_a_surrogate_pair_in_a_reply_breaks_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_reply("candidates/r1-c1", Reply(text="a\ud83db"))
    reply = run.load_reply("candidates/r1-c1")
    assert reply is not None
    assert reply.text == "a?b"


def test_a_call_that_never_ended_shows_as_a_prompt_without_a_reply(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    messages = (Message(role="system", text="Write CUDA."), Message(role="user", text="Sum."))
    run.write_prompt(Call(id="rounds/2/critique", agent="reflection", messages=messages))
    assert "## user\n\nSum." in (tmp_path / "rounds/2/critique/prompt.md").read_text()
    assert run.load_reply("rounds/2/critique") is None
    run.write_reply("rounds/2/critique", REPLY)
    assert run.load_reply("rounds/2/critique") == REPLY


def test_a_reply_counts_as_soon_as_it_is_on_disk(tmp_path: Path) -> None:
    """Killed between the two files: reply.md is for people, reply.json decides."""
    run = RunFolder(tmp_path)
    run.write_reply("candidates/r1-c1", REPLY)
    (tmp_path / "candidates/r1-c1/reply.md").unlink()
    assert run.load_reply("candidates/r1-c1") == REPLY


@pytest.mark.parametrize("name", ["../r1-c1", "a/../../b", "", ".hidden", "/etc", "a b", "a\nb"])
def test_no_name_leads_out_of_the_run(tmp_path: Path, name: str) -> None:
    run = RunFolder(tmp_path / "a-run")
    with pytest.raises(UsageError, match="expected names of letters"):
        run.write_reply(name, REPLY)
    with pytest.raises(UsageError, match="expected names of letters"):
        run.write_source(name, SOURCE)
    assert list(tmp_path.iterdir()) == []


def test_run_json_carries_a_version_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_run({"task": "vector_add"})
    assert run.read_run() == {"task": "vector_add"}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(UsageError, match=r"version 99.*use the cuda-llm that wrote it"):
        run.read_run()


def test_what_cannot_be_used_is_told_apart_from_its_mend_in_another_process_too(
    tmp_path: Path,
) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(UnusableFile) as caught:
        run.look_up(Hint, "r1-h1")
    arrived = pickle.loads(pickle.dumps(caught.value))
    assert (arrived.path, arrived.what) == (tmp_path / "hints/r1-h1.json", "gone")
    assert arrived.remedy == run.remedy
    assert str(arrived) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "no run.json"), ("{", "broken"), ("[]", "no version"), ("{}", "no version")],
)
def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(UsageError, match=complaint):
        RunFolder(tmp_path).read_run()


@pytest.mark.parametrize("text", ["{", '{"id": 3}', "[]"])
def test_a_damaged_part_is_refused_by_name(tmp_path: Path, text: str) -> None:
    run = RunFolder(tmp_path)
    run.write_attempt(ATTEMPTS[0])
    path = run.candidate("r1-c1") / "attempt.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"attempt\.json: broken"):
        run.attempt("r1-c1")


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    """Root may write anywhere, so a file stands where a folder should."""
    (tmp_path / "a-run").write_text("")
    with pytest.raises(UsageError, match="cannot be written") as raised:
        RunFolder(tmp_path / "a-run").write_attempt(ATTEMPTS[0])
    assert "\n" not in str(raised.value)


WRITER = """
import sys
from pathlib import Path
from cuda_llm.conversation import Reply
from cuda_llm.outcomes import CompileFailed
from cuda_llm.traces.run_folder import RunFolder

run = RunFolder(Path(sys.argv[1]))
print("ready", flush=True)
for turn in range(10**9):
    run.write_run({"turn": turn, "text": "x" * 20_000})
    run.write_verdict("r1-c1", CompileFailed(compiler_output="y" * 20_000))
    run.write_reply("candidates/r1-c1", Reply(text="z" * 20_000))
"""


def test_a_killed_process_leaves_whole_files(tmp_path: Path) -> None:
    dice = random.Random(3)
    run = RunFolder(tmp_path / "a-run")
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, str(run.path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(dice.uniform(0.01, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert len(run.read_run()["text"]) == 20_000
        assert run.kept_verdict("r1-c1") in (None, CompileFailed(compiler_output="y" * 20_000))
        assert run.load_reply("candidates/r1-c1") in (None, Reply(text="z" * 20_000))
    left = [path.name for path in run.path.rglob("*.part")]
    assert len(left) <= 1
