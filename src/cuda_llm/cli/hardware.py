"""`cuda-llm hardware`: the GPUs there is a profile of, and those of this machine."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_llm.cli.json_text import json_text, print_document
from cuda_llm.cli.printing import open_console
from cuda_llm.errors import UsageError
from cuda_llm.own_thread import await_here

if TYPE_CHECKING:
    from rich.table import Table

    from cuda_llm.hardware_profiles.hardware import Hardware
    from cuda_llm.tools.cuda.driver_query import GpuAttributes
    from cuda_llm.tools.cuda.probe import Probe, ProbedClocks, ProbedFigure

PROBE_SCHEMA = 1

UNKNOWN_GPU = 1


def show_probe(device: str, probe: "Probe", figures: "Sequence[ProbedFigure]", kept: Path) -> None:
    """Print published beside measured, copies by size, launches, clocks, and what is missing."""
    console = open_console()
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
    typer.echo(f"clocks    idle {clocks_text(probe.idle)}; under load {clocks_text(probe.loaded)}")
    for note in probe.notes:
        typer.echo(f"note      {note}")
    typer.echo(f"kept      {kept}")


def figure_table(figures: "Sequence[ProbedFigure]") -> "Table":
    """Return a table with a row a figure."""
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
    """Return a table with a row a size."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("bytes moved", "cold GB/s", "warm GB/s"):
        table.add_column(title, justify="right")
    for one in probe.copies:
        table.add_row(size_text(one.moved_bytes), f"{one.cold_gb_s:,.0f}", f"{one.warm_gb_s:,.0f}")
    return table


def size_text(count: int) -> str:
    """Return `4 MiB`, `2 GiB`."""
    return f"{count >> 30} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


def clocks_text(read: "ProbedClocks | None") -> str:
    """Describe clocks and what holds them down."""
    if read is None:
        return "unknown"
    held = f" ({', '.join(read.reasons)})" if read.reasons else ""
    return f"{read.sm_mhz:,} MHz, memory {read.memory_mhz:,} MHz{held}"


def probe_document(device: str, probe: "Probe", figures: "Sequence[ProbedFigure]") -> str:
    """Spell the same as one JSON text."""
    rows = [{**asdict(one), "share": one.share} for one in figures]
    whole = {"schema": PROBE_SCHEMA, "device": device, "source": "measured", **asdict(probe)}
    return json_text({**whole, "figures": rows})


hardware_app = typer.Typer(
    name="hardware", help="What is known of each GPU.", no_args_is_help=True, rich_markup_mode=None
)


@hardware_app.command("list")
def list_profiles() -> None:
    """List every GPU there is a profile of."""
    from rich import box
    from rich.table import Table

    from cuda_llm.hardware_profiles.lookup import list_hardware

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("target")
    for figure in ("SMs", "fp32 TFLOPS", "DRAM GB/s", "memory GiB"):
        table.add_column(figure, justify="right")
    for profile in list_hardware():
        table.add_row(
            profile.name,
            profile.target,
            str(profile.sm_count),
            f"{profile.peaks.fp32_tflops:g}",
            f"{profile.peaks.dram_gb_s:g}",
            f"{profile.memory_bytes / 2**30:.0f}",
        )
    open_console().print(table)


@hardware_app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(help="Product name, alias or profile_slug.")],
) -> None:
    """Show every figure of one GPU and where it comes from, what was measured here beside it."""
    from cuda_llm.hardware_profiles.lookup import find_hardware

    profile = find_hardware(name)
    console = open_console()
    console.print(f"{profile.name}", style="bold", highlight=False)
    console.print(f"also: {', '.join((profile.slug, *profile.aliases))}", highlight=False)
    console.print(_figures(profile))


@hardware_app.command()
def detect(
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Draft a profile of every unknown GPU into this folder."),
    ] = None,
) -> int:
    """Show the GPUs of this machine, and where they contradict their profiles."""
    from cuda_llm.tools.cuda.discovery import detect_gpus, find_disagreements, find_profile

    unknown = False
    for gpu in detect_gpus():
        profile = find_profile(gpu)
        typer.echo(f"cuda:{gpu.ordinal}  {gpu.name}  {profile.slug if profile else 'no profile'}")
        if profile is None:
            unknown = True
            typer.echo(f"        {_draft(gpu, write)}")
            continue
        for one in find_disagreements(gpu, profile):
            typer.echo(f"        {one.key}: {one.device:,} here, {one.profile:,} in the profile")
    return UNKNOWN_GPU if unknown and write is None else 0


