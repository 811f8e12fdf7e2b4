"""Reads a candidate's .so and its object file before any process loads them.

Rules, by the name a violation carries:
  `export`       the .so exports nothing but `solve`, and defines no name that other objects call:
                 CUDA's calls, names that the .so may import, and reserved names, which start files
                 and the linker's own objects call where an object defines them (`__gmon_start__`)
  `import`       the .so imports nothing outside the lists below and needs no library but
                 libstdc++, libgcc_s, libc and libm; no text relocation, no search path
  `constructor`  no code of the candidate runs at load or unload, no IFUNC either. The object file
                 lists the code that the compiler runs then: CUDA's own registration, and for
                 `<iostream>` a static initialiser that calls `std::ios_base::Init` alone. This
                 initialiser is known by its relocations: Init's constructor and destructor and
                 `__cxa_atexit`, all defined elsewhere, and its object; and by holding no system
                 call. Anything more is the candidate's own.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from cuda_llm.outcomes import BreachKind, LoadFailed, PolicyBreach, PolicyViolation
from cuda_llm.tools.compiler.names import demangle

CUDA_CALLS = """
__cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary
__cudaRegisterFunction __cudaRegisterVar __cudaInitModule __cudaGetKernel __cudaLaunchKernel
__cudaPushCallConfiguration __cudaPopCallConfiguration
cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel
cudaFuncSetAttribute cudaFuncGetAttributes cudaFuncSetCacheConfig
cudaOccupancyMaxActiveBlocksPerMultiprocessor
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyAvailableDynamicSMemPerBlock
cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize
cudaMalloc cudaMallocAsync cudaMallocPitch cudaFree cudaFreeAsync cudaMemGetInfo
cudaMemset cudaMemsetAsync cudaMemset2D cudaMemset2DAsync
cudaMemcpy cudaMemcpyAsync cudaMemcpy2D cudaMemcpy2DAsync
cudaMemcpyToSymbol cudaMemcpyToSymbolAsync cudaMemcpyFromSymbol cudaMemcpyFromSymbolAsync
cudaGetSymbolAddress cudaGetSymbolSize
cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName
cudaDeviceSynchronize
cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamDestroy
cudaStreamSynchronize cudaStreamQuery cudaStreamWaitEvent cudaStreamIsCapturing
cudaStreamGetFlags cudaStreamGetPriority cudaDeviceGetStreamPriorityRange
cudaEventCreate cudaEventCreateWithFlags cudaEventDestroy
cudaEventRecord cudaEventRecordWithFlags cudaEventSynchronize cudaEventQuery
cudaRuntimeGetVersion cudaDriverGetVersion
cudaGetDevice cudaSetDevice cudaGetDeviceCount cudaDeviceGetAttribute cudaGetDeviceProperties
cudaGetDeviceProperties_v2 cudaGetDriverEntryPoint cudaGetDriverEntryPointByVersion
cuTensorMapEncodeTiled cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide cuTensorMapReplaceAddress
"""
"""Calls our own CUDA runtimes implement, on a GPU and on the emulated device, as a test checks."""

C_CALLS = """
memcpy memmove memset memcmp memchr strlen strcmp strncmp strcpy strncpy strcat strchr strstr
malloc calloc realloc free aligned_alloc posix_memalign strerror abort exit atexit abs labs llabs
qsort bsearch rand srand strtol strtoll strtoul strtoull strtof strtod atoi atof
printf fprintf vfprintf vprintf sprintf snprintf vsnprintf puts putchar fputs fputc fwrite
putc fflush stdout stderr sched_yield __assert_fail __stack_chk_fail __errno_location
__memcpy_chk __memset_chk __memmove_chk __printf_chk __fprintf_chk __snprintf_chk
__sprintf_chk __vsnprintf_chk __strcpy_chk
__cxa_atexit __cxa_finalize __gmon_start__ _ITM_registerTMCloneTable
_ITM_deregisterTMCloneTable __tls_get_addr __cpu_model
"""

NAMED = frozenset((CUDA_CALLS + C_CALLS).split())

MATH = re.compile(
    r"(?:acos|asin|atan|atan2|cos|sin|tan|sincos|cosh|sinh|tanh|acosh|asinh|atanh|exp|exp2|exp10|"
    r"expm1|log|log2|log10|log1p|logb|ilogb|pow|sqrt|cbrt|hypot|erf|erfc|tgamma|lgamma|ceil|floor|"
    r"trunc|round|lround|llround|rint|lrint|llrint|nearbyint|fmod|remainder|remquo|fma|fmax|fmin|"
    r"fdim|fabs|ldexp|frexp|modf|scalbn|scalbln|copysign|nextafter|j0|j1|jn|y0|y1|yn|nan)"
    r"(?:f|l)?|__(?:isnan|isinf|finite|signbit|fpclassify)(?:f|l)?"
)

CPP = re.compile(r"__cxa_\w+|__gxx_personality_v0|__dynamic_cast|_Unwind_\w+|_Z\w+")

CPP_REFUSED = re.compile(
    r"filebuf|fstream|filesystem|_ZNSt6thread|hardware_concurrency|random_device|6chrono"
    r"|this_thread|condition_variable|__future_base|_Execute_once|locale.*global|basic_file"
)

RESERVED = re.compile(r"_(?!_device_stub__)[_A-Y]")
"""Reserved identifiers, without mangled names and what nvcc makes of `extern "C"` kernels."""

KNOWN_LIBRARY = re.compile(
    r"cuda|cu[A-Z]|cublas|cudnn|cufft|curand|cusparse|cusolver|cutensor|nvrtc|nvml|nvJitLink|nccl"
)

Elf: TypeAlias = Any
"""An ELFFile of elftools, whose sections are typed too loosely for a precise type."""

LIBRARIES = ("libstdc++.so.", "libgcc_s.so.", "libc.so.", "libm.so.", "ld-linux")
REGISTRATION = "_ZL24__sti____cudaRegisterAllv"
STATIC_INITIALISER = "_GLOBAL__sub_I_"
IOSTREAM_CALLS = ["_ZNSt8ios_base4InitC1Ev", "_ZNSt8ios_base4InitD1Ev", "__cxa_atexit"]
IOSTREAM_DATA = {".bss", "_ZStL8__ioinit", "__dso_handle", ""}
IOSTREAM_MOST_BYTES = 96
SYSTEM_CALLS = (b"\x0f\x05", b"\x0f\x34", b"\xcd\x80", b"\x01\x00\x00\xd4")
"""x86-64: syscall, sysenter, int 0x80; aarch64: svc #0."""

