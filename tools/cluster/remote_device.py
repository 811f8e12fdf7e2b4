"""A device of a cluster, as the orchestrator holds it: a worker has it, and does the work.

A worker that dies or falls silent is replaced, on another machine if need be, and its work is done
again. The answer of the first, should it still come, is not looked at: no verdict counts twice.
"""

import asyncio
import time
import weakref
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cuda_llm.errors import (
    BrokenByWork,
    CudaLLMError,
    DeviceLost,
    InfrastructureError,
)
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

MOST_WORKERS = 3
"""That one work may cost before it is what is broken."""
PING_S = 5.0
"""Between two questions whether a worker is there."""
RETURN_S = 40.0
"""Until there is room for another worker where one is gone. Ray itself ends a process that has
missed the head of its cluster for 60 s."""
AGAIN_S = 1.0
_log = Log(__name__)


class RemoteDevice(ForwardingDevice):
    """One device of one kind. It takes one work at a time, in order of arrival."""

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
        """`spec` opens a device of this kind again; a worker that is silent for `silence_s`, or not
        done after `limit_s`, counts as gone."""
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
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )

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
        """See `Device.carry_out`.

        Raises BrokenByWork where the work has cost several workers, DeviceLost where a worker that
        is gone could not be replaced.
        """
        parcel = pack(work)
        gone: list[str] = []
        async with self._turn():
            while len(gone) < MOST_WORKERS:
                worker = self._worker or await self._replace()
                try:
                    with self._ended_unless_done(worker):
                        reply = await self._ask(worker, parcel)
                except WorkerGone as lost:
                    _log.warning("worker is gone", device=self.name, reason=str(lost))
                    gone.append(str(lost))
                    continue
                result: T = result_of(reply)
                return result
        raise BrokenByWork("worker", f"{self.name}: one work cost {len(gone)} workers: {gone[-1]}")

    async def _ask(self, worker: Worker, parcel: Parcel) -> WorkDone | WorkFailed:
        """Send one work with the files that the worker lacks, and return its reply."""

        async def ask(contents: Contents) -> tuple[bytes, Contents]:
            call = worker.actor.call("carry_out", parcel.payload, contents)
            found: tuple[bytes, Contents] = await self._watched(worker, call)
            return found

        reply = await exchange(parcel, worker.known, ask)
        if not isinstance(reply, WorkDone | WorkFailed):
            raise InfrastructureError("worker", f"{self.name} answers what is no answer")
        return reply

    async def _watched(self, worker: Worker, call: Awaitable[Any]) -> Any:
        """Wait for an answer. Raises WorkerGone once the worker is silent or out of time."""
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
        """Raise WorkerGone when the worker does not answer any more."""
        while True:
            await asyncio.sleep(PING_S)
            try:
                async with asyncio.timeout(self._silence_s):
                    await worker.actor.call("ping")
            except TimeoutError:
                raise WorkerGone(f"no sign of life for {self._silence_s:g} s") from None

    async def _replace(self) -> Worker:
        """Return a worker on any node that has a device of this kind. Raises DeviceLost."""
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
        # Ended with this device, or with Python.
        self._at_end = weakref.finalize(self, worker.actor.kill)

    @contextmanager
    def _ended_unless_done(self, worker: Worker) -> Iterator[None]:
        """End the worker where its work is cancelled or it seems gone: nothing is left running."""
        try:
            yield
        except (WorkerGone, asyncio.CancelledError, KeyboardInterrupt):
            self._worker = None
            if self._at_end is not None:
                self._at_end()
            raise

    def _turn(self) -> asyncio.Lock:
        """Return the queue of the running event loop: first come, first served."""
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
