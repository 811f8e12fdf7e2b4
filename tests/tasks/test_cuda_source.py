"""What a source defines, and what its functions do with what they are given."""

import pytest

from cuda_llm.tasks.cuda_source import DefinedFunction, read_cuda
from cuda_llm.tasks.launches import find_launch
from cuda_llm.tasks.pointer_use import Use, accesses

SOURCE = """
namespace a {
namespace { struct P { const float* x; int n, *m; }; enum class E : int { One = 3 }; }
}
namespace a::b {
template <typename T, int N = (2 > 1)> __global__ void __launch_bounds__(N * 2) k(T* y, a::P p) { }
template __global__ void k<float, 4>(float*, a::P);
}
typedef struct { float v[4]; } Vec;
using real = double;
class C { public: static void run(real* x, int n = 4) { } int own() const { return 1; } };
int table[] = {1, 2};
extern "C" { void last(const char* s, ...) { } }
"""


def function(source: str, name: str) -> DefinedFunction:
    return next(one for one in read_cuda(source).functions if one.name == name)


def test_functions_have_their_scopes_templates_and_parameters() -> None:
    read = read_cuda(SOURCE)
    assert [one.qualified for one in read.functions] == ["a::b::k", "C::run", "C::own", "last"]
    kernel = function(SOURCE, "k")
    assert [(one.name, one.is_type, one.default) for one in kernel.templates] == [
        ("T", True, ""),
        ("N", False, "(2 > 1)"),
    ]
    assert kernel.largest_block == "N * 2"
    assert read.instances["k"] == ("float", "4")
    assert read.enums == {"a::E": "3"}
    members = read.structs["a::P"] or ()
    assert [(one.name, one.ctype, one.pointers) for one in members] == [
        ("x", "float", 1),
        ("n", "int", 0),
        ("m", "int", 1),
    ]
    run = function(SOURCE, "run")
    assert (run.is_static, run.in_class) == (True, True)
    assert [(one.ctype, one.pointers, one.default) for one in run.parameters] == [
        ("real", 1, ""),
        ("int", 0, "4"),
    ]


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        ("y[i] = x[i];", [Use.WRITE]),
        ("y[i] += x[i];", [Use.UPDATE]),
        ("y[i] = 2 * y[i];", [Use.READ, Use.WRITE]),
        ("atomicAdd(&y[i], 1);", [Use.UPDATE]),
        ("float* row = y + i; row[0] = 1;", [Use.WRITE]),
        ("reinterpret_cast<float4*>(y)[i].x = 1;", []),
        ("*y = 1; z = *y;", [Use.WRITE, Use.READ]),
        ("helper(n, y);", [Use.UPDATE]),
        ("cudaMemsetAsync(y, 0, 4);", [Use.CLEAR]),
    ],
)
def test_the_use_of_a_pointer_is_seen(body: str, uses: list[Use]) -> None:
    source = (
        "__device__ void helper(int n, float* p) { p[n] -= 1; }\n"
        f"__global__ void k(const float* x, float* y, int n) {{ {body} }}\n"
    )
    found = accesses(read_cuda(source), function(source, "k"), "y")
    assert [one.use for one in found] == uses


@pytest.mark.parametrize(
    ("body", "statements", "configuration"),
    [
        ("k<<<(m + 255) / 256, 256>>>(x, m);", (), ("(n + 255) / 256", "256")),
        ("int g = m / 4; k<<<g, T>>>(x, m);", ("int g = n / 4;",), ("g", "T")),
        ("int a = 7, b = m; k<<<b, 1>>>(x, m);", ("int b = n;",), ("b", "1")),
        ("dim3 g{1, 2}; k<<<g, 1, 64, s>>>(x, m);", ("dim3 g{1, 2};",), ("g", "1", "64")),
        ("int g = 1; if (m > 9) g = 2; k<<<g, 1>>>(x, (int)m);",
         ("int g = 1;", "if(n > 9)g = 2;"), ("g", "1")),
        ("k<<<(r * c + 31) / 32, 32>>>(x, r * c);", (), ("(n + 31) / 32", "32")),
    ],
)  # fmt: skip
def test_a_launch_is_written_in_the_kernels_parameters(
    body: str, statements: tuple[str, ...], configuration: tuple[str, ...]
) -> None:
    source = f"#define T 128\n__global__ void k(float* x, int n) {{ }}\nint main() {{ {body} }}\n"
    found = find_launch(read_cuda(source), function(source, "k"), ())
    assert found is not None
    assert found.statements == statements
    assert found.configuration == tuple(one.replace("T", "128") for one in configuration)


@pytest.mark.parametrize(
    "body",
    [
        "k<<<unknown, 1>>>(x, m);",
        "int n = 4; k<<<n, 1>>>(x, m);",
        "k<<<1>>>(x, m);",
    ],
)
def test_a_launch_that_needs_more_is_left_to_a_guess(body: str) -> None:
    source = f"__global__ void k(float* x, int n) {{ }}\nint main() {{ {body} }}\n"
    assert find_launch(read_cuda(source), function(source, "k"), ()) is None


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("", ["g"]),
        ("}", ["g"]),
        ("void f(", []),
        ("template <", ["g"]),
        ("struct {", ["g"]),
        ("k<<<", ["g"]),
        ("enum", ["g"]),
        ("using x =", []),
        ("namespace a {", ["a::g"]),
        ("(]", ["g"]),
    ],
)
def test_broken_text_gives_what_can_be_found(source: str, found: list[str]) -> None:
    read = read_cuda(source + "\nvoid g(int n) { k<<<1, 1>>>(n); }\n")
    assert [one.qualified for one in read.functions] == found
    assert [one.kernel for one in read.launches()] == ["k"] * len(found)
    assert not list(read_cuda(source).launches())
