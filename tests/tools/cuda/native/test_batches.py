"""Captured calls run in batches of sealed inputs and tagged outputs, over a fake driver."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from gpu_runner import COUNT, IN, KEY, OUT, SEALED, SLOTS, STRIDE, TAGS, GpuRunner, Parts, Ways
from seal_reference import sealed, tag

from cuda_llm.outcomes import OutOfMemory
from cuda_llm.tools.cuda.call_log import CallLog
from cuda_llm.tools.cuda.protocol import Armed, ArmFlag, Captured, Order
from cuda_llm.tools.cuda.verdicts import CallContext, verdict_on_end
from cuda_llm.tools.device.protocol import RunnerReply
from cuda_llm.tools.device.runner import RunnerEnded

from .conftest import Start

RIGHT = [0, 1, 3, 15]
"""Ways of the fixture that can be captured."""
ORDER = (2, 0, 3)
ALL = ArmFlag.FLUSH | ArmFlag.SOLVE

Floats = npt.NDArray[np.float32]


def _bytes(values: Floats) -> npt.NDArray[np.uint8]:
    return values.view(np.uint8)


def _seal(runner: GpuRunner) -> list[Floats]:
    """Fresh contents for each slot, sealed; what they are."""
    contents = []
    for slot in range(SLOTS):
        content = np.random.default_rng(slot).standard_normal(COUNT, dtype=np.float32)
        start = slot * STRIDE + SEALED
        runner.arena[start : start + COUNT * 4] = sealed(_bytes(content), KEY[:2], slot, 0)
        contents.append(content)
    return contents


def _tags(runner: GpuRunner, count: int) -> list[int]:
    return [int(word) for word in runner.arena[TAGS : TAGS + count * 8].view("<u8")]


def _output(runner: GpuRunner, slot: int) -> Floats:
    return runner.floats(slot * STRIDE + OUT)


@pytest.mark.parametrize("way", RIGHT)
def test_a_batch_opens_solves_and_tags_each_slot_of_its_order(start: Start, way: int) -> None:
    with start() as runner:
        runner.start()
        captured = runner.capture(Ways(way=way))
        assert (captured.reply, captured.number) == (RunnerReply.DONE, Captured.YES)
        for _ in range(2):
            contents = _seal(runner)
            runner.arena[TAGS : TAGS + 64] = 0xEE
            assert runner.arm(ORDER, ALL).reply == RunnerReply.DONE
            runner.floats(IN)[:] = 0
            assert runner.go().reply == RunnerReply.DONE
            for slot in ORDER:
                np.testing.assert_array_equal(_output(runner, slot), 2 * contents[slot])
            assert _tags(runner, len(ORDER)) == [
                tag(_bytes(_output(runner, slot)), KEY[2:], slot, 1) for slot in ORDER
            ]
            assert runner.report().tags[: len(ORDER)] == _tags(runner, len(ORDER))
            assert not np.isin(contents[1], runner.floats(STRIDE + IN)).any()


def test_without_solve_a_batch_is_all_the_rest(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.capture(Ways())
        contents = _seal(runner)
        for slot in range(SLOTS):
            _output(runner, slot)[:] = 7
        runner.arm(ORDER, ArmFlag.FLUSH)
        runner.go()
        for slot in ORDER:
            np.testing.assert_array_equal(runner.floats(slot * STRIDE + IN), contents[slot])
            assert (_output(runner, slot) == 7).all()
        sevens = _bytes(np.full(COUNT, 7, dtype=np.float32))
        assert _tags(runner, len(ORDER)) == [tag(sevens, KEY[2:], slot, 1) for slot in ORDER]


STEPWISE = ALL | ArmFlag.STEPWISE
KEYS = tuple(bytes([17 * (step + 1)]) * 16 for step in range(len(ORDER)))


def _words(half: bytes) -> tuple[int, int]:
    return int.from_bytes(half[:4], "little"), int.from_bytes(half[4:], "little")


def test_step_by_step_each_call_is_opened_and_tagged_by_the_key_handed_out_for_it(
    start: Start,
) -> None:
    with start() as runner:
        runner.start()
        runner.capture(Ways())
        for _ in range(2):
            contents = _seal(runner)
            for slot, key in zip(ORDER, KEYS, strict=True):
                begin = slot * STRIDE + SEALED
                runner.arena[begin : begin + COUNT * 4] = sealed(
                    _bytes(contents[slot]), _words(key[:8]), slot, 0
                )
            assert runner.arm(ORDER, STEPWISE).reply == RunnerReply.DONE
            reply, tags = runner.go_stepwise(KEYS)
            assert reply.reply == RunnerReply.DONE
            for slot in ORDER:
                np.testing.assert_array_equal(_output(runner, slot), 2 * contents[slot])
            expected = [
                tag(_bytes(_output(runner, slot)), _words(key[8:]), slot, 1)
                for slot, key in zip(ORDER, KEYS, strict=True)
            ]
            assert tags == [[one] for one in expected[:-1]]
            assert runner.report().tags[: len(ORDER)] == expected


def test_keys_of_calls_that_are_not_captured_are_not_handed_out(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.capture(Ways(way=2, device_to_host=True))
        without = ArmFlag.FLUSH | ArmFlag.HOST | ArmFlag.STEPWISE
        assert runner.arm(ORDER, without).number == Armed.YES
        reply = runner.arm(ORDER, without | ArmFlag.SOLVE)
        assert (reply.reply, reply.text) == (
            RunnerReply.BROKEN,
            "batch: uncaptured calls step by step",
        )


def test_a_gpu_that_cannot_see_memory_of_the_host_has_no_stepwise_batches(
    sanitized: Parts, start: Start
) -> None:
    environment = {**sanitized.environment, "FAKE_CUDA_FAIL": "cuMemHostRegister_v2=2"}
    with start(replace(sanitized, environment=environment)) as runner:
        runner.start()
        runner.capture(Ways())
        reply = runner.arm(ORDER, STEPWISE)
        assert (reply.reply, reply.number) == (RunnerReply.DONE, Armed.NOT_STEPWISE)
        assert (reply.address, reply.text) == (2, "")
        _seal(runner)
        assert runner.arm(ORDER, ALL).number == Armed.YES
        assert runner.go().reply == RunnerReply.DONE


def test_what_flushes_l2_lies_where_all_runners_write(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.capture(Ways())
        _seal(runner)
        runner.arm(ORDER, ArmFlag.SOLVE)
        runner.go()
        assert not runner.flushed().any()
        runner.arm(ORDER, ALL)
        runner.go()
        assert (runner.flushed() == ORDER[-1]).all()


def test_a_solve_that_reads_back_is_called_in_each_step(start: Start) -> None:
    ways = Ways(way=2, device_to_host=True)
    with start() as runner:
        runner.start()
        captured = runner.capture(ways)
        assert captured.number == Captured.HOST_INCLUSIVE
        assert captured.text.startswith("solve reads results back")
        contents = _seal(runner)
        runner.arm(ORDER, ALL | ArmFlag.HOST)
        runner.go()
        for slot in ORDER:
            np.testing.assert_array_equal(_output(runner, slot), 2 * contents[slot])
        assert _tags(runner, len(ORDER)) == [
            tag(_bytes(_output(runner, slot)), KEY[2:], slot, 1) for slot in ORDER
        ]


def test_a_capture_that_is_spoilt_ends_and_leaves_the_runner_usable(start: Start) -> None:
    with start() as runner:
        runner.start()
        captured = runner.capture(Ways(way=4))
        assert captured.number == Captured.HOST_INCLUSIVE
        assert captured.text.startswith("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
        assert runner.capture(Ways()).number == Captured.YES


def test_a_capture_logs_one_call(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.capture(Ways(way=1))
        assert runner.report().launches == 1


def test_a_context_lost_in_the_warm_up_is_the_last_word(start: Start) -> None:
    with start() as runner:
        runner.start()
        assert runner.capture(Ways(way=9)).reply == RunnerReply.FAULTED


def test_a_slot_that_was_not_captured_is_a_mistake_of_ours(start: Start) -> None:
    with start() as runner:
        runner.start()
        runner.capture(Ways(), slots=2)
        reply = runner.arm(ORDER, ALL)
        assert (reply.reply, reply.text) == (
            RunnerReply.BROKEN,
            "batch: a slot that was not captured",
        )


def test_a_graph_without_memory_is_said_and_means_that_it_ran_out(
    sanitized: Parts, start: Start
) -> None:
    environment = {**sanitized.environment, "FAKE_CUDA_FAIL": "cuGraphInstantiateWithFlags=2"}
    with start(replace(sanitized, environment=environment)) as runner:
        runner.start()
        runner.capture(Ways())
        reply = runner.arm(ORDER, ALL)
        assert reply.reply == RunnerReply.BROKEN
        assert reply.text.startswith("graph: CUDA_ERROR_OUT_OF_MEMORY")
        context = CallContext(log=CallLog(), limit_s=1.0, order=Order.ARM, arena=range(0))
        ended = RunnerEnded(status=0, final_reply=reply, expired=False)
        assert isinstance(verdict_on_end(ended, context), OutOfMemory)
