"""The machine code of a candidate: as text to keep, and the facts in it that explain a time."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.compiler.nvcc import Toolkit
from cuda_llm.tools.cuda.vendor_tools import find_tool, missing_note
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import SassFacts
from cuda_llm.tools.sandbox.jail import Jail, run_jailed

_FUNCTION = re.compile(r"^\.text\.(\S+):$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")


@dataclass(frozen=True, kw_only=True)
class Disassembly:
    """The machine code of a candidate as text, and the facts in it."""

    listing: Path | None = None
    facts: tuple[SassFacts, ...] = ()
    note: str = ""
    """Why there is none, where it was asked for."""


def read_sass(text: str) -> tuple[SassFacts, ...]:
    """Return the kernels that nvdisasm lists, in its order."""
    found: dict[str, Counter[str]] = {}
    symbol = ""
    for line in text.splitlines():
        if function := _FUNCTION.match(line):
            symbol = function[1]
            found[symbol] = Counter()
        elif symbol and (instruction := _INSTRUCTION.match(line)):
            found[symbol][instruction[1]] += 1
    for opcodes in found.values():
        opcodes.pop("NOP", None)
    return tuple(
        SassFacts(symbol=name, opcodes=dict(opcodes)) for name, opcodes in found.items() if opcodes
    )


async def disassemble(
    toolkit: Toolkit, compiled: Compiled, folder: Path, *, wall_s: float = 30.0
) -> Disassembly:
    """Write the code of every kernel to a file in `folder` and read it.

    The two steps of `cuobjdump -sass`, which in CUDA 13.0 prints no code for sm_90a.
    """
    cuobjdump, nvdisasm = (find_tool(name, toolkit) for name in ("cuobjdump", "nvdisasm"))
    if cuobjdump is None or nvdisasm is None:
        return Disassembly(note=missing_note("nvdisasm" if cuobjdump else "cuobjdump", "SASS"))
    library = compiled.library
    jail = Jail(
        folder=folder,
        readable=(library, *(tool.resolve().parent.parent for tool in (cuobjdump, nvdisasm))),
        wall_s=wall_s,
        cpu_s=wall_s,
        output_bytes=16 << 20,
    )
    listing = ""
    try:
        run = await run_jailed([str(cuobjdump), "-xelf", "all", str(library)], jail)
        for cubin in sorted(folder.glob("*.cubin")) if run.ok else ():
            run = await run_jailed([str(nvdisasm), "-c", str(cubin)], jail)
            listing += run.stdout.text
    except InfrastructureError as error:
        return Disassembly(note=f"no SASS: {error}")
    facts = read_sass(listing)
    if not run.ok or not facts:
        lines = (run.stderr.text + run.stdout.text).strip().splitlines() or ["no output"]
        return Disassembly(note=f"no SASS: {Path(run.command[0]).name}: {lines[-1][:200]}")
    path = folder / "kernel.sass"
    path.write_text(listing)
    return Disassembly(listing=path, facts=facts)
