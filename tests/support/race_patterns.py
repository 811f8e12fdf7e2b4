"""Small graph kernels of known label: patterns of irregular codes, each clean and with each fault.

The patterns are those of the Indigo suite (Liu, Azimi, Burtscher: conditional vertex and edge,
pull, push, worklist, path compression), written anew. Of the faults `atomic` updates plainly,
`guard` reads plainly before an atomic, `race` lets others see what is not finished, `sync` lacks a
barrier, and `bounds` goes a vertex too far.
All kernels are one source, of which `solve` launches one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

VERTICES = 700
"""Number of vertices, no multiple of a block: some threads have none."""
BLOCK = 128


@dataclass(frozen=True)
class RacePattern:
    """One kernel and what is wrong with it."""

    pattern: str
    walk: str
    faults: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the kernel's name."""
        return "_".join((self.pattern, self.walk, *self.faults))

    @property
    def is_guarded_only(self) -> bool:
        """Return whether all its races are plain reads that only guard an update."""
        return self.faults == ("guard",)


_WALKS = {
    # Which vertices a thread visits, and which of a vertex's neighbours.
    "threads": (
        "int v = blockIdx.x * blockDim.x + threadIdx.x; v < {end}; v += blockDim.x * gridDim.x",
        "0",
        "1",
    ),
    "once": ("int v = blockIdx.x * blockDim.x + threadIdx.x; v < {end}; v = {end}", "0", "1"),
    "warps": (
        "int v = (blockIdx.x * blockDim.x + threadIdx.x) / 32; v < {end}; "
        "v += blockDim.x * gridDim.x / 32",
        "threadIdx.x % 32",
        "32",
    ),
    "blocks": ("int v = blockIdx.x; v < {end}; v += gridDim.x", "threadIdx.x", "blockDim.x"),
}

_PASSED = "n, first, to, weight, data, other, list"
_HEAD = """
#include <cuda_runtime.h>
#define GRAPH const int* first, const int* to, const int* weight
#define ARGS int n, GRAPH, int* data, int* other, int* list
"""


def _edges(walk: str, body: str, before: str = "", after: str = "", *, bounds: bool) -> str:
    vertices, begin, step = _WALKS[walk]
    loop = vertices.format(end="n + 1" if bounds else "n")
    return (
        f"    for ({loop}) {{\\n        {before}\\n"
        f"        for (int e = first[v] + {begin}; e < first[v + 1]; e += {step}) {{\\n"
        f"            int u = to[e]; {body}\\n        }}\\n"
        f"        {after}\\n    }}\\n"
    ).replace("\\n", "\n")


def _raise(word: str, value: str, faults: tuple[str, ...]) -> str:
    """Spell how a word is raised to a value."""
    if "atomic" in faults:
        return f"if ({word} < {value}) {word} = {value};"
    if "guard" in faults:
        return f"if ({word} < {value}) atomicMax(&{word}, {value});"
    return f"atomicMax(&{word}, {value});"


