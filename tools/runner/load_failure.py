"""Why a runner could not load a candidate."""

import re

from cuda_llm.facts import LoadFault
from cuda_llm.outcomes import LoadFailed
from cuda_llm.tools.runner.protocol import Refusal, ReplyFrame

_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
"""In the dynamic linker's words."""
_FAULTS: dict[int, LoadFault] = {Refusal.NO_SOLVE: "no-solve", Refusal.DRIVER: "driver"}


def load_failed(reply: ReplyFrame) -> LoadFailed:
    """The verdict on a candidate that the dynamic linker or the driver refuses."""
    if reply.number in _FAULTS:
        return LoadFailed(fault=_FAULTS[reply.number], detail=reply.text)
    missing = _UNDEFINED.search(reply.text)
    return LoadFailed(
        fault="undefined-function" if missing else "linker",
        symbol=missing[1] if missing else None,
        detail=reply.text,
    )
