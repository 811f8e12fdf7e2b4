"""The library's front door: `optimize` and `aoptimize`."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from cuda_llm.graph.overrides import Overrides
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.result import Result
from cuda_llm.graph.runs.start import start
from cuda_llm.search import Components, HardwareContext
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.traces.recorder import Observer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_llm.agents.generator import Generator
    from cuda_llm.agents.reflector import Reflector
    from cuda_llm.agents.seam import PlacedAgent
    from cuda_llm.agents.strategy import Strategy
    from cuda_llm.agents.tuner import Tuner
    from cuda_llm.graph.judging.bench import Bench
    from cuda_llm.tools.device import Device


class Options(TypedDict, total=False):
    """What a run can be told beside its parts; each as in `RunRequest`."""

    candidates: int
    rounds: int
    seed: int
    patience: int
    round_quorum: int
    tune: int
    start: str
    hints: tuple[str, ...]
    base_url: str
    prompts: str
    hardware_context: HardwareContext
    components: Components
    budget_usd: float | None
    max_tokens: int | None
    max_minutes: float | None
    out: str
    run_id: str


class Parts(TypedDict, total=False):
    """What may hold objects of your own, beside the parts that have a keyword each."""

    agent_models: "Mapping[str, str | BaseChatModel]"
    """By the name of an agent, generator or reflector of your own: the model that it asks."""
    reflector: "Reflector"
    tuner: "Tuner"
    bench: "Bench"


class Everything(Options, Parts):
    """All that may be said by keyword."""


async def aoptimize(
    task: Task | str,
    *,
    model: "str | BaseChatModel" = "",
    reflection_model: "str | BaseChatModel" = "",
    generator: "str | Generator" = "auto",
    strategy: "str | Strategy" = "fsr",
    agents: "Sequence[str | PlacedAgent]" = (),
    device: "str | Device" = "auto",
    observers: Sequence[Observer] = (),
    **options: Unpack[Everything],
) -> Result:
    """Search the fastest kernel for a task that passes every check.

    Each part is a name, as on the command line, or an object of your own. `observers` are called
    with every event. Being cancelled leaves a run that `cuda-llm resume` goes on with. Raises
    UsageError and MissingError before any work starts.
    """
    named = {
        "model": model,
        "reflection_model": reflection_model,
        "generator": generator,
        "strategy": strategy,
        "device": device,
    }
    models = options.pop("agent_models", {})
    own = {name: part for name, part in options.items() if name in Parts.__annotations__}
    request = {name: value for name, value in options.items() if name not in own}
    request |= {name: part for name, part in named.items() if isinstance(part, str)}
    brought = own | {name: part for name, part in named.items() if not isinstance(part, str)}
    where, unknown = place_task(task)
    return await start(
        RunRequest(
            task=where,
            agents=tuple(one for one in agents if isinstance(one, str)),
            agent_models={name: one for name, one in models.items() if isinstance(one, str)},
            **request,  # type: ignore[arg-type]
        ),
        overrides=Overrides(
            task=unknown,
            agents=tuple(one for one in agents if not isinstance(one, str)),
            agent_models={name: one for name, one in models.items() if not isinstance(one, str)},
            **brought,  # type: ignore[arg-type]
        ),
        observers=observers,
    )


def optimize(
    task: Task | str,
    *,
    model: "str | BaseChatModel" = "",
    reflection_model: "str | BaseChatModel" = "",
    generator: "str | Generator" = "auto",
    strategy: "str | Strategy" = "fsr",
    agents: "Sequence[str | PlacedAgent]" = (),
    device: "str | Device" = "auto",
    observers: Sequence[Observer] = (),
    **options: Unpack[Everything],
) -> Result:
    """`aoptimize` for callers that do not await. Also where a loop runs already, as in a notebook:
    then the search has a thread of its own, and observers are called from there.
    """
    work = aoptimize(
        task,
        model=model,
        reflection_model=reflection_model,
        generator=generator,
        strategy=strategy,
        agents=agents,
        device=device,
        observers=observers,
        **options,
    )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return run_aside(work)


def place_task(task: Task | str) -> tuple[str, Task | None]:
    """What names the task, and the task itself where its folder does not say all of it."""
    if isinstance(task, str):
        return task, None
    shipped = task.name in list_tasks() and load_task(task.name).folder == task.folder
    name = task.name if shipped else str(task.folder)
    return name, None if load_task(name) == task else task


def run_aside(work: Coroutine[Any, Any, Result]) -> Result:
    """Run it in a loop of its own; Ctrl-C here ends it there, cleanly, before it is passed on."""
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
