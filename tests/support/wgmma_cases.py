"""Spellings of wgmma.mma_async as kernels of one product, with operands laid out in shared memory.

Layouts are those of PTX ISA 9.0, written once more here: the image of shared memory is made by
NumPy, the kernel copies it and says where its matrices begin. The results of
an H200 for these kernels are recorded (tests/fixtures/recorded).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tensor_cases import BITS, MmaCase, expected, operands
from tensor_oracle import FORMATS

Array = npt.NDArray[Any]
THREADS = 128
_ROW_BYTES = {0: 16, 1: 128, 2: 64, 3: 32}
"""Of a row of the pattern, by the number of a swizzle; 0: none."""


@dataclass(frozen=True)
class GroupCase:
    """One spelling: D = A x B + D, once with D and once without."""

    n: int
    d: str
    a: str
    b: str
    swizzle: int = 1
    """Of both factors, as in descriptors."""
    across: tuple[bool, bool] = (False, False)
    """Whether A, and B, lie across K."""
    negative: tuple[bool, bool] = (False, False)
    held: bool = False
    """A comes from registers."""
    saturates: bool = False

    @property
    def rows(self) -> int:
        """Operand sets: a block each."""
        return 8 if self.n <= 64 else 7

    @property
    def mma(self) -> MmaCase:
        """The product as a whole."""
        k = 32 * 8 // BITS[self.a]
        return MmaCase(64, self.n, k, self.d, self.a, self.b, self.d, 90, self.saturates)

    @property
    def spelling(self) -> str:
        finite = ".satfinite" if self.saturates else ""
        shape = f"m64n{self.n}k{self.mma.k}"
        return f"wgmma.mma_async.sync.aligned.{shape}{finite}.{self.d}.{self.a}.{self.b}"

    @property
    def label(self) -> str:
        flags = [f"swizzle {self.swizzle}", f"across {self.across}", f"negative {self.negative}"]
        return ", ".join([self.spelling, *flags, *(["held"] if self.held else [])])

    @property
    def results(self) -> int:
        """Words of D that a thread holds."""
        return self.n * BITS[self.d] // 64

    @property
    def places(self) -> tuple["Place", "Place"]:
        """Where A and B lie."""
        a = Place(64, self.mma.k, self.swizzle, self.across[0], BITS[self.a] // 8)
        b = Place(self.n, self.mma.k, self.swizzle, self.across[1], BITS[self.b] // 8)
        return a, b

    @property
    def image_words(self) -> int:
        return sum(place.size for place in self.places) // 4

    @property
    def given_words(self) -> int:
        """Words that go into a block: shared memory, then D, then A where it is held."""
        return self.image_words + THREADS * (self.results + 4 * self.held)


@dataclass(frozen=True)
class Place:
    """How a matrix of `lines` times `depth` elements lies in shared memory."""

    lines: int
    depth: int
    swizzle: int
    across: bool
    width: int
    """Bytes of an element."""

    @property
    def row(self) -> int:
        return _ROW_BYTES[self.swizzle]

    @property
    def leading(self) -> int:
        if not self.across:
            return 128 * (self.lines // 8) if self.swizzle == 0 else 0
        return 128 * (self.lines // 8) if self.swizzle == 0 else 2 * 8 * self.row

    @property
    def stride(self) -> int:
        return 8 * self.row

    @property
    def start(self) -> int:
        """Bytes from the pattern's begin: along K a matrix may begin inside of it."""
        return 32 if self.row >= 64 and not self.across else 0

    @property
    def size(self) -> int:
        """Bytes, a multiple of the largest pattern."""
        return -(-(int(self.offsets().max()) + 16) // 1024) * 1024

    def offsets(self) -> Array:
        """Byte of each element: (lines, depth)."""
        line = np.arange(self.lines)[:, None]
        depth = np.arange(self.depth)[None, :]
        if self.across:
            most = self.row // 2  # lines of a row
            low = line % most * 2 + depth % 8 * self.row
            if self.swizzle == 0:
                return np.asarray(low + line // 8 * self.stride + depth // 8 * self.leading)
            at = low + line // most * self.leading + depth // 8 * self.stride
        else:
            byte = depth * self.width
            at = line % 8 * self.row + line // 8 * self.stride
            if self.swizzle == 0:
                return np.asarray(at + byte % 16 + byte // 16 * self.leading)
            at = at + byte + self.start
        return np.asarray(at ^ (((at >> 7) & (self.row // 16 - 1)) << 4))

    def image(self, elements: Array) -> Array:
        """Bytes of shared memory; what is not part of the matrix is noise."""
        noise = np.random.default_rng(self.size).integers(0, 256, (len(elements), self.size))
        image = noise.astype(np.uint8)
        at = self.offsets()
        for byte in range(self.width):
            image[:, at + byte] = (elements >> np.uint64(8 * byte)).astype(np.uint8)
        return image

    def descriptor(self) -> int:
        """The descriptor of a matrix at address 0."""
        fields = self.start >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
        return fields | self.swizzle << 62


def _across(first: bool, second: bool) -> dict[str, Any]:
    return {"across": (first, second)}


def group_cases() -> tuple[GroupCase, ...]:
    """All of them."""
    floats = [("f16", "f16", "f16"), ("f32", "f16", "f16"), ("f32", "bf16", "bf16")]
    floats.append(("f32", "tf32", "tf32"))
    kinds = ("e4m3", "e5m2")
    floats += [(d, a, b) for d in ("f16", "f32") for a in kinds for b in kinds]
    whole = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    found = [GroupCase(16, *types) for types in [*floats, *whole]]
    found += [GroupCase(24, *types, saturates=True) for types in whole]
    wide = (8, 24, 40, 64, 88, 96, 120, 128, 136, 192, 200, 248, 256)
    found += [GroupCase(n, "f32", "f16", "f16") for n in wide]
    found += [GroupCase(96, "f16", "f16", "f16"), GroupCase(80, "f32", "bf16", "bf16")]
    found += [GroupCase(48, "f32", "tf32", "tf32"), GroupCase(56, "f32", "e4m3", "e4m3")]
    found += [GroupCase(224, "s32", "s8", "s8"), GroupCase(112, "s32", "u8", "u8")]
    turns = [(False, True), (True, False), (True, True)]
    for swizzle in (0, 1, 2, 3):
        found += [GroupCase(72, "f32", "f16", "f16", swizzle, one) for one in turns]
    for swizzle in (0, 2, 3):
        found.append(GroupCase(32, "f32", "f16", "f16", swizzle))
        found.append(GroupCase(32, "f32", "tf32", "tf32", swizzle))
        found.append(GroupCase(32, "s32", "s8", "s8", swizzle))
    found.append(GroupCase(32, "f32", "bf16", "bf16", 1, (True, True)))
    signs = [(True, False), (False, True), (True, True)]
    found += [GroupCase(16, "f32", "f16", "f16", negative=one) for one in signs]
    found.append(GroupCase(16, "f32", "e5m2", "e4m3", negative=(True, False)))
    held = [floats[0], *floats[1:4], ("f32", "e4m3", "e5m2"), ("s32", "s8", "u8")]
    found += [GroupCase(16, *types, held=True) for types in held]
    found.append(GroupCase(64, "f32", "bf16", "bf16", 2, (False, True), (False, True), held=True))
    return tuple(found)


def group_source(cases: Sequence[GroupCase]) -> str:
    """CUDA: `solve(in, out, rows)`, case after case, operand set after operand set."""
    text = [_HEAD]
    for number, case in enumerate(cases):
        text += _kernel(number, case)
    text.append('extern "C" void solve(const u32* in, u32* out, int) {')
    taken = given = 0
    for number, case in enumerate(cases):
        size = 4 * case.image_words + 1024
        text.append(
            f"  allow(k{number}, {size}); "
            f"k{number}<<<{case.rows}, {THREADS}, {size}>>>(in + {taken}L, out + {given}L);"
        )
        taken += case.rows * case.given_words
        given += case.rows * THREADS * case.results * 2
    return "\n".join([*text, "}", ""])


_HEAD = """
typedef unsigned int u32;
typedef unsigned long long u64;

static void allow(void (*kernel)(const u32*, u32*), int bytes) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

__device__ u32 fill(const u32* in, int words) {
  extern __shared__ unsigned char raw[];
  const u32 first = (u32)__cvta_generic_to_shared(raw), base = (first + 1023) & ~1023u;
  for (int i = threadIdx.x; i < words; i += 128) *(u32*)(raw + (base - first) + 4 * i) = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  return base;
}
"""


def _kernel(number: int, case: GroupCase) -> Iterator[str]:
    single = case.d == "f32"
    kind, letter = ("float", "f") if single else ("u32", "r")
    a, b = case.places
    yield f"__global__ void k{number}(const u32* in, u32* out) {{"
    yield f"  in += blockIdx.x * {case.given_words};"
    yield f"  out += blockIdx.x * {2 * THREADS * case.results} + threadIdx.x;"
    yield f"  const u64 base = fill(in, {case.image_words}) >> 4;"
    yield f"  const u64 b_at = base + {b.descriptor() + (a.size >> 4)}ull;"
    if not case.held:
        yield f"  const u64 a_at = base + {a.descriptor()}ull;"
    else:
        yield "  u32 a[4];"
        at = case.image_words + THREADS * case.results
        yield f"  for (int i = 0; i < 4; ++i) a[i] = in[{at} + 128 * i + threadIdx.x];"
    yield f"  {kind} d[{case.results}];"
    names = iter(range(300))
    listed = "{" + ", ".join(f"%{next(names)}" for _ in range(case.results)) + "}"
    left = "{" + ", ".join(f"%{next(names)}" for _ in range(4)) + "}" if case.held else ""
    left = left or f"%{next(names)}"
    right, adds = next(names), next(names)
    flags: list[int] = []
    if case.d != "s32":
        flags += [-1 if negative else 1 for negative in case.negative]
    if case.a in {"f16", "bf16"}:
        flags += [int(one) for one in case.across[case.held :]]
    spelled = "".join(f", {flag}" for flag in flags)
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(case.results))
    ins = [f'"r"(a[{i}])' for i in range(4)] if case.held else ['"l"(a_at)']
    ins += ['"l"(b_at)', '"r"(adds)']
    yield "  for (int adds = 0; adds < 2; ++adds) {"
    convert = "__uint_as_float" if single else ""
    yield f"    for (int i = 0; i < {case.results}; ++i)"
    yield f"      d[i] = {convert}(in[{case.image_words} + 128 * i + threadIdx.x]);"
    yield '    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'
    yield f'    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{adds}, 0; {case.spelling} "'
    yield f'      "{listed}, {left}, %{right}, p{spelled};}}" : {outs} : {", ".join(ins)});'
    yield '    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
    yield '    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
    back = "__float_as_uint" if single else ""
    yield f"    for (int i = 0; i < {case.results}; ++i, out += 128) *out = {back}(d[i]);"
    yield "  }"
    yield "}"


def group_operands(case: GroupCase) -> dict[str, Array]:
    """Encodings of A, B and C."""
    return operands(case.mma, case.rows)


def group_words(case: GroupCase) -> Array:
    """What goes into the blocks of a case."""
    given = group_operands(case)
    a, b = case.places
    image = [a.image(given["a"]), b.image(given["b"].swapaxes(1, 2))]
    words = [np.ascontiguousarray(np.concatenate(image, axis=1)).view(np.uint32)]
    words.append(_fragments(given["c"], BITS[case.d]).reshape(case.rows, -1))
    if case.held:
        words.append(_held(given["a"], BITS[case.a]).reshape(case.rows, -1))
    return np.concatenate(words, axis=1).ravel()


def _cells(n: int) -> tuple[Array, Array]:
    """Row and column of each element: (elements a thread, 128 threads)."""
    thread = np.arange(THREADS)
    index = np.arange(n // 2)[:, None]
    row = thread // 32 * 16 + thread % 32 // 4 + index // 2 % 2 * 8
    column = thread % 4 * 2 + index % 2 + index // 4 * 8
    return row, column


def _fragments(matrix: Array, bits: int) -> Array:
    """A matrix as the words that threads hold: (rows, words, threads)."""
    row, column = _cells(matrix.shape[2])
    held = matrix[:, row, column].astype(np.uint32)
    return held if bits == 32 else held[:, 0::2] | held[:, 1::2] << np.uint32(16)


def _held(matrix: Array, bits: int) -> Array:
    """A as the words that threads hold: 32 bits of a row at a time."""
    parts = 32 // bits
    shifts = (np.arange(parts) * bits).astype(np.uint64)
    lines = np.bitwise_or.reduce(matrix.reshape(*matrix.shape[:2], 8, parts) << shifts, axis=3)
    thread = np.arange(THREADS)
    index = np.arange(4)[:, None]
    row = thread // 32 * 16 + thread % 32 // 4 + index % 2 * 8
    return np.asarray(lines[:, row, thread % 4 + index // 2 * 4], np.uint32)


def group_results(case: GroupCase, words: Array) -> Array:
    """Encodings of D, without and with the addition: (rows, 2, 64, n)."""
    held = words.reshape(case.rows, 2, case.results, THREADS)
    row, column = _cells(case.n)
    if BITS[case.d] == 16:
        halves = np.stack([held & np.uint32(0xFFFF), held >> np.uint32(16)], axis=3)
        held = halves.reshape(case.rows, 2, case.n // 2, THREADS)
    matrix = np.zeros((case.rows, 2, 64, case.n), np.uint32)
    matrix[:, :, row, column] = held
    return matrix


def group_expected(case: GroupCase) -> Array:
    """The same, worked out."""
    given = group_operands(case)
    for which, negative in zip("ab", case.negative, strict=True):
        if negative:
            form = FORMATS[getattr(case, which)]
            sign = np.uint64(1 << (form.width - 1 + 13 * (getattr(case, which) == "tf32")))
            given[which] = given[which] ^ sign
    nothing: Mapping[str, Array] = given | {"c": np.zeros_like(given["c"])}
    both = [expected(case.mma, 90, one, warpgroup=True) for one in (nothing, given)]
    return np.stack(both, axis=1)
