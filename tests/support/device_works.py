"""Works for a device that carries them out in another process: it imports this module by name."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_llm.errors import TaskError

if TYPE_CHECKING:
    from cuda_llm.tools.device import Site


async def tell_where(site: "Site") -> tuple[int, str]:
    """Who carries it out."""
    return os.getpid(), site.name


async def refuse(_site: "Site") -> None:
    """Find a fault of the user's."""
    raise TaskError("reference.py: broken")


async def hang(_site: "Site", mark: Path) -> None:
    """Say that it has begun, take ten minutes, and say so where it is given up."""
    mark.write_text("begun")
    try:
        await asyncio.sleep(600)
    finally:
        mark.write_text("given up")


async def crash(_site: "Site") -> None:
    """Take the process with it."""
    os._exit(7)
