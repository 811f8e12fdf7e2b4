"""The `[sizes]` table: dims of the cases by group, and where hidden ones are drawn from."""

from collections.abc import Mapping

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import DimRange, HiddenSizes, Roofline, Sizes
from cuda_llm.tasks.toml_table import TomlTable

Size = Mapping[str, int]


def read_sizes(
    table: TomlTable, dims: Mapping[str, str], requires: str, roofline: Roofline
) -> Sizes:
    """Read all groups. Raises TaskError where a size misses a dim or breaks `requires`."""
    bench, edge, emulated = (
        tuple(_read_size(size, dims, requires) for size in table.tables(group))
        for group in ("bench", "edge", "emulated")
    )
    if table.has("hidden"):
        hidden = _read_hidden(table.table("hidden"), dims)
    else:
        hidden = derive_hidden((*edge, *emulated), roofline)
    table.finish()
    return Sizes(bench=bench, edge=edge, emulated=emulated, hidden=hidden)


def derive_hidden(known: tuple[Size, ...], roofline: Roofline) -> HiddenSizes:
    """Ranges that span the known sizes and cost no more than the dearest of them."""
    cost = f"({roofline.flops}) + ({roofline.bytes})"
    return HiddenSizes(
        dims={
            name: DimRange(
                minimum=min(size[name] for size in known), maximum=max(size[name] for size in known)
            )
            for name in known[0]
        },
        cost=cost,
        max_cost=max(float(evaluate(cost, size)) for size in known),
    )


def _read_size(table: TomlTable, dims: Mapping[str, str], requires: str) -> Size:
    size = {name: table.whole(name) for name in dims}
    table.finish()
    if requires and not evaluate(requires, size):
        raise TaskError(f"{table.where}: found {size}; expected {requires}")
    return size


def _read_hidden(table: TomlTable, dims: Mapping[str, str]) -> HiddenSizes:
    ranges = {}
    inner = table.table("dims")
    for name in dims:
        limits = inner.table(name)
        minimum = limits.whole("min")
        multiple_of = limits.whole("multiple_of", 1)
        maximum = limits.whole("max", least=minimum)
        if maximum // multiple_of * multiple_of < minimum:
            limits.refuse("max", maximum, f"room for a multiple of {multiple_of} from {minimum} on")
        limits.finish()
        ranges[name] = DimRange(minimum=minimum, maximum=maximum, multiple_of=multiple_of)
    inner.finish()
    hidden = HiddenSizes(
        dims=ranges,
        count=table.whole("count", 4),
        cost=table.expression("cost", dims, "1"),
        max_cost=table.number("max_cost", float("inf")),
    )
    table.finish()
    return hidden
