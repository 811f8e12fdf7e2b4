"""Streams and events of a solve's own: joined ones are right in every order, the others show."""

import asyncio

import numpy as np
import pytest
from device_calls import call_once, compiled

from cuda_llm.outcomes import PolicyBreach, PolicyViolation, Verdict
from cuda_llm.tools.device import CallOptions, CallReport, Level, Session
from cuda_llm.tools.open_device import DEFAULT_GPU, open_emulated

SOURCE = """
__global__ void copy(const float* a, float* c, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) c[i] = a[i];
}
__global__ void add(const float* b, float* c, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) c[i] += b[i];
}
#define COPY(stream) copy<<<(n + 255) / 256, 256, 0, stream>>>(a, c, n)
#define ADD(stream) add<<<(n + 255) / 256, 256, 0, stream>>>(b, c, n)
extern "C" void solve(const float* a, const float* b, float* c, int n, int way, unsigned flags) {
    cudaStream_t s, t;
    cudaEvent_t e, f;
    cudaStreamCreateWithFlags(&s, flags);
    cudaStreamCreateWithPriority(&t, flags, -1);
    cudaEventCreate(&e);
    cudaEventCreateWithFlags(&f, cudaEventDisableTiming);
    switch (way) {
CASES
    }
    cudaEventDestroy(e);
    cudaEventDestroy(f);
    cudaStreamDestroy(s);
    cudaStreamDestroy(t);
}
"""
RECORD_WAIT = "cudaEventRecord({0}, {1}); cudaStreamWaitEvent({2}, {0}, 0);"


def after(event: str, stream: str, waits: str) -> str:
    return RECORD_WAIT.format(event, stream, waits)


HONEST = {
    "host waits": "COPY(s); ADD(s); cudaStreamSynchronize(s);",
    "host waits for the device": "COPY(s); ADD(s); cudaDeviceSynchronize();",
    "host waits for an event": "COPY(t); ADD(t); cudaEventRecord(e, t); cudaEventSynchronize(e);",
    "host asks until it is done": "COPY(t); ADD(t); while (cudaStreamQuery(t)) {}",
    "default waits": "COPY(s);" + after("e", "s", "0") + "ADD(0);",
    "side waits": "COPY(0);" + after("e", "0", "s") + "ADD(s); cudaStreamSynchronize(s);",
    "chain": "COPY(t);" + after("e", "t", "s") + "ADD(s);" + after("f", "s", "0"),
    "chain back": "COPY(s);" + after("e", "s", "t") + "ADD(t);" + after("f", "t", "0"),
    "fill before": "cudaMemsetAsync(c, 0, 4 * n, s); COPY(s); ADD(s); cudaStreamSynchronize(s);",
    "copy of the host's": "cudaMemcpyAsync(c, a, 4 * n, cudaMemcpyDeviceToDevice, s); ADD(s);"
    "cudaStreamSynchronize(s);",
    "copy joins": "COPY(s); ADD(s); cudaFree(0); int* p; cudaMalloc(&p, 4); cudaFree(p);",
    "ping-pong": "COPY(s); for (int i = 0; i < 3000; ++i) {"
    + after("e", "s", "t")
    + after("f", "t", "s")
    + "} ADD(s); cudaDeviceSynchronize();",
}
BLOCKING_HONEST = {
    "default after side": "COPY(s); ADD(0);",
    "side after default": "COPY(0); ADD(s); cudaStreamSynchronize(s);",
    "side, default, side": "COPY(s); copy<<<1, 1>>>(a, c, 1); ADD(t); cudaStreamSynchronize(t);",
}
WRONG = {
    "default does not wait": "COPY(s); ADD(0); cudaDeviceSynchronize();",
    "side does not wait": "COPY(0); ADD(s); cudaDeviceSynchronize();",
    "other side does not wait": "COPY(s); ADD(t); cudaDeviceSynchronize();",
    "other side does not wait, back": "COPY(t); ADD(s); cudaDeviceSynchronize();",
    "event before the work": "cudaEventRecord(e, s); COPY(s); cudaStreamWaitEvent(0, e, 0);"
    "ADD(0); cudaDeviceSynchronize();",
    "event that was not recorded": "COPY(s); cudaStreamWaitEvent(t, e, 0); ADD(t);"
    "cudaDeviceSynchronize();",
    "fill on another stream": "cudaMemsetAsync(c, 0, 4 * n); COPY(s); ADD(s);"
    "cudaDeviceSynchronize();",
    "wait before the record": "cudaStreamWaitEvent(t, e, 0); COPY(s); cudaEventRecord(e, s);"
    "ADD(t); cudaStreamSynchronize(s); cudaStreamSynchronize(t);",
    "the copy back on another stream": "COPY(s); cudaStreamSynchronize(s); ADD(0);"
    "cudaMemcpyAsync(c, a, 4 * n, cudaMemcpyDeviceToDevice, t); cudaDeviceSynchronize();",
}
UNJOINED = {
    "nobody waits": ("copy", "COPY(s); ADD(s);"),
    "host waits for the other": ("copy", "COPY(s); ADD(s); cudaStreamSynchronize(t);"),
    "host waits too early": ("add", "COPY(s); cudaStreamSynchronize(s); ADD(s);"),
    "default waits too early": ("add", "COPY(s);" + after("e", "s", "0") + "ADD(s);"),
}
SEEDS = range(16)
N = 1000


