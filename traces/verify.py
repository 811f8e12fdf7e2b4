"""The command that judges a run's kernel anew."""

import shlex
from collections.abc import Mapping
from typing import Any

SOLUTION = "solve.cu"
"""Name of the kernel in `best/` and in an export."""


def verify_command(run: Mapping[str, Any]) -> str:
    """What judges `solve.cu` as the run did; `run` is what its run.json says."""
    task, device = run["request"]["task"], run["device_spec"]
    warm = ["--l2", "warm"] if run["request"].get("l2") == "warm" else []
    return shlex.join(["cuda-llm", "evaluate", task, SOLUTION, "--device", device, *warm])
