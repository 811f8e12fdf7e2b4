import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cuda_llm.atomic_file import write_atomically

LENGTH = 50_000
ENDLESS = """
import sys
from pathlib import Path
from cuda_llm.atomic_file import write_atomically
print("ready", flush=True)
while True:
    write_atomically(Path(sys.argv[1]), "x" * 50_000)
"""


def write_often(path: Path, letter: str) -> None:
    for _ in range(100):
        write_atomically(path, letter * LENGTH)


def limit_files_to(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def write_too_much(path: Path) -> None:
    limit_files_to(1000)
    try:
        write_atomically(path, "b" * LENGTH)
    except OSError:
        os._exit(7)


def test_text_is_stored_as_utf_8_and_bytes_as_they_are(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new/folder/text", "größer\r\n")
    write_atomically(tmp_path / "bytes", b"\0\xff")
    assert (tmp_path / "new/folder/text").read_bytes() == "größer\r\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\0\xff"


def test_a_file_is_as_readable_as_any_other_of_its_owner(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a")
    write_atomically(tmp_path / "ours", "a")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_readers_beside_writers_of_several_processes_see_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "a" * LENGTH)
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_often, args=(path, letter)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        text = path.read_text()
        assert text == text[0] * LENGTH
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_threads_of_one_process_take_turns_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write_often, path, letter) for letter in "abcd"]:
            done.result()
    assert path.read_text() in {letter * LENGTH for letter in "abcd"}
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_writer_leaves_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "a" * 60_000)
    for wait_s in (0.005, 0.02):
        command = [sys.executable, "-P", "-c", ENDLESS, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(wait_s)
            process.kill()
        assert path.read_text() in ("a" * 60_000, "x" * LENGTH)
        assert len(list(tmp_path.iterdir())) <= 2
    write_atomically(path, "short")
    assert path.read_text() == "short"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    writer = multiprocessing.get_context("fork").Process(target=write_too_much, args=(path,))
    writer.start()
    writer.join()
    assert writer.exitcode == 7
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_atomically(tmp_path / "folder", "text")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"
"""


def on_a_small_disk(folder: Path, code: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with `folder` on a disk of 64 kB, in a mount namespace of its own."""
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
    command = [*own, "sh", "-c", ON_A_SMALL_DISK, str(folder), sys.executable, "-P", "-c", code]
    return subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


def test_a_full_disk_is_told_with_what_was_needed_and_what_is_free(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from cuda_llm.traces.files import write_file; "
        f"write_file(Path({str(tmp_path)!r}) / 'events', b'x' * 100_000)"
    )
    ran = on_a_small_disk(tmp_path, code)
    assert (
        f"{tmp_path}/events: cannot be written (disk full: 100.0 kB were needed, "
        "65.5 kB of 0.1 MB are free); free space there, or choose another folder with --out"
    ) in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_cache_on_a_full_disk_is_no_fault_of_ours(tmp_path: Path) -> None:
    """The compiler of the native parts finds no room: it says so in its own words."""
    code = (
        "import sys; from cuda_llm.cli.app import run; "
        "sys.exit(run(['tasks', 'check', 'vector_add', '--device', 'emulated']))"
    )
    ran = on_a_small_disk(tmp_path, code, CUDA_LLM_CACHE=str(tmp_path))
    error = ran.stderr.splitlines()[-1]
    assert ran.returncode == 3, ran.stderr
    where = f"{tmp_path} (named by CUDA_LLM_CACHE)"
    assert error.startswith(f"error: the cache folder {where} cannot be written (disk full: ")
    assert "set CUDA_LLM_CACHE to a folder that can be written" in error
    assert "fault of our parts" not in ran.stderr
