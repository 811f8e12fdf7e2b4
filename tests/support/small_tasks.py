"""Shipped tasks cut down to sizes that take little time."""

from dataclasses import replace

from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.cases import work


def small_task(name: str, most_work: float = 1.2e5) -> Task:
    """The task with its cheapest edge sizes alone, which take a millisecond, and hidden sizes no
    dearer than those."""
    task = load_task(name)
    edge = tuple(dims for dims in task.sizes.edge if work(task, dims) <= most_work)
    hidden = replace(
        task.sizes.hidden,
        cost=f"({task.roofline.flops}) + ({task.roofline.bytes})",
        max_cost=most_work,
        count=2,
    )
    largest = max(edge, key=lambda dims: work(task, dims))
    few = {"edge": edge, "emulated": (largest,), "bench": (largest,), "large": ()}
    sizes = replace(task.sizes, hidden=hidden, **few)
    return replace(task, sizes=sizes, weights=())


def with_one_bench_size(task: Task, at: int = 0) -> Task:
    """The task with one of its `bench` sizes alone, the first or another."""
    return replace(task, sizes=replace(task.sizes, bench=(task.sizes.bench[at],)), weights=())
