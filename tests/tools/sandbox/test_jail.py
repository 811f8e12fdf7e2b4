"""A jailed command sees little, and whatever ends it leaves no process."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.sandbox.jail import (
    GRACE_S,
    Jail,
    JailResult,
    ProgramLimit,
    environment,
    jail_command,
    run_jailed,
)

DETACH_THREE = "setsid sleep {0} & (setsid sleep {0} &) ; setsid sh -c 'sleep {0} & sleep {0}' & "
FORK_BOMB = "bomb() { setsid sleep {0} & bomb | bomb & }; bomb; sleep {0}"


def run(script: str, folder: Path, **limits: object) -> JailResult:
    return asyncio.run(run_jailed(["/bin/bash", "-c", script], Jail(folder=folder, **limits)))  # type: ignore[arg-type]


@pytest.fixture
def token() -> str:
    """A duration that no other process sleeps for: finds what this test left behind."""
    return f"{3000 + os.getpid() % 1000}.{time.monotonic_ns() % 10**9}"


def sleepers(token: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(token in word for word in process.info["cmdline"] or [])
    ]


def wait_until(condition: Callable[[], bool], limit_s: float = 60.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_exit_code_and_output_come_back(tmp_path: Path) -> None:
    result = run("echo out; echo err >&2; exit 3", tmp_path)

    assert (result.end, result.exit_code, result.signal) == ("exited", 3, None)
    assert result.stdout.text == "out\n"
    assert result.stderr.text == "err\n"
    assert not result.ok


def test_the_signal_that_ended_a_command_is_reported(tmp_path: Path) -> None:
    result = run("kill -SEGV $$", tmp_path)

    assert (result.end, result.exit_code, result.signal) == ("signalled", None, signal.SIGSEGV)


def test_the_environment_holds_four_names_and_no_secret(tmp_path: Path) -> None:
    os.environ["CUDA_LLM_TEST_SECRET"] = "secret"
    try:
        result = run("env", tmp_path)
    finally:
        del os.environ["CUDA_LLM_TEST_SECRET"]

    names = {line.split("=")[0] for line in result.stdout.text.splitlines()}
    assert names - {"PWD", "SHLVL", "_"} == {"PATH", "HOME", "TMPDIR", "LANG"}
    assert f"HOME={tmp_path}" in result.stdout.text


def test_only_the_private_folder_is_writable_and_the_home_unreadable(tmp_path: Path) -> None:
    private, other = tmp_path / "private", tmp_path / "other"
    private.mkdir()
    other.mkdir()
    (other / "secret").write_text("hidden words")

    result = run(f"echo kept > mine; cat {other}/secret; echo x > {other}/new", private)

    assert (private / "mine").read_text() == "kept\n"
    assert "hidden words" not in result.stdout.text
    assert result.stderr.text.count("Permission denied") == 2
    assert not (other / "new").exists()


def test_folders_listed_as_readable_are_readable_and_not_writable(tmp_path: Path) -> None:
    private, lent = tmp_path / "private", tmp_path / "lent"
    private.mkdir()
    lent.mkdir()
    (lent / "header.h").write_text("words")

    jail = Jail(folder=private, readable=(lent,))
    result = asyncio.run(
        run_jailed(["/bin/sh", "-c", f"cat {lent}/header.h; echo x > {lent}/header.h"], jail)
    )

    assert result.stdout.text == "words"
    assert (lent / "header.h").read_text() == "words"


def test_there_is_no_network(tmp_path: Path) -> None:
    result = run("exec 3<>/dev/tcp/127.0.0.1/9", tmp_path)

    assert "Operation not permitted" in result.stderr.text


def test_a_flood_of_output_is_counted_and_cut(tmp_path: Path) -> None:
    result = run("yes | head -c 5000000", tmp_path, output_bytes=1000)

    assert len(result.stdout.text) == 1000
    assert result.stdout.omitted_bytes == 4_999_000


def test_the_wall_clock_ends_a_command(tmp_path: Path, token: str) -> None:
    result = run(DETACH_THREE.format(token) + f"sleep {token}", tmp_path, wall_s=0.3)

    assert result.timed_out
    assert sleepers(token) == []


def test_processor_time_is_limited(tmp_path: Path) -> None:
    result = run("while :; do :; done", tmp_path, cpu_s=1, wall_s=120)

    assert (result.end, result.signal) == ("signalled", signal.SIGXCPU)
    assert result.cpu_s == pytest.approx(1, abs=0.5)


def test_a_program_may_have_less_processor_time_than_the_others(tmp_path: Path) -> None:
    spin = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done"
    (tmp_path / "bound").symlink_to("/bin/bash")
    bound = ProgramLimit(name="bound", cpu_s=1)

    result = run(f"(./bound -c 'while :; do :; done'; echo $?); {spin}; echo done",
                 tmp_path, cpu_s=20, wall_s=120, programs=(bound,))  # fmt: skip

    assert result.stdout.text == f"{128 + signal.SIGXCPU}\ndone\n"


def test_a_program_that_stays_at_its_limit_is_killed(tmp_path: Path) -> None:
    (tmp_path / "bound").symlink_to("/bin/bash")
    bound = ProgramLimit(name="bound", cpu_s=1)

    result = run("./bound -c 'trap : XCPU; while :; do :; done'; echo $?",
                 tmp_path, cpu_s=20, wall_s=120, programs=(bound,))  # fmt: skip

    assert result.stdout.text == f"{128 + signal.SIGKILL}\n"
    assert 2 <= result.cpu_s < 4


def test_a_file_of_a_program_ends_its_limit(tmp_path: Path) -> None:
    (tmp_path / "bound").symlink_to("/bin/bash")
    bound = ProgramLimit(name="bound", cpu_s=1, until=tmp_path / "read")

    result = run("./bound -c 'echo > read; while :; do :; done'; echo $?",
                 tmp_path, cpu_s=3, wall_s=120, programs=(bound,))  # fmt: skip

    assert result.stdout.text == f"{128 + signal.SIGXCPU}\n"
    assert 2 <= result.cpu_s < 4


def test_memory_is_limited(tmp_path: Path) -> None:
    result = run("x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}", tmp_path,
                 memory_bytes=128 << 20)  # fmt: skip

    assert "300000000" not in result.stdout.text
    assert result.peak_bytes < 256 << 20


def test_a_file_is_limited_in_size(tmp_path: Path) -> None:
    run("head -c 3000000 /dev/zero > big", tmp_path, file_bytes=1 << 20)

    assert (tmp_path / "big").stat().st_size == 1 << 20


def test_a_detached_process_does_not_outlive_its_command(tmp_path: Path, token: str) -> None:
    result = run(DETACH_THREE.format(token) + "echo done", tmp_path)

    assert result.stdout.text == "done\n"
    assert sleepers(token) == []


def test_a_fork_bomb_ends_at_its_number_of_processes(tmp_path: Path, token: str) -> None:
    result = run(FORK_BOMB.replace("{0}", token), tmp_path, processes=60, wall_s=60)

    assert result.end == "processes"
    assert sleepers(token) == []


def test_cancellation_leaves_no_process(tmp_path: Path, token: str) -> None:
    async def cancel() -> list[int]:
        script = DETACH_THREE.format(token) + f"sleep {token}"
        task = asyncio.create_task(run_jailed(["/bin/sh", "-c", script], Jail(folder=tmp_path)))
        while len(sleepers(token)) < 4:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return sleepers(token)

    assert asyncio.run(cancel()) == []


def test_a_busy_loop_hears_late_what_ended_in_time(tmp_path: Path) -> None:
    async def run_beside_a_busy_loop() -> JailResult:
        command = ["/bin/sh", "-c", "touch begun; sleep 0.1; echo out"]
        running = asyncio.create_task(run_jailed(command, Jail(folder=tmp_path, wall_s=4)))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        time.sleep(4 + GRACE_S + 0.5)
        return await running

    result = asyncio.run(run_beside_a_busy_loop())
    assert (result.end, result.exit_code, result.stdout.text) == ("exited", 0, "out\n")


def test_a_jail_that_does_not_watch_its_clock_is_ended(tmp_path: Path, token: str) -> None:
    async def run_stopped() -> None:
        jail = Jail(folder=tmp_path, wall_s=0.5)
        running = asyncio.create_task(run_jailed(["/bin/sleep", token], jail))
        while not sleepers(token):
            await asyncio.sleep(0.01)
        (supervisor,) = psutil.Process().children()
        supervisor.suspend()
        with pytest.raises(InfrastructureError, match=r"did not end after its wall .*/bin/sleep"):
            await running

    asyncio.run(run_stopped())
    assert wait_until(lambda: sleepers(token) == [])


PARENT = """
import asyncio, sys
from pathlib import Path
from cuda_llm.tools.sandbox.jail import Jail, run_jailed
asyncio.run(run_jailed(["/bin/sh", "-c", sys.argv[1]], Jail(folder=Path(sys.argv[2]))))
"""


def test_a_killed_parent_leaves_no_process(tmp_path: Path, token: str) -> None:
    script = DETACH_THREE.format(token) + f"sleep {token}"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, script, str(tmp_path)])
    assert wait_until(lambda: len(sleepers(token)) >= 5)
    parent.kill()
    parent.wait()

    assert wait_until(lambda: sleepers(token) == [])


@pytest.mark.parametrize("ending", ["exit", "term", "wall"])
def test_without_namespaces_detached_processes_are_ended_one_by_one(
    tmp_path: Path, token: str, build_fixture: Callable[[str], Path], ending: str
) -> None:
    script = DETACH_THREE.format(token) + ("true" if ending == "exit" else f"sleep {token}")
    jail = Jail(folder=tmp_path, wall_s=0.5 if ending == "wall" else 60)
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [
            str(build_fixture("without_namespaces")),
            *jail_command(["/bin/sh", "-c", script], jail, report=writing),
        ],
        env=environment(jail),
        pass_fds=(writing,),
    )
    os.close(writing)
    if ending == "term":
        assert wait_until(lambda: len(sleepers(token)) >= 4)
        process.terminate()
    process.wait(240)
    with open(reading) as pipe:
        report = pipe.read()

    assert "isolation=0" in report
    assert {"exit": "exited", "term": "stopped", "wall": "wall"}[ending] in report
    assert sleepers(token) == []


def test_a_missing_command_is_an_infrastructure_error(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"exec: No such file .*/no/such"):
        asyncio.run(run_jailed(["/no/such"], Jail(folder=tmp_path)))


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    run("true", tmp_path)
    before = sorted(os.listdir("/proc/self/fd"))
    run("true", tmp_path)

    assert sorted(os.listdir("/proc/self/fd")) == before