STEPS = [*HONEST.values(), *BLOCKING_HONEST.values(), *WRONG.values()]
STEPS += [steps for _, steps in UNJOINED.values()]
BLOCKING, NON_BLOCKING = 0, 1


def outcomes(steps: str, flags: int = NON_BLOCKING) -> list[bool | Verdict]:
    """Whether each of several schedules was right, or its verdict."""
    cases = [f"case {way}: {{ {one} }} break;" for way, one in enumerate(STEPS)]
    source = SOURCE.replace("CASES", "\n".join(cases))
    a, b = np.arange(N, dtype=np.float32), np.full(N, 3, np.float32)

    async def every() -> list[bool | Verdict]:
        device = open_emulated(DEFAULT_GPU)
        made = await compiled(source, device.hardware.target)
        found: list[bool | Verdict] = []
        while len(found) < len(SEEDS):
            async with device.open(made) as session:
                assert isinstance(session, Session)
                for seed in SEEDS[len(found) :]:
                    options = CallOptions(level=Level.CHECK, schedule_seed=seed)
                    values = {"a": a, "b": b, "c": np.full(N, -7, np.float32)}
                    scalars = [N, STEPS.index(steps), flags]
                    called = await call_once(session, values, ["c"], scalars, options)
                    if not isinstance(called.outcome, CallReport):
                        found.append(called.outcome)
                        break
                    found.append(np.array_equal(called.outputs["c"], a + b))
        return found

    return asyncio.run(every())


@pytest.mark.parametrize("name", HONEST)
def test_work_that_is_waited_for_is_right_in_every_order(name: str) -> None:
    assert outcomes(HONEST[name]) == [True] * len(SEEDS)


@pytest.mark.parametrize("name", BLOCKING_HONEST)
def test_the_default_stream_and_blocking_streams_wait_for_each_other(name: str) -> None:
    assert outcomes(BLOCKING_HONEST[name], BLOCKING) == [True] * len(SEEDS)


@pytest.mark.parametrize("name", WRONG)
def test_a_wait_that_is_missing_shows_in_some_order(name: str) -> None:
    found = outcomes(WRONG[name])
    assert not all(one is True for one in found)


@pytest.mark.parametrize("name", UNJOINED)
def test_work_that_nobody_waits_for_is_refused_in_every_order(name: str) -> None:
    kernel, steps = UNJOINED[name]
    breach = PolicyBreach(kind="unjoined-stream", names=(kernel,))
    refused = PolicyViolation(rule="api-call", breach=breach)
    assert outcomes(steps) == [refused] * len(SEEDS)
