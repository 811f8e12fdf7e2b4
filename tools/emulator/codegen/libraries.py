"""Builds the emulated device, its libcudart, and the translated PTX of candidates."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from cuda_llm import outcomes
from cuda_llm.data_file import read_as
from cuda_llm.errors import InfrastructureError
from cuda_llm.log import Log
from cuda_llm.outcomes import CompileFailed, CompilerStop, InfraFailed, Verdict
from cuda_llm.profile import KernelResources
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.compiler.workspace import compile_slot, lock_of, private_folder
from cuda_llm.tools.emulator.codegen.module import Generated, generate
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.native import build, cpu_model, find_gxx, gxx_version
from cuda_llm.tools.native.store import entry_folder, load, store
from cuda_llm.tools.profiler import tables
from cuda_llm.tools.profiler.tables import KernelTable, Translated
from cuda_llm.tools.sandbox.jail import Jail, run_jailed

_EMULATOR = Path(__file__).parent.parent
_RUNTIME = _EMULATOR / "runtime"
_PROTOTYPES = _EMULATOR.parent / "native" / "cudart"
LIBRARY_FLAGS = (
    "-std=c++20",
    "-O3",
    # g++ 13.3, as Ubuntu 24.04 has it, makes wrong code of a switch in a loop: halves of mma.sync
    # were unpacked as bytes.
    "-fno-unswitch-loops",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Werror",
)

KIND = "translated"
LIBRARY = "kernels.so"

_LIMIT_S = 240.0
MOST_PTX_BYTES = 4 << 20
"""g++ takes about a second for a thousand lines: 10 MiB did not end in the limit."""
OPTIMISED = ("-O1", "-ftree-vectorize")
_QUICKLY = ("-Og",)
"""g++ options for large code: compiling takes 1/3 to 1/2 of the time of optimised code, execution
once to twice its time."""
_MUCH_CODE_BYTES = 200_000
KERNEL_FLAGS = (
    "-std=c++20",
    "-march=native",
    # nvcc has already chosen which multiplications and additions are fused.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    # g++ 12 with AVX-512 has no instruction for a masked 16-bit minimum or maximum that takes its
    # first operand from memory, and breaks down; this keeps operands in registers until later.
    "-fno-tree-ter",
    # Nothing throws: a fault ends the process. What unwinding needs is a fifth of small code.
    "-fno-exceptions",
    "-fvisibility=hidden",
    "-fPIC",
    "-shared",
)
KERNEL_LIBRARIES = ("-nodefaultlibs", "-lm", "-lgcc", "-lc")
"""What generated code is linked with: all else that it calls is the emulator's, found when it is
loaded. Without them the linker reads the whole C++ library, a fourth of the time of a small one."""

MOST_RECORDS = 32
"""Records that a process keeps as values: those it used last."""

_log = Log(__name__)
_records: "dict[str, TranslationRecord]" = {}


def runtime_library() -> Path:
    """Return the path of `libcudart.so.13`. Raises MissingError without g++ or a CUDA toolkit."""
    folders = (_RUNTIME / "cudart", _PROTOTYPES)
    sources = [source for folder in folders for source in sorted(folder.glob("*.cpp"))]
    sources.append(_RUNTIME / "link" / "client.cpp")
    # The API's prototypes are the toolkit's own; warnings about them are not ours to fix.
    includes = ["-isystem", str(find_toolkit().root / "include")]
    watch = [*(_RUNTIME / folder for folder in ("cudart", "link", "emu")), _PROTOTYPES]
    return _build("libcudart.so.13", "cudart/libcudart.map", sources, includes, watch)


def emulator_library() -> Path:
    """Return the path of `libemulator.so`. Raises MissingError without g++."""
    sources = [*sorted((_RUNTIME / "device").glob("*.cpp")), _RUNTIME / "link" / "server.cpp"]
    watch = [*(_RUNTIME / folder for folder in ("device", "link", "emu")), _PROTOTYPES]
    return _build("libemulator.so", "device/libemulator.map", sources, [], watch)


def _build(
    name: str, exports: str, sources: list[Path], includes: list[str], watch: list[Path]
) -> Path:
    link = [f"-Wl,-soname,{name}", f"-Wl,--version-script={_RUNTIME / exports}", "-Wl,-z,now"]
    return build(
        name,
        sources,
        [*LIBRARY_FLAGS, f"-I{_RUNTIME}", f"-I{_PROTOTYPES.parent}", *includes, *link],
        watch,
    )


@dataclass(frozen=True, kw_only=True)
class TranslationRecord:
    """Metadata that is cached of a translated module."""

    kernels: tuple[KernelTable, ...]
    translate_s: float
    library: str
    """The key of its library: sources that differ in names and comments share one."""


async def translate(
    ptx: Path,
    *,
    kernels: Sequence[KernelResources],
    source_name: str,
    source: str,
    tracks: bool = False,
) -> Translated | Verdict:
    """Translate and compile a PTX file, or load its library from the cache.

    Kernels that the device cannot run are marked in the tables. With `tracks` they compute which
    bits of their values are undefined. Returns a CompileFailed for too much code; other failures
    are internal errors, since nvcc accepted the candidate. Raises
    MissingError without g++ or a writable cache.
    """
    text = ptx.read_text()
    if len(text) > MOST_PTX_BYTES:
        return CompileFailed(stop=CompilerStop(kind="device-code", limit_bytes=MOST_PTX_BYTES))
    key = _key(text, kernels, source_name, source, tracks=tracks)
    # Who wants the same library meanwhile waits for this one.
    async with lock_of(f"{KIND}/{key}"):
        record = _load_record(key)
        if record is not None and load(KIND, record.library) is not None:
            return _translated(record, cached=True)
        return await _translate(key, text, kernels, source_name, source, tracks=tracks)


def _load_record(key: str) -> TranslationRecord | None:
    """Return what is cached of a module, read once: a kernel is opened for each of its sizes."""
    known = load(KIND, key)
    if known is None:
        _records.pop(key, None)
        return None
    record = _records.pop(key, None) or read_as(TranslationRecord, known)
    _records[key] = record
    if len(_records) > MOST_RECORDS:
        _records.pop(next(iter(_records)), None)
    return record


async def _translate(
    key: str,
    text: str,
    kernels: Sequence[KernelResources],
    source_name: str,
    source: str,
    *,
    tracks: bool,
) -> Translated | Verdict:
    started = time.monotonic()
    try:
        made = await asyncio.to_thread(_generate, text, kernels, source_name, source, tracks=tracks)
        library = _library_key(made.text)
        async with lock_of(f"{KIND}/{library}"), compile_slot():
            if load(KIND, library) is None:
                with private_folder() as folder:
                    store(KIND, library, {}, {LIBRARY: await _compile(made.text, folder)})
        record = TranslationRecord(
            kernels=made.kernels, translate_s=time.monotonic() - started, library=library
        )
        store(KIND, key, asdict(record), {})
    except InfrastructureError as error:
        return InfraFailed(component="emulator", detail=str(error))
    _log.info(
        "translated", file=source_name, tracks=tracks, seconds=round(time.monotonic() - started, 3)
    )
    return _translated(record, cached=False)


def _generate(
    text: str,
    kernels: Sequence[KernelResources],
    source_name: str,
    source: str,
    *,
    tracks: bool,
) -> Generated:
    return generate(parse(text, source_name), kernels, source_name, source, tracks=tracks)


async def _compile(text: str, folder: Path) -> Path:
    """Compile generated code in a private folder; return the library's path."""
    gxx = Path(find_gxx())
    (folder / "kernels.cpp").write_text(text)
    jail = Jail(
        folder=folder,
        readable=(_RUNTIME.resolve(), gxx.resolve().parent.parent),
        path=(gxx.parent, Path("/usr/bin"), Path("/bin")),
        wall_s=_LIMIT_S,
        cpu_s=_LIMIT_S,
    )
    includes = f"-I{_RUNTIME.resolve()}"
    effort = _QUICKLY if len(text) > _MUCH_CODE_BYTES else OPTIMISED
    command = [str(gxx), *effort, *KERNEL_FLAGS, includes, "kernels.cpp", *KERNEL_LIBRARIES]
    command += ["-o", LIBRARY]
    result = await run_jailed(command, jail)
    if not result.ok:
        reason = result.stderr.text.strip()[-1500:] or f"it ended by {result.end}"
        raise InfrastructureError("translator", f"g++ refuses the generated code: {reason}")
    return folder / LIBRARY