POINTER_BYTES = 8
GNU_IFUNC = "STT_LOOS"

ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)", re.DOTALL)
PARAMETER = re.compile(r"\.param\b[^,]*?\.([busf]\d+|b8)\s[^,]*?([\w$]+)\s*(?:\[(\d+)\])?\s*$")
LOAD = re.compile(
    r"\bld\.param((?:\.\w+|::\w+)*)\s+[^;\[\]]*,\s*\[\s*([\w$]+)\s*(?:([+-])\s*(-?\w+))?\s*\]"
)
VECTOR = {"v2": 2, "v4": 4, "v8": 8}


def allowed(symbol: str, *, versioned: bool) -> bool:
    """Return whether a candidate may import `symbol`; `versioned`: the C or C++ library has it."""
    if symbol in NAMED or MATH.fullmatch(symbol):
        return True
    return bool(versioned and CPP.fullmatch(symbol) and not CPP_REFUSED.search(symbol))


def in_known_library(symbol: str, *, versioned: bool) -> bool:
    """Return whether a library that is not allowed defines `symbol`; else none does."""
    return versioned or KNOWN_LIBRARY.match(symbol) is not None


async def audit(library: Path, object_file: Path) -> PolicyViolation | LoadFailed | None:
    """Return the first broken rule, or None."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file, object_file.open("rb") as built:
        shared, source = ELFFile(file), ELFFile(built)
        return (
            _redefinitions(source)
            or _constructors(source)
            or _dynamic(shared)
            or await _symbols(shared)
        )


def exports(library: Path) -> list[str]:
    """Return the names that a .so exports."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        return [name for name, defined, _ in _dynamic_symbols(ELFFile(file)) if defined]


async def _symbols(shared: Elf) -> PolicyViolation | LoadFailed | None:
    extra: list[str] = []
    refused: list[str] = []
    missing: list[str] = []
    for name, defined, versioned in _dynamic_symbols(shared):
        if defined:
            extra += [name] if name != "solve" else []
        elif not allowed(name, versioned=versioned):
            (refused if in_known_library(name, versioned=versioned) else missing).append(name)
    names = await demangle([*extra, *refused, *missing])
    if refused:
        return _breaks("import", "forbidden-call", *(names[one] for one in sorted(refused)[:5]))
    if missing:
        return LoadFailed(fault="undefined-function", symbol=names[missing[0]])
    if extra:
        return _breaks("export", "visible-name", names[extra[0]])
    return None


def _dynamic_symbols(shared: Elf) -> Iterator[tuple[str, bool, bool]]:
    """Yield name, whether it is defined here, whether it is bound to a version of a library."""
    table = shared.get_section_by_name(".dynsym")
    versions = shared.get_section_by_name(".gnu.version")
    for index, symbol in enumerate(table.iter_symbols()):
        if not symbol.name:
            continue
        version = versions.get_symbol(index)["ndx"] if versions else 0
        bound = isinstance(version, int) and version >= 2
        yield symbol.name, symbol["st_shndx"] != "SHN_UNDEF", bound


def _dynamic(shared: Elf) -> PolicyViolation | None:
    for tag in shared.get_section_by_name(".dynamic").iter_tags():
        name = tag.entry.d_tag
        if name == "DT_NEEDED" and not tag.needed.startswith(LIBRARIES):
            return _breaks("import", "forbidden-library", tag.needed)
        if name in {"DT_RPATH", "DT_RUNPATH", "DT_TEXTREL", "DT_PREINIT_ARRAY"}:
            return _breaks("import", "dynamic-entry", name)
    return None


