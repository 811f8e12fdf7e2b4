"""Where probes are kept: one file a GPU in the cache."""

import json
from dataclasses import asdict
from pathlib import Path

from cuda_llm.atomic_file import write_atomically
from cuda_llm.tools.native import cache_folder, unwritable
from cuda_llm.tools.prober.probe import Probe

FOLDER = "probes"


def keep_probe(probe: Probe) -> Path:
    """Write it under the GPU's UUID; the file. Raises MissingError."""
    path = cache_folder(FOLDER) / f"{probe.uuid or 'gpu'}.json"
    try:
        write_atomically(path, json.dumps(asdict(probe), indent=2) + "\n")
    except OSError as error:
        raise unwritable(error) from error
    return path
