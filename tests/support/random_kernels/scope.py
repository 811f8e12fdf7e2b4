"""What a random statement may use where it stands."""

from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

INTEGERS = ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64")
FLOATS = ("f32", "f64")
TYPES = (*INTEGERS, *FLOATS)
SHUFFLED = ("u32", "i32", "u64", "i64", "f32", "f64")


@dataclass(frozen=True)
class Function:
    """A device function: what it takes and gives."""

    name: str
    takes: tuple[str, ...]
    gives: str


@dataclass(frozen=True)
class Shared:
    """A shared array with one element a thread."""

    name: str
    type: str


@dataclass
class Scope:
    """Names in reach and what control flow allows."""

    random: Random
    variables: list[tuple[str, str]]
    """Name and type of what may be read and assigned."""
    arrays: list[tuple[str, str, int]] = field(default_factory=list)
    """Name, type and size (a power of two) of local arrays."""
    functions: list[Function] = field(default_factory=list)
    shared: list[Shared] = field(default_factory=list)
    live: int = 0
    """Threads of the block that take part; 0 inside a device function."""
    mask: str | None = None
    """Variable that holds the lanes which execute this, where that is known."""
    whole_warps: bool = False
    """Is that mask every lane of the warp?"""
    uniform: bool = False
    """Do all threads of the block that have not left execute this?"""
    breakable: bool = False
    leave: str | None = None
    """Statement that leaves the function, where leaving is allowed."""
    depth: int = 0
    fresh: "count[int]" = field(default_factory=count)

    def name(self, stem: str) -> str:
        """A name nobody has."""
        return f"{stem}_{next(self.fresh)}"

    def inner(self, **changes: object) -> "Scope":
        """The scope of a nested body. Names and random numbers are shared."""
        return replace(self, depth=self.depth + 1, **changes)  # type: ignore[arg-type]