def _redefinitions(source: Elf) -> PolicyViolation | None:
    """Refuse definitions of names that others call, and IFUNCs, which run at load."""
    for symbol in source.get_section_by_name(".symtab").iter_symbols():
        if symbol["st_shndx"] != "SHN_UNDEF" and _is_called_by_others(symbol):
            return _breaks("export", "reserved-name", symbol.name)
        if symbol["st_info"]["type"] == GNU_IFUNC:
            return _breaks("constructor", "indirect-function", symbol.name)
    return None


def _is_called_by_others(symbol: Any) -> bool:
    # A local definition too: code that nvcc and <iostream> add to the source calls it.
    name = symbol.name
    if name.startswith(("__cuda", "cuda")) or name in NAMED or name in IOSTREAM_CALLS:
        return True
    return symbol["st_info"]["bind"] != "STB_LOCAL" and RESERVED.match(name) is not None


def _constructors(source: Elf) -> PolicyViolation | None:
    for section in source.iter_sections():
        name = section.name
        if name.startswith((".fini_array", ".preinit_array", ".ctors", ".dtors")) or name in {
            ".init",
            ".fini",
        }:
            return _breaks("constructor", "load-section", name)
        if name.startswith(".init_array"):
            listed = list(_functions_listed(source, section))
            # An address without a relocation belongs to no function.
            if len(listed) * POINTER_BYTES != section["sh_size"]:
                return _breaks("constructor", "no-function")
            for function in listed:
                if function is None:
                    return _breaks("constructor", "no-function")
                if function.name != REGISTRATION and not _is_iostream(source, function):
                    is_static = function.name.startswith(STATIC_INITIALISER)
                    kind: BreachKind = "static-initialiser" if is_static else "load-function"
                    return _breaks("constructor", kind, function.name)
    return None


def _breaks(rule: str, kind: BreachKind, *names: str) -> PolicyViolation:
    return PolicyViolation(rule=rule, breach=PolicyBreach(kind=kind, names=names))


def _functions_listed(source: Elf, section: Any) -> Iterator[Any]:
    """Yield the function symbol of each entry of an init array; None where there is none."""
    for relocation, symbol in _relocations(source, section):
        at = symbol["st_value"] + relocation["r_addend"]
        yield next(
            (
                function
                for function in source.get_section_by_name(".symtab").iter_symbols()
                if function["st_info"]["type"] == "STT_FUNC"
                and function["st_shndx"] == symbol["st_shndx"]
                and function["st_value"] == at
            ),
            None,
        )


def _is_iostream(source: Elf, function: Any) -> bool:
    if not function.name.startswith(STATIC_INITIALISER):
        return False
    section = source.get_section(function["st_shndx"])
    start, size = function["st_value"], function["st_size"]
    code = section.data()[start : start + size]
    if size > IOSTREAM_MOST_BYTES or any(call in code for call in SYSTEM_CALLS):
        return False
    used = [
        _target(source, symbol)
        for relocation, symbol in _relocations(source, section)
        if start <= relocation["r_offset"] < start + size
    ]
    calls = [name for name in used if name not in IOSTREAM_DATA]
    return sorted(set(calls)) == sorted(IOSTREAM_CALLS) and used.count(".bss") <= 2


def _relocations(source: Elf, section: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a section's relocations, by number: sections of different groups share names."""
    symbols = source.get_section_by_name(".symtab")
    for table in source.iter_sections():
        if table["sh_type"] == "SHT_RELA" and source.get_section(table["sh_info"]) == section:
            for relocation in table.iter_relocations():
                yield relocation, symbols.get_symbol(relocation["r_info_sym"])


def _target(source: Elf, symbol: Any) -> str:
    if symbol["st_info"]["type"] == "STT_SECTION":
        return str(source.get_section(symbol["st_shndx"]).name)
    return str(symbol.name)


def find_outside_read(ptx: str) -> PolicyViolation | None:
    """Return the verdict on the first load outside the parameter that it names; None without such a
    load.

    Memory behind a kernel's parameters belongs to the launching program. nvcc reads it only where a
    source reaches beyond a parameter, and inline PTX can name any offset.
    """
    sizes = {
        match[2]: int(match[1][1:]) // 8 * int(match[3] or 1)
        for entry in ENTRY.finditer(ptx)
        for declared in entry[2].split(",")
        if (match := PARAMETER.search(declared.strip())) is not None
    }
    for load in LOAD.finditer(ptx):
        types, name, sign, number = load.groups()
        begin = _offset(sign, number)
        if name in sizes and (begin < 0 or begin + _width(types) > sizes[name]):
            return PolicyViolation(rule="kernel-parameters")
    return None


def _offset(sign: str | None, number: str | None) -> int:
    try:
        value = int(number or "0", 0)
    except ValueError:
        return 0
    return -value if sign == "-" else value


def _width(types: str) -> int:
    parts = types.strip(".").split(".")
    bits = int(re.sub(r"\D", "", parts[-1]) or 0)
    return bits // 8 * next((VECTOR[part] for part in parts if part in VECTOR), 1)
