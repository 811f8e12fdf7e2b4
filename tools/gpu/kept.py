"""A session between its uses: of the trusted program, or of the candidate that was last used."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.gpu.lodging import Lodging
from cuda_llm.tools.gpu.timed import GpuTimedSession


@dataclass(frozen=True, kw_only=True)
class Stay:
    """An open session and what it holds."""

    candidate: Compiled
    session: GpuTimedSession
    resources: Lodging

    @property
    def is_sound(self) -> bool:
        """Nothing has gone wrong in it, and its runner lives."""
        return self.session.verdict is None and self.resources.is_alive


class Kept:
    """One session kept between its uses; it has one user at a time."""

    def __init__(
        self,
        begin: Callable[[Compiled], Awaitable[Stay | Verdict]],
        end: Callable[[Lodging], None],
        most_bytes: int,
        *,
        until_timed: bool = False,
    ) -> None:
        """What holds more than `most_bytes` of device memory is not kept.

        Nor is what has been timed, where it is kept `until_timed`.
        """
        self._begin = begin
        self._end = end
        self._most_bytes = most_bytes
        self._until_timed = until_timed
        self._held: Stay | None = None
        self.in_use = False

    @property
    def idle_bytes(self) -> int:
        """Device memory of a session that nobody uses."""
        return 0 if self._held is None or self.in_use else self._held.resources.held_bytes

    @asynccontextmanager
    async def use(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """The session of this program, begun where it is not there; for whom `in_use` is false.

        It stays where it has been used without an exception and without a verdict.
        """
        self.in_use = True
        sound = False
        try:
            held = await self._of(candidate)
            if isinstance(held, Stay):
                yield held.session
                sound = self._may_be_kept(held)
            else:
                yield held
        finally:
            self.in_use = False
            if not sound:
                self.end()

    def end_idle(self) -> bool:
        """End the session if nobody uses it; whether there was one."""
        return not self.in_use and self.end()

    def end(self) -> bool:
        """End the session; whether there was one. Nobody may use it."""
        held, self._held = self._held, None
        if held is not None:
            self._end(held.resources)
        return held is not None

    def _may_be_kept(self, held: Stay) -> bool:
        timed = self._until_timed and held.session.was_timed
        return held.is_sound and not timed and held.resources.held_bytes <= self._most_bytes

    async def _of(self, candidate: Compiled) -> Stay | Verdict:
        held = self._held
        if held is not None and held.candidate == candidate and held.is_sound:
            return held
        self.end()
        begun = await self._begin(candidate)
        if isinstance(begun, Stay):
            self._held = begun
        return begun