def _translated(record: TranslationRecord, *, cached: bool) -> Translated:
    return Translated(
        library=entry_folder(KIND, record.library) / LIBRARY,
        kernels=record.kernels,
        translate_s=record.translate_s,
        cached=cached,
    )


def _key(
    text: str,
    kernels: Sequence[KernelResources],
    source_name: str,
    source: str,
    *,
    tracks: bool,
) -> str:
    registers = sorted((kernel.symbol, kernel.registers) for kernel in kernels)
    parts = (
        text,
        registers,
        source_name,
        source,
        tracks,
    )
    return _digest(parts)


def _library_key(text: str) -> str:
    """Return a hash of generated code and of how it is compiled."""
    return _digest((LIBRARY, text))


def _digest(parts: object) -> str:
    how = (OPTIMISED, _QUICKLY, _MUCH_CODE_BYTES, *KERNEL_FLAGS, *KERNEL_LIBRARIES)
    where = (cpu_model(), gxx_version(find_gxx()), _package_hash())
    return hashlib.blake2b(repr((parts, how, where)).encode(), digest_size=20).hexdigest()


@lru_cache
def _package_hash() -> str:
    """Return a hash of the translator, of what a record holds and of the headers code includes."""
    digest = hashlib.blake2b(digest_size=16)
    folders = [_EMULATOR / name for name in ("ptx", "codegen", "ops", "runtime/emu")]
    files = sorted(file for folder in folders for file in folder.iterdir() if file.is_file())
    for file in (*files, Path(str(tables.__file__)), Path(str(outcomes.__file__))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
