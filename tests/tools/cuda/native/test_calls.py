"""A candidate called once, over a real socket and a fake driver, under sanitizers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gpu_runner import COUNT, IN, OUT, SCRATCH, GpuRunner, Parts, Ways
from runtime_answers import DEVICES, MEMORY

from cuda_llm.tools.cuda.protocol import (
    LOG_ENTRIES,
    REPORT_MAGIC,
    EntryKind,
    Forbidden,
    GoFrame,
    Order,
    SharedBy,
)
from cuda_llm.tools.device.protocol import Refusal, RunnerReply

from .conftest import Start

RIGHT = [0, 1, 3, 4, 15, 19]
"""Ways of the fixture that solve the task without reading results back."""


def _said(runner: GpuRunner, way: int, count: int) -> list[int]:
    assert runner.call(Ways(way=way)).reply == RunnerReply.DONE
    return [int(value) for value in runner.floats(OUT, count)]


@pytest.mark.parametrize("shared_by", SharedBy)
def test_solve_computes_on_the_shared_arena(start: Start, shared_by: SharedBy) -> None:
    with start(shared_by=shared_by) as runner:
        ready = runner.start()
        assert (ready.reply, ready.address != 0) == (RunnerReply.READY, True)
        for way in RIGHT:
            runner.floats(IN)[:] = np.arange(COUNT) + way
            runner.floats(OUT)[:] = -1
            assert runner.call(Ways(way=way)).reply == RunnerReply.DONE
            np.testing.assert_array_equal(runner.floats(OUT), 2 * (np.arange(COUNT) + way))


def test_rows_are_copied_and_filled_by_their_pitch(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.floats(IN)[:] = np.arange(1, COUNT + 1)
        runner.call(Ways(way=13))
        rows = runner.floats(OUT).reshape(-1, 4)
        np.testing.assert_array_equal(rows[:, :2].ravel(), np.arange(1, COUNT // 2 + 1))
        assert not rows[:, 2:].any()


def test_the_report_says_what_was_launched(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.call(Ways(way=1))
        report = runner.report()
        kinds = [entry.kind for entry in report.log[: report.logged]]
        assert kinds == [EntryKind.COPY, EntryKind.COPY, EntryKind.KERNEL]
        kernel = report.log[2]
        assert (list(kernel.grid), list(kernel.block)) == ([1, 1, 1], [32, 1, 1])
        assert bytes(report)[type(report).text.offset + kernel.name :].startswith(b"by_table\0")
        assert (report.magic, report.launches, report.synchronisations) == (REPORT_MAGIC, 1, 2)
        assert (report.copies, report.host_bytes, report.peak_bytes) == (2, 16, 100)


def test_a_log_that_is_full_still_counts(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.call(Ways(way=14))
        report = runner.report()
        assert (report.launches, report.entries, report.logged) == (2000, 2000, LOG_ENTRIES)


def test_a_kernel_behind_more_copies_than_a_log_holds_is_still_told(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.call(Ways(way=17))
        report = runner.report()
        kinds = [entry.kind for entry in report.log[: report.logged]]
        assert kinds == [EntryKind.COPY] * (LOG_ENTRIES // 2) + [EntryKind.KERNEL]
        assert (report.launches, report.copies, report.entries) == (1, 2000, 2001)


def test_scratch_is_garbage_and_elsewhere_in_each_call(start: Start) -> None:
    with start() as runner:
        arena = runner.start().address
        seen = []
        for seed in (1, 2, 3):
            runner.call(Ways(way=5, seed=seed))
            low, high, content = (int(word) for word in runner.arena[OUT : OUT + 12].view("<u4"))
            seen.append((low | high << 32, content))
        places = {place - arena - SCRATCH for place, _ in seen}
        assert len(places) == 3
        assert all(0 <= place <= 1 << 20 and place % 512 == 0 for place in places)
        garbage = np.array([content for _, content in seen], dtype="<u4")
        assert len(set(garbage)) == 3
        assert np.isnan(garbage.view("<f4")).all()
        assert np.isnan(garbage.view("<f2")).all()


def test_allocations_live_within_the_quota(start: Start) -> None:
    out_of_memory, invalid = 2, 1
    with start() as runner:
        runner.start()
        assert _said(runner, 6, 7) == [0, out_of_memory, 0, 0, 0, invalid, invalid]
        report = runner.report()
        assert (report.allocation_failed, report.refused_bytes) == (1, 700 << 10)


@pytest.mark.parametrize("seed", range(4))
def test_the_quota_is_of_what_is_asked_for_and_held_at_once(start: Start, seed: int) -> None:
    out_of_memory, invalid = 2, 1
    with start() as runner:
        runner.start()
        assert runner.call(Ways(way=16, seed=seed)).reply == RunnerReply.DONE
        assert [int(value) for value in runner.floats(OUT, 8)] == [
            *(0, 2999, 0, out_of_memory, invalid, 0, invalid, invalid)
        ]
        assert runner.report().peak_bytes == 1 << 20


def test_a_refused_launch_is_noted_and_harms_nothing(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.call(Ways(way=3))
        refused = runner.report().refused
        assert (refused.error, refused.kernel) == (1, b"twice")
        assert (refused.limit, refused.asked) == (5, 300_000)
        assert refused.allowed < 300_000
        assert (*refused.grid, *refused.block) == (1, 1, 1, 32, 1, 1)
        runner.call(Ways(way=0))
        assert runner.report().refused.error == 0


def test_launch_attributes_are_passed_on_or_refused(start: Start) -> None:
    not_supported, too_large = 801, 720
    with start() as runner:
        runner.start()
        assert _said(runner, 7, 4) == [1, 0, not_supported, too_large]


def test_the_api_answers_for_the_device(start: Start) -> None:
    symbol_not_found, invalid_configuration = 500, 9
    with start() as runner:
        runner.start()
        assert _said(runner, 8, 15) == [
            *(0, 4, 0, symbol_not_found, 1, 0x5A, 0, 3, 0, 0, invalid_configuration, 0),
            *(0, 4, 1),
        ]


@pytest.mark.parametrize(("way", "expected"), [(1, DEVICES), (3, MEMORY)])
def test_the_api_answers_as_the_emulated_one_does(
    sanitized: Parts, asking: Path, start: Start, way: int, expected: list[int]
) -> None:
    with start(replace(sanitized, candidate=asking)) as runner:
        runner.start()
        assert runner.call(Ways(way=way)).reply == RunnerReply.DONE
        words = runner.arena[OUT : OUT + 8 * len(expected)].view("<i8")
        assert [int(word) for word in words] == expected


def test_a_stream_that_nobody_opened_is_refused(start: Start) -> None:
    with start() as runner:
        runner.start()
        assert _said(runner, 11, 1) == [400]


@pytest.mark.parametrize(
    ("way", "what", "most_bytes"),
    [
        (2, Forbidden.HOST_COPY, 0),
        (10, Forbidden.LARGE_COPY, 1 << 20),
        (20, Forbidden.UNJOINED, 0),
    ],
)
def test_what_the_contract_forbids_is_the_last_word(
    start: Start, way: int, what: Forbidden, most_bytes: int
) -> None:
    with start() as runner:
        runner.start()
        reply = runner.call(Ways(way=way))
        assert (reply.reply, reply.number, reply.address) == (
            RunnerReply.FORBIDDEN,
            what,
            most_bytes,
        )


def test_a_lost_context_is_the_last_word(start: Start) -> None:
    with start() as runner:
        runner.start()
        reply = runner.call(Ways(way=9))
        assert (reply.reply, reply.number) == (RunnerReply.FAULTED, 700)
        assert reply.text.startswith("CUDA_ERROR_ILLEGAL_ADDRESS")
        assert runner.socket.recv(1) == b""


def test_a_confined_runner_computes_and_tells_of_its_death(plain: Parts, start: Start) -> None:
    with start(plain) as runner:
        runner.start()
        runner.floats(IN)[:] = 21
        assert runner.call(Ways(way=1)).reply == RunnerReply.DONE
        assert (runner.floats(OUT) == 42).all()
        reply = runner.call(Ways(way=12))
        assert (reply.reply, reply.number, reply.address) == (RunnerReply.DIED, 11, 8)


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        ("cuInit", 100, "cuInit: CUDA_ERROR_NO_DEVICE"),
        ("cuModuleLoadData", 209, "seal kernels: CUDA_ERROR_NO_BINARY_FOR_GPU"),
    ],
)
def test_a_gpu_that_cannot_be_had_is_said(
    sanitized: Parts, start: Start, function: str, error: int, words: str
) -> None:
    environment = {**sanitized.environment, "FAKE_CUDA_FAIL": f"{function}={error}"}
    with start(replace(sanitized, environment=environment)) as runner:
        reply = runner.receive_reply()
        assert reply.reply == RunnerReply.BROKEN
        assert reply.text == words


def test_ipc_that_does_not_work_is_said(sanitized: Parts, start: Start) -> None:
    environment = {**sanitized.environment, "FAKE_CUDA_FAIL": "cuIpcOpenMemHandle_v2=400"}
    with start(replace(sanitized, environment=environment)) as runner:
        assert runner.start().text.startswith("CUDA IPC: CUDA_ERROR_INVALID_HANDLE")


def test_a_machine_without_a_driver_is_said(sanitized: Parts, start: Start) -> None:
    with start(replace(sanitized, environment={})) as runner:
        assert runner.receive_reply().text.startswith("CUDA driver: libcuda.so.1")


@pytest.mark.parametrize("which", ["shim", "missing"])
def test_a_library_that_is_no_candidate_is_refused(
    sanitized: Parts, start: Start, tmp_path: Path, which: str
) -> None:
    library = {"shim": sanitized.shim, "missing": tmp_path / "none.so"}[which]
    with start(replace(sanitized, candidate=library)) as runner:
        reply = runner.start()
        assert reply.reply == RunnerReply.REFUSED
        assert reply.number == (Refusal.NO_SOLVE if which == "shim" else Refusal.LINKER)
        assert ("none.so" in reply.text) == (which == "missing")


def test_a_frame_of_the_wrong_size_is_a_mistake_of_ours(start: Start) -> None:
    with start() as runner:
        runner.start()
        assert runner.order(Order.CALL, GoFrame()).reply == RunnerReply.BROKEN
