"""The text of a playbook, with the shared headers that the playbook includes in their place."""

import re
from pathlib import Path

from cuda_llm import tasks

HEADERS = Path(tasks.__file__).resolve().parent
_INCLUDE = re.compile(r'^#include "(shared/\w+\.cuh)"\n', re.MULTILINE)
_HEAD = re.compile(r"(?://.*\n)*\n*")
"""The comment that a header begins with: it is for those who include the header."""


def read_playbook(path: Path) -> str:
    """Return the text of a playbook, with `tasks/shared/NAME.cuh` for `#include "shared/NAME.cuh"`.

    So a kernel that is written out is one file, which needs no header of ours. An include of a
    header that `tasks/shared` lacks stays for the compiler. Raises OSError or ValueError where the
    playbook cannot be read as text.
    """
    return _INCLUDE.sub(_inline, path.read_text(encoding="utf-8"))


def _inline(include: re.Match[str]) -> str:
    header = HEADERS / include[1]
    return _HEAD.sub("", read_playbook(header), count=1) if header.is_file() else include[0]
