"""The library's front door: `optimize` and `aoptimize`."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Unpack

from cuda_llm.graph.request import Overrides, RunOptions, RunRequest, make_request
from cuda_llm.graph.runs.result import Result
from cuda_llm.graph.runs.start import start
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.traces.event_log import Observer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_llm.agents.protocols import Generator, PlacedAgent, Reflector, Strategy, Tuner
    from cuda_llm.tools.device import Device
    from cuda_llm.tools.judge.bench import Bench


class OptimizeKeywords(RunOptions, total=False):
    """What `optimize` takes beside the task: every option of a run, under the name that it has in
    `RunRequest`. Where an option names a part, an object of one's own will do as well."""

    device: "str | Device"
    generator: "str | Generator"
    strategy: "str | Strategy"
    model: "str | BaseChatModel"
    reflection_model: "str | BaseChatModel"
    agents: "Sequence[str | PlacedAgent]"
    agent_models: "Mapping[str, str | BaseChatModel]"
    run_id: str
    reflector: "Reflector"
    tuner: "Tuner"
    bench: "Bench"
    observers: Sequence[Observer]
    """Called with every event."""


async def aoptimize(task: Task | str, **keywords: Unpack[OptimizeKeywords]) -> Result:
    """Search the fastest kernel for a task that passes every check.

    What is not given is as on the command line, settings included. Being cancelled leaves a run
    that `cuda-llm resume` goes on with. Raises UsageError and MissingError before any work starts.
    """
    observers = keywords.pop("observers", ())
    request, overrides = split_keywords(task, keywords)
    return await start(request, overrides=overrides, observers=observers)


def optimize(task: Task | str, **keywords: Unpack[OptimizeKeywords]) -> Result:
    """`aoptimize` for callers that do not await. Also where a loop runs already, as in a notebook:
    then the search has a thread of its own, and observers are called from there.
    """
    work = aoptimize(task, **keywords)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return run_in_thread(work)


def split_keywords(task: Task | str, keywords: Mapping[str, Any]) -> tuple[RunRequest, Overrides]:
    """Split keywords into the request (names and values) and the overrides (objects).

    Raises TypeError for a keyword that is none, UsageError for a value of a wrong type.
    """
    plain, own = RunRequest.__dataclass_fields__, {one.name for one in fields(Overrides)}
    request: dict[str, Any] = {}
    brought: dict[str, Any] = {}
    for name, value in keywords.items():
        if name not in {*plain, *own} - {"task"}:
            raise TypeError(f"optimize() got an unexpected keyword argument {name!r}")
        if name == "agents":
            request[name] = tuple(one for one in value if isinstance(one, str))
            brought[name] = tuple(one for one in value if not isinstance(one, str))
        elif name == "agent_models":
            request[name] = {key: one for key, one in value.items() if isinstance(one, str)}
            brought[name] = {key: one for key, one in value.items() if not isinstance(one, str)}
        elif name in own and not isinstance(value, str):
            brought[name] = value
        else:
            request[name] = value
    request["task"], brought["task"] = name_task(task)
    return make_request(request), Overrides(**brought)


def name_task(task: Task | str) -> tuple[str, Task | None]:
    """Return the task's name or folder, and the task itself where its folder differs from it."""
    if isinstance(task, str):
        return task, None
    shipped = task.name in list_tasks() and load_task(task.name).folder == task.folder
    name = task.name if shipped else str(task.folder)
    return name, None if load_task(name) == task else task


def run_in_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread of its own; Ctrl-C cancels it there before it is raised here."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()
    done: Future[Result] = Future()

    async def main() -> Result:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    def run() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="cuda-llm")
    thread.start()
    try:
        return done.result()
    except KeyboardInterrupt:
        loop, task = begun.result()
        assert task is not None, "a coroutine that runs is a task"
        loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
