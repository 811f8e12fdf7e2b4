"""Starts a worker on a cluster, with its device open and prepared.

A worker with a GPU needs this package and a driver. Native parts are built on this machine for the
worker's GPU and travel to the worker, unless its machine has compilers.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.errors import UsageError
from cuda_llm.tools.cluster.bundle import Contents
from cuda_llm.tools.cluster.connection import RemoteActor, WorkerGone, start_actor
from cuda_llm.tools.cluster.parcel import exchange, pack, unpack
from cuda_llm.tools.cluster.worker import (
    DeviceWorker,
    OpenDevice,
    OpenOrder,
    PrepareOrder,
    WorkerFacts,
    code_hash,
)
from cuda_llm.tools.cuda.build import gpu_parts
from cuda_llm.tools.cuda.messages import WorkDone, WorkFailed
from cuda_llm.tools.native import build_in_thread

START_S = 30.0
"""Longest seconds until a worker that Ray has room for answers for the first time."""
OPEN_S = 600.0
"""Longest seconds until a worker's device is open, and as long until the device is prepared: a
machine with compilers builds native parts at first use."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The device, cores and GPUs of a cluster that one worker takes."""

    spec: str
    """Text that opens the worker's device there: `cuda:0` or `emulated:GPU`."""
    cpus: float
    gpus: float
    node: str = ""
    """Id of the node; empty for any node."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A process that holds an open device."""

    actor: RemoteActor
    facts: WorkerFacts
    known: set[str] = field(default_factory=set)
    """Keys of the bundles that have arrived at the worker."""


async def start_worker(place: Place, open_device: OpenDevice, start_s: float = START_S) -> Worker:
    """Start a worker, and have the worker open and prepare its device.

    Raises WorkerGone where Ray finds no room for the worker within `start_s` or the worker dies,
    UsageError where the worker runs other code, and what opening and preparing the device raise.
    """
    actor = start_actor(DeviceWorker, cpus=place.cpus, gpus=place.gpus, node=place.node)
    try:
        async with asyncio.timeout(start_s):
            host, code = await actor.call("tell_code")
        if code != code_hash():
            raise UsageError(
                f"{host} runs other code of cuda-llm ({code}) than this process "
                f"({code_hash()}); install the same version there"
            )
        order = pack(OpenOrder(open_device=open_device, spec=place.spec)).payload
        async with asyncio.timeout(OPEN_S):
            facts: WorkerFacts = result_of(unpack(await actor.call("open", order)))
        worker = Worker(actor=actor, facts=facts)
        is_given = place.gpus and not facts.builds
        parts = (
            await build_in_thread(lambda: gpu_parts(facts.device.hardware.target))
            if is_given
            else {}
        )
        async with asyncio.timeout(OPEN_S):
            await prepare(worker, PrepareOrder(parts=parts))
    except TimeoutError:
        actor.kill()
        raise WorkerGone("no worker could be started: all that it takes is in use") from None
    except BaseException:
        actor.kill()
        raise
    return worker


async def prepare(worker: Worker, order: PrepareOrder) -> None:
    """Have a worker prepare its device, with the files that the worker lacks. Raises what preparing
    the device raises."""
    parcel = pack(order)

    async def ask(contents: Contents) -> tuple[bytes, Contents]:
        found: tuple[bytes, Contents] = await worker.actor.call("prepare", parcel.payload, contents)
        return found

    result_of(await exchange(parcel, worker.known, ask))


def result_of(reply: WorkDone | WorkFailed) -> Any:
    """Return the result of a reply. Raises the error that a WorkFailed carries."""
    if isinstance(reply, WorkFailed):
        raise reply.error
    return reply.result