@hardware_app.command()
def probe(
    device: Annotated[str, typer.Option(help="cuda:0, cuda:1 ...")] = "cuda:0",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> None:
    """Measure bandwidth, arithmetic, launches and clocks of a GPU beside what is published."""

    from cuda_llm.hardware_profiles.ceilings import keep_ceilings, published_ceilings
    from cuda_llm.tools.cuda.discovery import find_profile
    from cuda_llm.tools.cuda.probe import as_ceilings, compare_probe, keep_probe, run_probe

    gpu = _gpu_called(device)
    found = await_here(run_probe(gpu, report=lambda line: typer.echo(line, err=True)))
    profile = find_profile(gpu)
    kept = keep_probe(found)
    if profile is not None:
        keep_ceilings(profile, as_ceilings(found, published_ceilings(profile)))
    figures = compare_probe(found, profile)
    if as_json:
        print_document(probe_document(device, found, figures))
    else:
        show_probe(device, found, figures, kept)


def _gpu_called(device: str) -> "GpuAttributes":
    """Return the GPU of that name. Raises UsageError and MissingError."""
    from cuda_llm.tools.cuda.discovery import detect_gpus

    kind, _, number = device.partition(":")
    if kind != "cuda" or not number.isdigit():
        raise UsageError(f"--device {device}: expected a GPU, as in cuda:0")
    gpus = {gpu.ordinal: gpu for gpu in detect_gpus()}
    if int(number) not in gpus:
        there = ", ".join(f"cuda:{ordinal}" for ordinal in gpus)
        raise UsageError(f"--device {device}: there are {there}")
    return gpus[int(number)]


def _draft(gpu: "GpuAttributes", folder: Path | None) -> str:
    from cuda_llm.tools.cuda.draft_profile import draft_profile, find_most_similar, profile_slug

    if folder is None:
        return "draft one with: cuda-llm hardware detect --write DIR"
    path = folder / f"{profile_slug(gpu.name)}.toml"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(draft_profile(gpu, find_most_similar(gpu)))
    except FileExistsError:
        raise UsageError(f"{path}: exists already; edit it, or remove it first") from None
    return f"{path}: check the sources marked CONFIRM, then set CUDA_LLM_HARDWARE_DIR={folder}"


def _figures(profile: "Hardware") -> "Table":
    from rich import box
    from rich.table import Table

    from cuda_llm.hardware_profiles.roofline import ridge_flops_per_byte

    table = Table("figure", "value", "source", box=box.SIMPLE_HEAD, pad_edge=False)
    measured = _measured(profile)
    for key, value in _flatten(profile):
        source = profile.sources.get(key) or profile.sources.get(key.split(".")[0], "")
        if key.count(".") == 2:
            source = profile.sources.get(key.rpartition(".")[0], source)
        if source or value != "0":  # Without a source, 0 is a figure that is not known.
            table.add_row(key, value, source)
        if key in measured:
            table.add_row("", f"{measured[key]:,.4g}", "measured here by a probe")
    ridge = f"{ridge_flops_per_byte(profile):.1f}"
    table.add_row("ridge point, fp32 operations per DRAM byte", ridge, "peaks.fp32 / peaks.dram")
    return table


def _measured(profile: "Hardware") -> dict[str, float]:
    """Return what a probe of this machine's card found, by key. Raises HardwareError."""
    from cuda_llm.hardware_profiles.ceilings import find_ceilings

    found = find_ceilings(profile)
    rates = {
        "dram_gb_s": ("peaks.dram_gb_s", found.dram_gb_s),
        "fp32_tflops": ("peaks.fp32_tflops", found.fp32_tflops),
        "launch_us": ("model.launch_us", found.launch_us),
    }
    for kind, rate in found.tensor_tflops.items():
        rates[f"tensor:{kind}"] = (f"peaks.tensor_dense_tflops.{kind}", rate)
    return dict(row for name, row in rates.items() if found.origin(name) == "measured")


def _flatten(profile: "Hardware") -> list[tuple[str, str]]:
    from dataclasses import asdict

    rows: list[tuple[str, str]] = []

    def add(prefix: str, value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{prefix}.{key}" if prefix else key, inner)
        elif isinstance(value, tuple):
            rows.append((prefix, ".".join(map(str, value))))
        else:
            number = isinstance(value, int | float)
            rows.append((prefix, f"{value:,}".removesuffix(".0") if number else str(value)))

    figures = asdict(profile)
    for identity in ("name", "slug", "aliases", "sources", "origins"):
        del figures[identity]
    add("", figures)
    return rows
