"""Two searches at once, each told of as it goes: `python examples/optimize_async.py`.

In a notebook the last line is `await main()`.
"""

import asyncio

from cuda_llm import aoptimize
from cuda_llm.extend import Event, IncumbentChosen


def watch(name: str, event: Event) -> None:
    if isinstance(event, IncumbentChosen):
        print(f"{name}, round {event.round}: {event.reason}")


async def search(task: str) -> None:
    result = await aoptimize(
        task,
        candidates=2,
        rounds=2,
        max_minutes=15,
        observers=[lambda event: watch(task, event)],
    )
    print(f"{task}: {result.speedup or 0:.2f}x, {result.file}")


async def main() -> None:
    await asyncio.gather(search("vector_add"), search("matrix_transpose"))


if __name__ == "__main__":
    asyncio.run(main())
