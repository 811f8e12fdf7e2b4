import pytest
from hypothesis import given
from hypothesis import strategies as st
from tunable_sources import sources

from cuda_llm.source_tokens import TokenKind, normal_sha, tokenise

GAPS = [" ", "\t", " /* a comment */", "\\\n", " /* two\nlines */", "\\\r\n"]
BREAKS = ["\n", "// a comment\n", '// "quoted\n', "\n\n", "// it's\\\n continued\n"]


@given(source=sources, data=st.data())
def test_comments_and_layout_change_nothing(source: str, data: st.DataObject) -> None:
    """Gaps between any two tokens but where one means something: in front of a macro's bracket."""
    changed, tokens = "", list(tokenise(source))
    for index, token in enumerate(tokens):
        changed += source[token.start : token.end]
        opens = tokens[index + 1 : index + 2] and tokens[index + 1].text == "("
        if token.kind != TokenKind.NEWLINE and not opens and not changed.endswith("\\\n"):
            changed += (
                data.draw(st.sampled_from(["", "", *GAPS])) if not comment(token.text) else ""
            )
        elif token.kind == TokenKind.NEWLINE:
            changed += data.draw(st.sampled_from(["", "", *BREAKS]))
    assert normal_sha(changed) == normal_sha(source)


def comment(text: str) -> bool:
    """Whether what follows would belong to it."""
    return text.startswith("//")


@given(source=sources, data=st.data())
def test_another_token_is_another_kernel(source: str, data: st.DataObject) -> None:
    tokens = [token for token in tokenise(source) if not token.is_blank]
    token = data.draw(st.sampled_from(tokens))
    text = data.draw(
        st.sampled_from(["x1", "77", "<=", '"s"', "'c'", ""]).filter(token.text.__ne__)
    )
    changed = f"{source[: token.start]} {text} {source[token.end :]}"
    assert normal_sha(changed) != normal_sha(source)


@given(st.text(alphabet=st.sampled_from("ab1 \"'\\\n\r/*#()<>.RuL?:=&|+-$\x00é\t"), max_size=60))
def test_any_text_is_cut_into_pieces_that_make_it_up(source: str) -> None:
    tokens = list(tokenise(source))
    assert "".join(source[one.start : one.end] for one in tokens) == source
    assert all(one.end > one.start for one in tokens)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a = 1;", "int\na=1 ;// b"),
        ("f<<<1, 2>>>();", "f <<<1,2>>> ( );"),
        ("#define A 1\nint a;", "\n# define A 1 /* one */\n\n  int a ;\n"),
        ("#if A\n#endif", "#if A // really\n\n#endif"),
        ("a /* // */ b", "a b"),
        ('"a" /* " */ "b"', '"a" "b"'),
        ("in\\\nt a;", "int a;"),
        ("#define A \\\n 1\nint a;", "#define A 1\nint a;"),
        ("int a = 1'000;", "int a = 1'000 ;"),
    ],
)
def test_sources_that_differ_in_layout_are_one_kernel(one: str, other: str) -> None:
    assert normal_sha(one) == normal_sha(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a;", "inta;"),
        ("a + +b", "a ++b"),
        ("a > > b", "a >> b"),
        ('"a b"', '"a  b"'),
        ('"// a"', '"// b"'),
        ("'a'", "'b'"),
        ("' '", "'  '"),
        ('R"(a\\\nb)"', 'R"(ab)"'),
        ('R"x(/* a */)x"', 'R"x(/* b */)x"'),
        ('R"x()" a )x"', 'R"x()" b )x"'),
        ("#define A 1\nint a;", "#define A 1 int a;"),
        ("#define A(x) x", "#define A (x) x"),
        ("#define A\n1", "#define A 1"),
        ("#include <a//b.h>", "#include <a//c.h>"),
        ("a\n#define b", "a #define b"),
        ("int a = 1'000;", "int a = 1'001;"),
    ],
)
def test_sources_that_differ_in_meaning_are_two_kernels(one: str, other: str) -> None:
    assert normal_sha(one) != normal_sha(other)


def test_a_source_without_a_token_has_no_hash() -> None:
    assert normal_sha("") == normal_sha("// nothing\n /* here */ \n") == ""
