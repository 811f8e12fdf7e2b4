"""`.loc` directives resolved to lines of the user's file."""

from cuda_llm.tools.emulator.ptx.module import Loc

LinePlace = tuple[int, int, int]
"""File number, line, column, as `.loc` gives them."""


class Locations:
    """Follows the `.loc` directives of one function.

    A place inside a header is reported as the innermost line of the user's file that included it.
    """

    def __init__(self, files: dict[int, str], user_file: str) -> None:
        self._names = {
            number: user_file
            for number, path in files.items()
            if path.rsplit("/", 1)[-1] == user_file.rsplit("/", 1)[-1]
        }
        if not self._names:
            self._names = {n: path for n, path in files.items() if "/include/" not in path}
        self._parents: dict[LinePlace, LinePlace] = {}
        self._last: Loc | None = None

    def at(self, place: LinePlace, inlined_at: LinePlace | None) -> Loc | None:
        """Return the user's line for a directive, the previous one where it names none."""
        if inlined_at is None:
            self._parents.pop(place, None)
        else:
            self._parents[place] = inlined_at
        seen: set[LinePlace] = set()
        step: LinePlace | None = place
        while step is not None and step not in seen:
            name = self._names.get(step[0])
            if name is not None and step[1] > 0:
                self._last = Loc(name, step[1])
                return self._last
            seen.add(step)
            step = self._parents.get(step)
        return self._last
