"""What `hardware probe` tells, for a person and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cuda_llm.cli.json_text import json_text

if TYPE_CHECKING:
    from rich.table import Table

    from cuda_llm.tools.prober.compare import Figure
    from cuda_llm.tools.prober.probe import Clocks, Probe

SCHEMA = 1


def show_probe(device: str, probe: "Probe", figures: "Sequence[Figure]", kept: Path) -> None:
    """Published beside measured, copies by size, launches, clocks, and what is missing."""
    from rich.console import Console

    console = Console()
    typer.echo(f"{device} {probe.gpu} · CUDA {probe.cuda} · everything below is measured")
    console.print(figure_table(figures))
    console.print(copy_table(probe))
    graph, alone = probe.launch_graph_us, probe.launch_alone_us
    fill = probe.fill_graph_us
    typer.echo(f"launch    {graph:.2f} us in a graph, {fill:.2f} us a fill, {alone:.1f} us alone")
    barrier, together = probe.grid_barrier_us, probe.cooperative_launch_us
    typer.echo(
        f"barrier   {barrier:.2f} us for the whole grid, whose launch adds {together:.2f} us"
    )
    typer.echo(f"clocks    idle {clocks(probe.idle)}; under load {clocks(probe.loaded)}")
    for note in probe.notes:
        typer.echo(f"note      {note}")
    typer.echo(f"kept      {kept}")


def figure_table(figures: "Sequence[Figure]") -> "Table":
    """A row a figure."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("figure")
    for title in ("published", "measured", "share"):
        table.add_column(title, justify="right")
    for one in figures:
        published = f"{one.published:,.4g} {one.unit}" if one.published else ""
        share = f"{one.share:.0%}" if one.share is not None else ""
        table.add_row(one.name, published, f"{one.measured:,.4g} {one.unit}", share)
    return table


def copy_table(probe: "Probe") -> "Table":
    """A row a size."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("bytes moved", "cold GB/s", "warm GB/s"):
        table.add_column(title, justify="right")
    for one in probe.copies:
        table.add_row(size(one.moved_bytes), f"{one.cold_gb_s:,.0f}", f"{one.warm_gb_s:,.0f}")
    return table


def size(count: int) -> str:
    """`4 MiB`, `2 GiB`."""
    return f"{count >> 30} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


def clocks(read: "Clocks | None") -> str:
    """Clocks and what holds them down."""
    if read is None:
        return "unknown"
    held = f" ({', '.join(read.reasons)})" if read.reasons else ""
    return f"{read.sm_mhz:,} MHz, memory {read.memory_mhz:,} MHz{held}"


def probe_document(device: str, probe: "Probe", figures: "Sequence[Figure]") -> str:
    """The same as one JSON text."""
    told = [{**asdict(one), "share": one.share} for one in figures]
    whole = {"schema": SCHEMA, "device": device, "source": "measured", **asdict(probe)}
    return json_text({**whole, "figures": told})
