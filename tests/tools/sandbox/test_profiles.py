"""What a loaded candidate may ask of the kernel, tried in real processes."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

VIOLATION = 83

Build = Callable[[str], Path]


def attempt(program: Path, profile: str, action: str) -> tuple[int, str]:
    done = subprocess.run(
        [program, profile, action], capture_output=True, text=True, timeout=10, check=False
    )
    return done.returncode, done.stdout.strip()


@pytest.fixture(scope="module")
def program(build_fixture: Build) -> Path:
    """The program that confines itself and then tries something."""
    return build_fixture("attempt")


@pytest.mark.parametrize("profile", ["run", "gpu-run"])
@pytest.mark.parametrize("action", ["compute", "throw"])
def test_computing_is_allowed(program: Path, profile: str, action: str) -> None:
    assert attempt(program, profile, action)[0] == 0


def test_abort_still_ends_a_process_by_its_signal(program: Path) -> None:
    assert attempt(program, "run", "abort")[0] == -signal.SIGABRT


FORBIDDEN = {
    "fork": {"clone", "fork"},
    "vfork": {"clone"},
    "exec": {"execve"},
    "open": {"openat", "open"},
    "create": {"openat", "open"},
    "socket": {"socket"},
    "kill": {"kill", "getppid"},
    "executable": {"mmap"},
    "unprotect": {"mprotect"},
    "prctl": {"prctl"},
    "memfd": {"memfd_create"},
    "unlink": {"unlink", "unlinkat"},
    "trace": {"ptrace"},
    "handler": {"socket"},
    "seals": {"fcntl"},
    "owner": {"fcntl"},
    "shared-memory": {"shmget"},
    "limits": {"prlimit64"},
    "raw": {"socket"},
}


@pytest.mark.parametrize("action", FORBIDDEN)
def test_a_forbidden_call_ends_the_process_and_is_named(program: Path, action: str) -> None:
    code, name = attempt(program, "run", action)

    assert code == VIOLATION
    assert name in FORBIDDEN[action]


@pytest.mark.parametrize("action", sorted(FORBIDDEN))
def test_beside_a_gpu_the_same_calls_are_forbidden(program: Path, action: str) -> None:
    code, name = attempt(program, "gpu-run", action)

    assert code == VIOLATION
    assert name in FORBIDDEN[action]


@pytest.mark.parametrize("action", ["gpu-command", "other-command", "devices", "descriptor-flags"])
def test_beside_a_gpu_its_devices_and_commands_are_allowed(program: Path, action: str) -> None:
    assert attempt(program, "gpu-run", action)[0] == 0


@pytest.mark.parametrize("profile", ["gpu-load", "gpu-run"])
def test_beside_a_gpu_the_drivers_threads_are_confined_too(program: Path, profile: str) -> None:
    assert attempt(program, profile, "other-thread") == (VIOLATION, "socket")


@pytest.mark.parametrize("profile", ["load", "run", "gpu-load", "gpu-run"])
def test_starting_a_thread_kills_the_process(program: Path, profile: str) -> None:
    """libc blocks all signals while it makes one, so that nothing can name the call."""
    assert attempt(program, profile, "thread")[0] == -signal.SIGSYS


def test_the_other_architectures_calls_kill_the_process(program: Path) -> None:
    assert attempt(program, "run", "legacy")[0] == -signal.SIGSYS


@pytest.mark.parametrize("action", ["open", "map-code", "compute", "throw"])
def test_loading_may_read_files_and_map_code(program: Path, action: str) -> None:
    assert attempt(program, "load", action)[0] == 0


@pytest.mark.parametrize("profile", ["load", "gpu-load"])
@pytest.mark.parametrize("action", sorted({*FORBIDDEN, "writable-code", "semaphore"} - {"open"}))
def test_loading_may_do_nothing_else(program: Path, profile: str, action: str) -> None:
    assert attempt(program, profile, action)[0] == VIOLATION