def _body(one: RacePattern) -> str:
    faults, bounds = one.faults, "bounds" in one.faults
    match one.pattern:
        case "conditional_edge":
            count = "data[0]++;" if "atomic" in faults else "atomicAdd(&data[0], 1);"
            if "guard" in faults:
                count = "if (data[0] < u + 1) atomicMax(&data[0], u + 1);"
            return _edges(one.walk, f"if (v < u) {{ {count} }}", bounds=bounds)
        case "conditional_vertex":
            return _edges(
                one.walk,
                "best = max(best, weight[u]);",
                "int best = -1;",
                f"if (best >= 0) {{ {_raise('data[0]', 'best', faults)} }}",
                bounds=bounds,
            )
        case "pull":
            # The result of a vertex may be seen by its neighbours only where it is another array.
            source = "data" if "race" in faults else "other"
            write = (
                "atomicMax(&data[v], best);"
                if one.walk in {"warps", "blocks"}
                else "data[v] = best;"
            )
            if not {"atomic", "guard"}.isdisjoint(faults):
                write = _raise("data[v]", "best", faults)
            return _edges(
                one.walk, f"best = max(best, {source}[u]);", "int best = v;", write, bounds=bounds
            )
        case "push":
            return _edges(one.walk, _raise("data[u]", "(v + weight[v])", faults), bounds=bounds)
        case "worklist":
            take = (
                "int at = data[0]; data[0] = at + 1;"
                if "atomic" in faults
                else "int at = atomicAdd(&data[0], 1) + 1;"
            )
            put = "list[at % (8 * n)] = v;" if "atomic" in faults else "list[at] = v;"
            if "guard" in faults:
                return _edges(
                    one.walk,
                    f"if (other[u] == 0 && atomicCAS(&other[u], 0, 1) == 0) {{ {take} {put} }}",
                    bounds=bounds,
                )
            if "race" in faults:
                return _edges(
                    one.walk,
                    f"if (other[u] == 0) {{ other[u] = 1 + v; {take} {put} }}",
                    bounds=bounds,
                )
            return _edges(
                one.walk, f"if (atomicCAS(&other[u], 0, 1) == 0) {{ {take} {put} }}", bounds=bounds
            )
        case "path_compression":
            read = "parent[x]" if "race" in faults else "((volatile int*)parent)[x]"
            write = "parent[x] = up;" if "atomic" in faults else "atomicMin(&parent[x], up);"
            over = read.replace("[x]", "[up]")
            find = (
                f"auto find = [=](int x) {{ for (int up; (up = {read}) != x; x = up) {{ "
                f"int over = {over}; if (over < up) {{ int kept = up; up = over; {write} "
                "up = kept; } } return x; };"
            )
            return f"    int* parent = other + n; {find}\n" + _edges(
                one.walk,
                "for (;;) { int a = find(v), b = find(u); if (a == b) break; "
                "if (a < b) { int c = a; a = b; b = c; } "
                + (
                    "if (parent[a] == a) { parent[a] = b; break; }"
                    if "atomic" in faults
                    else "if (atomicCAS(&parent[a], a, b) == a) break;"
                )
                + " }",
                bounds=bounds,
            )
        case "block_maximum":
            barrier = "" if "sync" in faults else "__syncthreads();"
            add = "atomicMax(&whole, best);"
            if "atomic" in faults:
                add = "if (whole < best) whole = best;"
            if "guard" in faults:
                add = "if (whole < best) atomicMax(&whole, best);"
            return (
                "    __shared__ int whole; if (threadIdx.x == 0) whole = -1;\n"
                "    __syncthreads(); int best = -1;\n"
                + _edges(one.walk, "best = max(best, weight[u]);", bounds=bounds)
                + f"    {add} {barrier}\n    if (threadIdx.x == 0) atomicMax(&data[0], whole);\n"
            )
    raise AssertionError(one.pattern)


_FAULTS = {
    "conditional_edge": ("atomic", "guard", "bounds"),
    "conditional_vertex": ("atomic", "guard", "bounds"),
    "pull": ("atomic", "guard", "race", "bounds"),
    "push": ("atomic", "guard", "bounds"),
    "worklist": ("atomic", "guard", "race", "bounds"),
    "path_compression": ("atomic", "race", "bounds"),
    "block_maximum": ("atomic", "guard", "sync", "bounds"),
}


def race_patterns() -> Iterator[RacePattern]:
    """Yield every pattern in every walk, clean, with each fault, and with each two."""
    for (pattern, faults), walk in product(_FAULTS.items(), _WALKS):
        sets: list[tuple[str, ...]] = [(), *((one,) for one in faults)]
        sets += [(a, b) for i, a in enumerate(faults) for b in faults[i + 1 :]]
        for chosen in sets:
            # A thread alone with its vertex races with nobody for it; a guard beside a plain update
            # is none.
            alone = pattern == "pull" and walk in {"threads", "once"}
            if alone and not {"atomic", "guard"}.isdisjoint(chosen):
                continue
            plain = {"atomic", "race"} if pattern == "worklist" else {"atomic"}
            if "guard" in chosen and not plain.isdisjoint(chosen):
                continue
            yield RacePattern(pattern, walk, chosen)


def source_of(patterns: list[RacePattern]) -> str:
    """Return a source whose `solve` launches the pattern of a number."""
    kernels = [
        f'extern "C" __global__ void {one.name}(ARGS)\n{{\n{_body(one)}}}\n' for one in patterns
    ]
    cases = "".join(
        f"    case {number}: {one.name}<<<6, {BLOCK}>>>({_PASSED}); break;\n"
        for number, one in enumerate(patterns)
    )
    return (
        _HEAD
        + "\n".join(kernels)
        + f"""
__global__ void prepare(int n, int* data, int* other)
{{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {{
        data[i] = -1;
        other[i] = 0;
        other[n + i] = i;
    }}
}}

extern "C" void solve(GRAPH, int* out, int n, int which)
{{
    int *data, *other, *list;
    cudaMalloc(&data, n * 4);
    cudaMalloc(&other, n * 8);
    cudaMalloc(&list, n * 32);
    prepare<<<1, 256>>>(n, data, other);
    switch (which) {{
{cases}    }}
    cudaMemcpy(out, data, 4, cudaMemcpyDeviceToDevice);
}}
"""
    )
