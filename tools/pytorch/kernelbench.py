"""A problem of KernelBench as the subject of a task: a file with `Model`, `get_inputs` and
`get_init_inputs`."""

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.tasks.task import is_float
from cuda_llm.tasks.torch_module import TorchModule, execute_with, import_torch, whole_numbers
from cuda_llm.tasks.torch_trace import record_operators
from cuda_llm.tools.pytorch.extents import Dims, Expressed
from cuda_llm.tools.pytorch.small_sizes import SmallSizes
from cuda_llm.tools.pytorch.subject import WholeNumbers, Wording
from cuda_llm.tools.pytorch.trace import Extents, ModuleTrace, first_line, trace_call

_PYTHON_WHOLE = 1 << 31
_COMPUTES = """\
Compute what the forward pass of this PyTorch module computes, in training mode as it is
constructed, for any of the sizes:"""
_REMARKS = """\
Whole numbers of the file that are no argument keep their values at every size; all other
tensors of the module are as its constructor makes them. Any values may occur in the
arguments, also where the file draws special ones."""


class KernelBenchProblem:
    """A `Subject`. The file is executed. Raises TaskError where it cannot be read."""

    constructor = ("torch_module", 'TorchModule(Path(__file__).with_name("module.py"))')
    runs_on_parts = False

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self.source = file.read_text(encoding="utf-8")
            self.numbers: Dims = whole_numbers(self.source)
        except (OSError, UnicodeDecodeError, SyntaxError) as error:
            raise TaskError(f"{file}: cannot be read: {error}") from None
        self.steps: Mapping[str, int] = {}
        self.call = TorchModule(file)
        self.wording = Wording(
            title=file.stem.replace("_", " ").strip(),
            origin="a problem of KernelBench",
            noun="module",
            computes=_COMPUTES,
            argument="forward's",
            remarks=_REMARKS,
            dim="{name} of the problem, {value:,}",
        )
        self._traced = cache(self._trace)

    def trace_at(self, dims: Dims) -> ModuleTrace:
        """Run the module on `meta`. Raises TaskError where it cannot run there."""
        return self._traced(tuple(dims.items()))

    def _trace(self, dims: tuple[tuple[str, int], ...]) -> ModuleTrace:
        torch, file = import_torch(), self._file
        names = execute_with(self.source, file, dict(dims))
        try:
            with torch.device("meta"), torch.random.fork_rng(devices=[]), torch.no_grad():
                module = names["Model"](*names["get_init_inputs"]())
                highs: list[int] = []
                _, inputs = record_operators(torch, names["get_inputs"], highs)
                named = dict(zip(_forward_names(module, len(inputs)), inputs, strict=True))
                for name, one in named.items():
                    if not (torch.is_tensor(one) or isinstance(one, int | float)):
                        raise TaskError(
                            f"forward's {name} is a {type(one).__name__}; expected a tensor"
                        )
                state = dict([*module.named_parameters(), *module.named_buffers()])
                return trace_call(lambda: module(*inputs), named, state, tuple(highs))
        except TaskError as error:
            raise TaskError(f"{file.name}: {error}") from None
        except Exception as error:
            raise TaskError(f"{file.name}: {type(error).__name__}: {first_line(error)}") from error

    def examples(self, dims: Dims) -> tuple[list[Any], dict[str, Any]]:
        """Return what the problem draws itself."""
        torch = import_torch()
        names = execute_with(self.source, self._file, dims)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = names["Model"](*names["get_init_inputs"]())
            inputs = list(names["get_inputs"]())
        tensors = [*model.named_parameters(), *model.named_buffers()]
        return inputs, {name: one.detach().clone() for name, one in tensors}

    def whole_numbers(self, expressed: Expressed, _sizes: SmallSizes) -> WholeNumbers:
        """Return the ranges in which the problem draws them."""
        highs: Iterator[str] = iter(expressed.highs)
        found = {}
        for name, given in self.trace_at({}).inputs.items():
            if isinstance(given, Extents) and not is_float(given.dtype):
                high = next(highs, _PYTHON_WHOLE)
                found[name] = (f"ints(0, {2 if given.dtype == 'bool' else high})",)
        return WholeNumbers(distributions=found)


def task_name(file: Path) -> str:
    """Return the name of a problem's task: lower case, its number at the end."""
    match = re.fullmatch(r"(\d+)_(.*)", file.stem)
    return plain_name(f"{match[2]}_{match[1]}" if match else file.stem)


def plain_name(name: str) -> str:
    """Return a name that a task may have."""
    plain = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", name.lower())).strip("_")
    return plain if plain[:1].isalpha() else f"problem_{plain}"


def _forward_names(module: Any, count: int) -> list[str]:
    parameters = list(inspect.signature(module.forward).parameters.values())
    plain = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return [*plain, *(f"x{number}" for number in range(len(plain), count))][:count]
