"""What running the real command gives."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ran:
    """A finished command."""

    code: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The error line; fails the test unless there is exactly one and no traceback."""
        assert "Traceback" not in self.stderr + self.stdout
        errors = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, self.stderr
        return errors[0]


Command = Callable[..., Ran]
