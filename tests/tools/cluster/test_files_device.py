"""A device that is reached through a folder: orders and answers are files, judged in batches."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_tasks import tiny_task
from typer.testing import CliRunner

from cuda_llm.cli.app import build_app
from cuda_llm.errors import DeviceLost, UsageError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import KernelResources
from cuda_llm.tools.cluster.answer_orders import answer_orders
from cuda_llm.tools.cluster.files_device import FilesDevice, open_device_of, parse_files
from cuda_llm.tools.cluster.order_folder import Letter, OrderFolder, written_by
from cuda_llm.tools.cluster.parcel import fingerprint, pack
from cuda_llm.tools.device import DescribedDevice, ForwardingDevice, T, Work
from cuda_llm.tools.device.device import do_no_work
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import open_device

H200 = EmulatedDevice(find_hardware("H200"))
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> OrderFolder:
    found = OrderFolder(tmp_path / "orders of a search")
    found.prepare()
    return found


def no_report(_line: str) -> None:
    """Say nothing."""


def answered(folder: OrderFolder) -> int:
    """Answer what waits by the emulated H200; return how much it was."""
    done = asyncio.run(answer_orders(folder, H200, report=no_report))
    return done.answered


def opened(folder: OrderFolder, report: Callable[[str], None] = no_report) -> FilesDevice:
    answered(folder)
    return open_device_of(f"files:{folder.root}", open_device, report=report)


def test_the_same_work_is_one_order_and_an_answer_is_kept_for_who_asks_again(
    folder: OrderFolder,
) -> None:
    device = opened(folder)

    async def ask_twice() -> None:
        both = [asyncio.create_task(device.carry_out(Work.of(do_no_work))) for _ in range(2)]
        while not folder.waiting():
            await asyncio.sleep(0.01)
        assert len(folder.waiting()) == 1
        assert (await answer_orders(folder, H200, report=no_report)).answered == 1
        await asyncio.gather(*both)
        await device.carry_out(Work.of(do_no_work))

    asyncio.run(ask_twice())
    assert folder.waiting() == []


class BrokenOnce(ForwardingDevice):
    """A device that fails at the first work."""

    failed = False

    async def carry_out(self, work: Work[T]) -> T:
        if not BrokenOnce.failed:
            BrokenOnce.failed = True
            raise UsageError("not this time")
        return await super().carry_out(work)


def test_who_shares_an_order_that_failed_asks_again(
    folder: OrderFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokenOnce, "failed", False)
    first, second = opened(folder), opened(folder)

    async def ask_both() -> list[object]:
        both = [asyncio.create_task(one.carry_out(Work.of(do_no_work))) for one in (first, second)]
        while not all(one.done() for one in both):
            await answer_orders(folder, BrokenOnce(H200), report=no_report)
            # One of the two looks at a time: the other finds neither order nor answer.
            await asyncio.sleep(0.01)
        return await asyncio.gather(*both, return_exceptions=True)

    found = asyncio.run(asyncio.wait_for(ask_both(), 60))
    assert sorted(type(one).__name__ for one in found) == ["NoneType", "UsageError"]
    assert folder.waiting() == []


@pytest.mark.parametrize("thirds", [0, 1, 2])
def test_what_was_not_copied_whole_is_not_there(folder: OrderFolder, thirds: int) -> None:
    payload = os.urandom(400)
    name = "ab" * 20
    contents = {"key": {"kernel.cu": b"text"}}
    folder.order(name, Letter(payload=payload, code="code", contents=contents))
    letter = folder.read_order(name)
    assert letter is not None
    assert (letter.payload, letter.contents) == (payload, contents)
    for file in (folder.root / "bundles/key.zip", folder.root / f"orders/{name}.zip"):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) * thirds // 3])
        assert folder.read_order(name) is None
        file.write_bytes(whole)
    assert folder.read_order(name) == letter


def test_a_fingerprint_is_of_contents_and_not_of_how_a_value_was_made() -> None:
    made = KernelResources(kernel="add", symbol="add", registers=8, shared_bytes=0)
    text = "".join(["a", "dd"])
    read = KernelResources(kernel=text, symbol="".join([*text]), registers=8, shared_bytes=0)
    assert made.kernel is not read.symbol
    assert pack(made).payload != pack(read).payload
    assert fingerprint(made) == fingerprint(read)
    other = replace(made, registers=9)
    assert fingerprint(made) != fingerprint(other)


def test_an_order_that_is_not_whole_waits_and_holds_up_no_other(folder: OrderFolder) -> None:
    whole = "ab" * 20
    folder.order(whole, an_order())
    torn = folder.root / "orders" / f"{'0' * 40}.zip"
    torn.write_bytes(b"PK")
    assert answered(folder) == 1
    assert folder.waiting() == [torn.stem]
    assert folder.read_answer(whole) is not None


def an_order(code: str = "", gpu: str = H200.hardware.name) -> Letter:
    """An order to do nothing."""
    payload = pack(Work.of(do_no_work)).payload
    return Letter(payload=payload, code=code or written_by(), gpu=gpu)


def test_an_order_for_another_kind_of_gpu_waits(folder: OrderFolder) -> None:
    folder.order("ab" * 20, an_order(gpu="RTX 3090 Ti"))
    folder.order("cd" * 20, an_order())
    said: list[str] = []
    done = asyncio.run(answer_orders(folder, H200, report=said.append))
    assert (done.answered, done.left) == (1, 1)
    assert any("was compiled for RTX 3090 Ti" in line for line in said)


def test_other_code_on_either_side_is_one_clear_line(folder: OrderFolder) -> None:
    device = opened(folder)
    name = "ab" * 20
    folder.order(name, an_order(code="0123"))
    with pytest.raises(UsageError, match="written by other code of cuda-llm"):
        answered(folder)
    folder.close_order(name)

    async def ask() -> None:
        asked = asyncio.create_task(device.carry_out(Work.of(do_no_work)))
        while not (waiting := folder.waiting()):
            await asyncio.sleep(0.01)
        folder.answer(waiting[0], Letter(payload=b"", code="4567"))
        await asked

    with pytest.raises(DeviceLost, match="install the same there"):
        asyncio.run(ask())
    described = DescribedDevice(
        name="x", hardware=H200.hardware, capabilities=H200.capabilities, version="1"
    )
    folder.describe_device(Letter(payload=pack(described).payload, code="89ab"))
    with pytest.raises(UsageError, match="runs other code of cuda-llm"):
        open_device(f"files:{folder.root}")


def test_a_text_that_names_no_device_says_what_to_write(tmp_path: Path) -> None:
    for text in ("files:", "files:x?gpus=2"):
        with pytest.raises(UsageError, match="expected files:DIR"):
            parse_files(text)
    with pytest.raises(UsageError, match="judge-files"):
        open_device(f"files:{tmp_path / 'new'}")
    named = open_device(f"files:{tmp_path / 'new'}?gpu=H200")
    assert (named.hardware.name, named.capabilities.measures_time) == (H200.hardware.name, True)
    answered(OrderFolder(tmp_path / "new"))
    with pytest.raises(UsageError, match="answers there, not"):
        open_device(f"files:{tmp_path / 'new'}?gpu=RTX 3090 Ti")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        open_device(f"files:{file}?gpu=H200")


class Endless(ForwardingDevice):
    """A device that never ends a work."""

    async def carry_out(self, work: Work[T]) -> T:
        await asyncio.sleep(3600)
        return await super().carry_out(work)


def test_a_limit_ends_the_work_in_hand_which_waits_on(folder: OrderFolder) -> None:
    name = "ab" * 20
    folder.order(name, an_order())

    said: list[str] = []
    endless = Endless(H200)
    done = asyncio.run(answer_orders(folder, endless, limit_s=0.2, report=said.append))
    assert (done.answered, done.left) == (0, 1)
    assert "not done within the limit" in said[0]
    assert answered(folder) == 1
    assert folder.read_answer(name) is not None


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_judge_files_that_is_ended_keeps_whole_answers_and_the_next_does_the_rest(
    folder: OrderFolder, start: Start, blow: signal.Signals
) -> None:
    names = [f"{number:040x}" for number in range(300)]
    for name in names:
        folder.order(name, an_order())
    judging = start("judge-files", str(folder.root), "--device", "emulated:H200")
    while len(folder.waiting()) == len(names) and judging.poll() is None:
        time.sleep(0.01)
    judging.send_signal(blow)
    judging.communicate()
    assert judging.returncode == (-signal.SIGKILL if blow is signal.SIGKILL else 130)

    done = [name for name in names if (folder.root / f"answers/{name}.zip").exists()]
    assert 0 < len(done) < len(names)
    assert all(folder.read_answer(name) is not None for name in done)
    assert answered(folder) == len(names) - len(done)
    assert folder.waiting() == []


def test_the_machine_that_answers_needs_no_graph_and_no_model(folder: OrderFolder) -> None:
    command = (
        "import sys; from cuda_llm.__main__ import main; sys.argv[1:] = "
        f"['judge-files', {str(folder.root)!r}, '--device', 'emulated:H200', '--json']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'langgraph', 'langchain_core', 'langchain_openai', 'openai', 'ray'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["left"] == 0


CANDIDATES, ROUNDS = 2, 2
BATCHES = (1, *[2 * CANDIDATES] * ROUNDS, 2)
"""Works in each batch of a search: the baseline, each round's, and the winner's once more."""


def search(
    start: Start, folder: OrderFolder, out: Path, *, size: int = 32768, rounds: int = ROUNDS
) -> "subprocess.Popen[str]":
    """Start a search on the device behind the folder, of a size at which there is much to gain."""
    task = folder.root.parent / "tiny"
    if not task.exists():
        tiny_task(task.parent, task.name)
    options = f"--generator playbook --tune 0 --candidates {CANDIDATES} --rounds {rounds}"
    return start(
        "run", str(task), "--size", f"n={size}", *options.split(),
        "--device", f"files:{folder.root}", "--out", str(out),
    )  # fmt: skip


def wait_for(count: int, folder: OrderFolder, *searches: "subprocess.Popen[str]") -> set[str]:
    """Return the orders once so many wait, or every search has ended."""
    began_s = time.monotonic()
    while len(found := folder.waiting()) < count:
        assert time.monotonic() - began_s < 600, f"{len(found)} orders wait, {count} expected"
        if all(one.poll() is not None for one in searches):
            break
        time.sleep(0.05)
    return set(found)


def carried_over(folder: OrderFolder) -> int:
    """Copy the folder to a machine with a device, answer there, copy the answers back; return how
    many there were."""
    with tempfile.TemporaryDirectory() as there:
        shutil.copytree(folder.root, there, dirs_exist_ok=True)
        count = answered(OrderFolder(Path(there)))
        shutil.copytree(Path(there) / "bundles", folder.root / "bundles", dirs_exist_ok=True)
        shutil.copytree(Path(there) / "answers", folder.root / "answers", dirs_exist_ok=True)
    return count


def test_a_search_costs_a_batch_a_round_and_two_and_survives_kills(
    folder: OrderFolder, tmp_path: Path, start: Start
) -> None:
    answered(folder)
    begun = search(start, folder, tmp_path)
    for batch, count in enumerate(BATCHES):
        wait_for(count, folder, begun)
        if batch == 1:
            asked = wait_for(count, folder, begun)
            begun.send_signal(signal.SIGKILL)
            begun.communicate()
            assert carried_over(folder) == count
            begun = start("resume", "latest", "--out", str(tmp_path))
            # The resumed search asks the same, and reads the answers that came meanwhile.
            assert not asked & wait_for(BATCHES[2], folder, begun)
            continue
        assert carried_over(folder) == count
    said, complaint = begun.communicate()
    assert begun.returncode == 0, complaint
    assert "judged once more: PASSED" in said
    assert folder.waiting() == []


@pytest.mark.parametrize(("send", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_search_that_waits_for_a_batch_and_says_how_to_go_on(
    folder: OrderFolder, tmp_path: Path, start: Start, send: signal.Signals, code: int
) -> None:
    """SIGTERM also where Ctrl-C is ignored, as by the background job of a script."""
    answered(folder)
    before = signal.getsignal(signal.SIGINT)
    if send is signal.SIGTERM:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        begun = search(start, folder, tmp_path, size=33792)
    finally:
        signal.signal(signal.SIGINT, before)
    asked = wait_for(1, folder, begun)
    begun.send_signal(send)
    _, said = begun.communicate(timeout=300)
    assert begun.returncode == code
    assert "cuda-llm resume" in said
    assert set(folder.waiting()) == asked, "the order stays for whoever answers"


def test_two_searches_share_a_batch(folder: OrderFolder, tmp_path: Path, start: Start) -> None:
    answered(folder)
    # A size of its own: no other test has cached its baseline.
    both = [search(start, folder, tmp_path / name, size=34816, rounds=1) for name in ("a", "b")]
    baseline, *others = BATCHES[0], BATCHES[1], BATCHES[-1]
    for count in (baseline, *(2 * one for one in others)):
        wait_for(count, folder, *both)
        assert carried_over(folder) == count, "all but the baseline is ordered by each"
    for one in both:
        one.communicate()
    assert [one.returncode for one in both] == [0, 0]


def test_help_says_who_can_write_to_the_folder() -> None:
    shown = CliRunner().invoke(build_app(), ["judge-files", "--help"])
    assert shown.exit_code == 0
    assert "keep the folder private" in " ".join(shown.output.split())
