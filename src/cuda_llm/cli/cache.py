"""`cuda-llm cache`: what is built and kept, made smaller."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cuda_llm.tools.native.store import Trimmed

cache_app = typer.Typer(
    help="What is built and kept: compiled kernels, native parts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@cache_app.command()
def clear() -> None:
    """Remove all that can be built again and that no process uses.

    Measured times, probes of GPUs and quarantine stay.
    """
    from cuda_llm.tools.native.store import trim

    print_trimmed(trim(0))


@cache_app.command("trim")
def trim_cache(
    to_mb: Annotated[
        int | None,
        typer.Option("--to", metavar="MB", min=1, help="Size to stay within; else the setting's."),
    ] = None,
) -> None:
    """Remove what was not used for longest until the rest is within the limit."""
    from cuda_llm.settings import settings
    from cuda_llm.tools.native.store import MB, find_entries, trim

    limit_mb = to_mb or settings().cache_limit_mb
    if not limit_mb:
        total = sum(one.size_bytes for one in find_entries())
        typer.echo(f"no limit is set (CUDA_LLM_CACHE_LIMIT_MB is 0); {size(total)} stay")
        return
    print_trimmed(trim(limit_mb * MB))


def print_trimmed(trimmed: "Trimmed") -> None:
    """Print what went and what is left, in one line."""
    in_use = f", {trimmed.in_use:,} of them in use" if trimmed.in_use else ""
    typer.echo(
        f"{trimmed.removed:,} entries removed ({size(trimmed.removed_bytes)}), "
        f"{trimmed.left:,} left ({size(trimmed.left_bytes)}){in_use}"
    )


def size(count: int) -> str:
    """Spell bytes for a person."""
    return f"{count / 1e6:,.1f} MB"
