"""A device of a cluster, as the orchestrator holds the device: a worker has it, and does the works.

A worker that dies or falls silent is replaced before the next work, on another machine if need be.
The answer of the first worker, should it still come, is not read: no verdict counts twice.
"""

import asyncio
import time
import weakref
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cuda_llm.each_loop import EachLoop
from cuda_llm.errors import CudaLLMError, DeviceLost, InfrastructureError, WorkerLost
from cuda_llm.log import Log
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.cluster.bundle import Contents
from cuda_llm.tools.cluster.compilers import ClusterCompilers
from cuda_llm.tools.cluster.connection import WorkerGone
from cuda_llm.tools.cluster.parcel import Parcel, exchange, pack
from cuda_llm.tools.cluster.start_worker import (
    START_S,
    Place,
    Worker,
    result_of,
    start_worker,
)
from cuda_llm.tools.cluster.worker import OpenDevice
from cuda_llm.tools.cuda.messages import WorkDone, WorkFailed
from cuda_llm.tools.device import Device, ForwardingDevice, T, Work
from cuda_llm.tools.device.candidate import Compiled, CompileRequest

PING_S = 5.0
"""Seconds between two questions whether a worker is there."""
RETURN_S = 40.0
"""Longest seconds until another worker has taken the place of one that is gone. Ray itself ends a
process that has missed the head of its cluster for 60 s."""
AGAIN_S = 1.0
"""Seconds between two starts of a worker, while Ray has no room for one."""
_log = Log(__name__)


class RemoteDevice(ForwardingDevice):
    """One device of a worker. The device takes one work at a time, in order of arrival."""

    def __init__(
        self,
        worker: Worker,
        *,
        place: Place,
        open_device: OpenDevice,
        compilers: ClusterCompilers,
        spec: str,
        silence_s: float,
        limit_s: float,
    ) -> None:
        """`spec` is the text that opens a device of this kind; a worker that is silent for
        `silence_s`, or has not done a work after `limit_s`, counts as gone."""
        self.facts = worker.facts
        self.spec = spec
        self._compilers = compilers
        self._place = place
        self._open_device = open_device
        self._silence_s = silence_s
        self._limit_s = limit_s
        self._worker: Worker | None = None
        self._at_end: weakref.finalize[[], RemoteDevice] | None = None
        self._take(worker)
        self._turns = EachLoop[asyncio.Lock]()

    @property
    def target_device(self) -> Device:
        """Return the description of the device of the present worker."""
        return self.facts.device

    @property
    def compile_slots(self) -> int:
        """See `CompilingDevice.compile_slots`: those of the whole cluster."""
        return self._compilers.slots

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """See `CompilingDevice.compile`."""
        return await self._compilers.compile(request)

    async def carry_out(self, work: Work[T]) -> T:
        """Do `work` in the worker, and return its result.

        Raises WorkerLost where the worker is gone, DeviceLost where a worker that was gone before
        could not be replaced, and what the work raises.
        """
        parcel = pack(work)
        async with self._turns.here(asyncio.Lock):
            worker = self._worker or await self._replace()
            try:
                with self._ended_unless_done(worker):
                    reply = await self._ask(worker, parcel)
            except WorkerGone as gone:
                _log.warning("worker is gone", device=self.name, reason=str(gone))
                raise WorkerLost("worker", f"{self.name} is gone: {gone}") from gone
            result: T = result_of(reply)
            return result

    async def _ask(self, worker: Worker, parcel: Parcel) -> WorkDone | WorkFailed:
        """Send one work with the files that the worker lacks, and return the worker's reply."""

        async def ask(contents: Contents) -> tuple[bytes, Contents]:
            call = worker.actor.call("carry_out", parcel.payload, contents)
            found: tuple[bytes, Contents] = await self._watched(worker, call)
            return found

        reply = await exchange(parcel, worker.known, ask)
        if not isinstance(reply, WorkDone | WorkFailed):
            raise InfrastructureError("worker", f"{self.name} answers what is no answer")
        return reply

    async def _watched(self, worker: Worker, call: Awaitable[Any]) -> Any:
        """Wait for a worker's answer. Raises WorkerGone once the worker is silent or out of
        time."""
        answer = asyncio.ensure_future(call)
        watch = asyncio.ensure_future(self._watch(worker))
        try:
            done, _ = await asyncio.wait(
                {answer, watch}, timeout=self._limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                raise WorkerGone(f"it was not done after {self._limit_s:g} s")
            return await (answer if answer in done else watch)
        finally:
            for one in (answer, watch):
                one.cancel()
            await asyncio.gather(answer, watch, return_exceptions=True)

    async def _watch(self, worker: Worker) -> None:
        """Ask the worker every PING_S whether it is there. Raises WorkerGone where it does not
        answer."""
        while True:
            await asyncio.sleep(PING_S)
            try:
                async with asyncio.timeout(self._silence_s):
                    await worker.actor.call("ping")
            except TimeoutError:
                raise WorkerGone(f"no sign of life for {self._silence_s:g} s") from None

    async def _replace(self) -> Worker:
        """Start a worker on any node that has a device of this kind, and return the worker.

        Raises DeviceLost where none could be started within RETURN_S.
        """
        place = replace(self._place, node="")
        until_s = time.monotonic() + RETURN_S
        why = "none was started"
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                worker = await start_worker(place, self._open_device, min(left_s, START_S))
            except (WorkerGone, CudaLLMError) as error:
                why = str(error)
            else:
                if worker.facts.device.version == self.version:
                    self._take(worker)
                    return worker
                why = f"{worker.facts.device.name} is another device"
                worker.actor.kill()
            await asyncio.sleep(AGAIN_S)
        remedy = "look at `ray status`, start workers, then resume the run"
        msg = f"the worker of {self.name} is gone and none took its place ({why}); {remedy}"
        raise DeviceLost("cluster", msg)

    def _take(self, worker: Worker) -> None:
        self._worker, self.facts = worker, worker.facts
        # The worker is ended when this device is collected, or when Python ends.
        self._at_end = weakref.finalize(self, worker.actor.kill)

    @contextmanager
    def _ended_unless_done(self, worker: Worker) -> Iterator[None]:
        """End the worker where its work is cancelled or the worker counts as gone, so that nothing
        is left running there."""
        try:
            yield
        except (WorkerGone, asyncio.CancelledError, KeyboardInterrupt):
            self._worker = None
            if self._at_end is not None:
                self._at_end()
            raise
