"""What a task is made of: a call of PyTorch, how it runs at other sizes, and arguments for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cuda_llm.tasks.torch_module import TorchCall
from cuda_llm.tools.pytorch.extents import Dims, Expressed
from cuda_llm.tools.pytorch.small_sizes import SmallSizes
from cuda_llm.tools.pytorch.trace import ModuleTrace


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What the files of a task say of the call."""

    title: str
    origin: str
    noun: str
    """`module`, or `function swiglu`."""
    computes: str
    """Beginning of description.md, up to the source."""
    argument: str
    """Whose the arguments are: `forward's`."""
    remarks: str
    """End of description.md."""
    dim: str
    """Meaning of a dim: a format of its `name` and its `value`."""


@dataclass(frozen=True, kw_only=True)
class WholeNumbers:
    """How arguments are drawn that have whole numbers, or values with a meaning of their own."""

    distributions: Mapping[str, tuple[str, ...]]
    """By the name of the argument."""
    makers: str = ""
    """Text of inputs.py; empty where distributions suffice."""


class Subject(Protocol):
    """A call of PyTorch that a task is made of."""

    wording: Wording
    source: str
    """Text of module.py."""
    numbers: Dims
    """Whole numbers that may be dims, by name."""
    steps: Mapping[str, int]
    """Distance between the values that a number may have; 1 where none is named."""

    @property
    def constructor(self) -> tuple[str, str]:
        """Return the module and the expression with which reference.py makes the call."""
        ...

    @property
    def call(self) -> TorchCall:
        """Return what is called."""
        ...

    @property
    def runs_on_parts(self) -> bool:
        """Return whether all sizes of the call are those of its arguments: it may be given a part
        of them."""
        ...

    def trace_at(self, dims: Dims) -> ModuleTrace:
        """Record a call at a size. Raises TaskError where it cannot run."""
        ...

    def examples(self, dims: Dims) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments in order, and state by name, at a size. Raises TaskError."""
        ...

    def whole_numbers(self, expressed: Expressed, sizes: SmallSizes) -> WholeNumbers:
        """Return how arguments of whole numbers are drawn. Raises TaskError."""
        ...
