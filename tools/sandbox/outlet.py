"""What a process wrote, up to a cap."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Captured:
    """The beginning of a stream."""

    text: str
    """Undecodable bytes are replaced."""
    omitted_bytes: int = 0
    """How much more there was."""


async def capture(stream: asyncio.StreamReader | None, limit_bytes: int) -> Captured:
    """Read `stream` to its end, keeping `limit_bytes`: the writer never blocks and never floods."""
    kept = bytearray()
    omitted = 0
    while stream is not None and (chunk := await stream.read(1 << 16)):
        room = limit_bytes - len(kept)
        kept += chunk[:room]
        omitted += max(0, len(chunk) - room)
    return Captured(text=kept.decode(errors="replace"), omitted_bytes=omitted)
