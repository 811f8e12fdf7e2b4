"""A plain PyTorch function, or a module, as the oracle and the baseline of a task.

It is named by an expression in the names of its file: `swiglu`, or `RMSNorm(4096)`. It runs at any
size that its arguments have; parameters of a module are arguments of the task as well.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.tasks.torch_module import TorchCall, execute, import_torch


class TorchFunction(TorchCall):
    """The function or module that an expression names in a file.

    The file is executed here. Raises TaskError where it fails, or where nothing there can be
    called, MissingError without PyTorch.
    """

    def __init__(self, file: Path, name: str) -> None:
        self._where = f"{file}:{name}"
        torch = import_torch()
        try:
            source = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TaskError(f"{file}: cannot be read: {error}") from None
        self.names = execute(source, file)
        """Names of the file."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            found = self._named(name)
        self._module = found if isinstance(found, torch.nn.Module) else None
        self.function = found
        """What is called: a function, or a module."""
        named = []
        if self._module is not None:
            named = [*self._module.named_parameters(), *self._module.named_buffers()]
        self.state: dict[str, Any] = {name: one.detach() for name, one in named}
        """Parameters and buffers of a module by name; none of a function."""

    def _named(self, name: str) -> Any:
        try:
            found = eval(name, dict(self.names))
        except NameError:
            raise TaskError(f"{self._where}: not found; expected a function of the file") from None
        except Exception as error:
            raise TaskError(f"{self._where}: {type(error).__name__}: {error}") from error
        if isinstance(found, type) or not callable(found):
            raise TaskError(
                f"{self._where}: is a {type(found).__name__}; expected a function, or a module as "
                "`Name(its arguments)`"
            )
        return found

    def call(
        self,
        torch: Any,
        inputs: Sequence[Any],
        state: Mapping[str, Any],
        dims: Mapping[str, int],
        *,
        double: bool = False,
    ) -> list[Any]:
        """Call it on tensors, and return its outputs in order."""
        with torch.no_grad():
            if self._module is None:
                result = self.function(*inputs)
            else:
                own = {**self._others(torch, inputs, state, double), **state}
                result = torch.func.functional_call(self._module, own, tuple(inputs))
        return list(result) if isinstance(result, tuple | list) else [result]

    def _others(
        self, torch: Any, inputs: Sequence[Any], given: Mapping[str, Any], double: bool
    ) -> dict[str, Any]:
        """Return copies of the module's tensors that are not given, on the device of the inputs: in
        training it may write to its buffers."""
        device = next((one.device for one in inputs if torch.is_tensor(one)), "cpu")
        return {
            name: one.to(device, torch.float64, copy=True)
            if double and one.is_floating_point()
            else one.to(device, copy=True)
            for name, one in self.state.items()
            if name not in given
        }
