"""A task in words: what a kernel must do to be right, and what it may use. Never hidden sizes."""

from cuda_llm.agents.quote import one_line
from cuda_llm.agents.situation import Situation
from cuda_llm.tasks.task import SummationOrder, Task, ToleranceClass
from cuda_llm.wording import say_dims

_ROUNDING = {"fp32": "2^-24", "tf32": "2^-11", "fp16": "2^-11", "bf16": "2^-8"}
_SCALE = {
    ToleranceClass.ELEMENTWISE: "the size of the element itself",
    ToleranceClass.REDUCTION: "the sum of the magnitudes of its terms",
    ToleranceClass.DOT: "the sum of the magnitudes of its products",
}


def say_tolerance(task: Task) -> str:
    """When a result counts as right."""
    tolerance = task.tolerance
    if task.comparator:
        return "The task's own rule judges the result."
    if tolerance.kind == ToleranceClass.EXACT:
        return "Every element of the outputs must be exactly right, bit for bit."
    unit = _ROUNDING.get(tolerance.precision, "one rounding")
    allowed = f"{tolerance.max_units:g} roundings" if tolerance.max_units else "a few roundings"
    if not tolerance.max_units and tolerance.kind != ToleranceClass.ELEMENTWISE:
        allowed = "what rounding at every step adds up to"
    rule = (
        f"Every element is compared with a float64 reference. Allowed is {allowed} in "
        f"{tolerance.precision} ({unit} each), relative to {_SCALE[tolerance.kind]}"
    )
    orders = {
        SummationOrder.ANY: "Terms may be added in any order.",
        SummationOrder.TREE: "Partial sums must be combined pairwise, as a tree.",
    }
    adds = tolerance.kind in (ToleranceClass.REDUCTION, ToleranceClass.DOT)
    return f"{rule}. {orders[tolerance.order]}" if adds else f"{rule}."


def say_dims_of(task: Task) -> tuple[str, ...]:
    """What each dim means, and what always holds of them."""
    meanings = (f"{name}: {meaning}" for name, meaning in task.dims.items())
    return (*meanings, *((f"always holds: {task.requires}",) if task.requires else ()))


def say_sizes(situation: Situation) -> str:
    """The sizes that are timed."""
    return "; ".join(say_dims(dims) for dims in situation.sizes)


def say_allowed(task: Task) -> tuple[str, ...]:
    """What this task allows beyond launching kernels."""
    allowed = task.capabilities
    lines = []
    if allowed.scratch_bytes.strip() != "0":
        lines.append(
            f"device memory of its own, {allowed.scratch_bytes} bytes at most (cudaMalloc or "
            "cudaMallocAsync and the matching free, inside every call)"
        )
    if allowed.device_to_host:
        lines.append("copies from device to host")
    if allowed.header_libraries:
        names = ", ".join(one_line(name) for name in allowed.header_libraries)
        lines.append(f"header libraries: {names}")
    if allowed.defines:
        pairs = ", ".join(f"{name}={value}" for name, value in allowed.defines.items())
        lines.append(f"macros it is compiled with: {one_line(pairs)}")
    if allowed.flags:
        lines.append(f"flags it is compiled with: {one_line(' '.join(allowed.flags))}")
    return tuple(lines)
