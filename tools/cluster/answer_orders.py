"""Answers the works that wait in a folder, on the machine that has the device."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from cuda_llm.errors import InfrastructureError, UsageError
from cuda_llm.tools.cluster.order_folder import Letter, OrderFolder, written_by
from cuda_llm.tools.cluster.parcel import pack
from cuda_llm.tools.cluster.worker import answer, describe, send
from cuda_llm.tools.cuda.messages import WorkDone, WorkFailed
from cuda_llm.tools.device import Device, Work
from cuda_llm.tools.judge.judge import StepRetry, StepTry

LOOK_S = 0.5
"""Seconds between two looks for orders."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What was done with the orders of a folder."""

    answered: int = 0
    failed: int = 0
    """Answers that say that the work raised."""
    left: int = 0
    """Orders that still wait."""
    seconds: float = 0.0


async def answer_orders(
    folder: OrderFolder,
    device: Device,
    *,
    limit_s: float | None = None,
    watch: bool = False,
    report: Callable[[str], None],
) -> Answered:
    """Answer what waits, the oldest first; with `watch` go on until cancelled.

    No work is begun that would end after `limit_s` seconds if it took as long as the longest before
    it; a work that is not done then is given up, and waits on. Orders for another kind of GPU wait,
    too. `report` gets a line a work. Raises UsageError where an order was written by other code,
    and what opening the device raises.
    """
    began_s, longest_s = time.monotonic(), 0.0
    answered = failed = 0
    folder.prepare()
    described = Letter(payload=pack(describe(device)).payload, code=written_by())
    folder.describe_device(described)
    skipped = set[str]()
    while True:
        # A Ctrl-C is seen where the loop is entered, which works that never wait do not.
        await asyncio.sleep(0)
        todo = [one for one in folder.waiting() if one not in skipped]
        left_s = None if limit_s is None else limit_s - (time.monotonic() - began_s)
        if (not todo and not watch) or (left_s is not None and left_s <= longest_s):
            break
        if not todo:
            await asyncio.sleep(LOOK_S)
            continue
        name, started_s = todo[0], time.monotonic()
        try:
            async with asyncio.timeout(left_s):
                done = await _answer(folder, device, name)
        except TimeoutError:
            report(f"{name[:12]}  not done within the limit; it waits on")
            break
        if not isinstance(done, _Done):
            skipped.add(name)
            report(f"{name[:12]}  {done}")
            continue
        took_s = time.monotonic() - started_s
        longest_s = max(longest_s, took_s)
        answered += 1
        failed += isinstance(done.reply, WorkFailed)
        outcome = "" if isinstance(done.reply, WorkDone) else f": {done.reply.error}"
        report(f"{name[:12]}  {done.what}  {took_s:.1f} s, {len(todo) - 1} wait{outcome}")
    return Answered(
        answered=answered,
        failed=failed,
        left=len(folder.waiting()),
        seconds=time.monotonic() - began_s,
    )


@dataclass(frozen=True, kw_only=True)
class _Done:
    what: str
    """The function of the work, and its candidate."""
    reply: WorkDone | WorkFailed


async def _answer(folder: OrderFolder, device: Device, name: str) -> _Done | str:
    """Answer one order; return why not where its files have not all arrived, or where it is for
    another kind of GPU."""
    letter = folder.read_order(name)
    if letter is None:
        return "is not whole yet; copy the folder again"
    if letter.gpu != device.hardware.name:
        return f"was compiled for {letter.gpu}, and waits for such a GPU"
    if letter.code != written_by():
        raise UsageError(
            f"{folder.root}: order {name[:12]} was written by other code of cuda-llm "
            f"({letter.code}, here {written_by()}); install the same version on both"
        )
    what = ""

    async def do(work: Work[object]) -> object:
        nonlocal what
        about = work.bound.get("candidate") or work.bound.get("file") or ""
        what = f"{work.function.__name__} {about}".strip()

        async def step(_trial: StepTry) -> object:
            return await device.carry_out(work)

        # Nobody waits to ask again: a round trip may take hours.
        return await StepRetry().run(step)

    reply = await answer(Work, do, letter.payload, letter.contents, functions=True)
    if not isinstance(reply, WorkDone | WorkFailed):
        raise InfrastructureError("device", "files that arrived are not kept in the cache")
    payload, contents = send(reply)
    folder.answer(name, Letter(payload=payload, code=written_by(), contents=contents))
    return _Done(what=what, reply=reply)
