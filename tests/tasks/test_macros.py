"""What macros of a source stand for, as far as its declarations need it."""

import pytest

from cuda_llm.tasks.macros import expand_macros, spell


def expanded(source: str) -> str:
    return spell(expand_macros(source))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("#define N 4\nint x[N];", "int x[4];"),
        ("#define K(op) vec_##op##_k\nvoid K(max)(int n);", "void vec_max_k(int n);"),
        ("#define F(a, ...) f(a, __VA_ARGS__)\nF(1, 2, 3);", "f(1, 2, 3);"),
        ("#define G(x) g(x)\nG;\nG((1, 2));", "G; g((1, 2));"),
        ("#define A B\n#define B A\nA;", "A;"),
        ("#define N 4\n#undef N\nN;", "N;"),
        ("#define S(x) #x\nf(S(a b));", 'f("");'),
        ("#define X 1\n#ifdef X\na;\n#else\nb;\n#endif\nc;", "a; c;"),
        ("#if 0\na;\n#elif Y\nb;\n#endif", "b;"),
        ("#ifndef GUARD\n#define GUARD\na;\n#endif", "a;"),
    ],
)
def test_macros_are_expanded(source: str, text: str) -> None:
    assert expanded(source) == text


def test_what_a_macro_stands_for_lies_where_it_is_used() -> None:
    source = "#define D(n) void n() {}\nD(first)\nD(second)\n"
    spans = {source[one.start : one.end] for one in expand_macros(source)}
    assert spans == {"D(first)", "D(second)"}


def test_a_text_that_doubles_with_each_macro_ends() -> None:
    lines = [f"#define M{i + 1} M{i} M{i}" for i in range(40)]
    assert expand_macros("\n".join([*lines, "M40"]))


@pytest.mark.parametrize("source", ["#define", "#define F(", "#if", "#define F(a) a\nF(", "##"])
def test_broken_text_is_no_error(source: str) -> None:
    assert all(one.text in source for one in expand_macros(source))
