"""Equal keys must mean the same program; the other direction is a convenience."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.edits.cpp_tokens import cpp_tokens
from evolve.edits.equivalence import equivalence_key
from evolve.edits.known import KnownPrograms

Q4 = (Path(__file__).parents[3] / "tasks" / "q4_matvec_cpu" / "seed.cpp").read_text()
CPP = """
static float dot(const float* a, const float* b, int64_t n) {
    float sum = 0;  // a running sum
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
"""


def same(one: str, other: str, language: str = "cpp") -> bool:
    return equivalence_key(one, language) == equivalence_key(other, language)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    float sum = 0;  // a running sum\n", "  float sum=0 ;\n\n"),
        ("{\n    float", "\n{\n\tfloat"),
        ("// a running sum", "/* over\n all */"),
        ("sum", "total"),
        ("\n", "\r\n"),
        (" i", " k"),
    ],
)
def test_layout_comments_and_local_names_do_not_matter(old, new):
    changed = re.sub(rf"\b{re.escape(old)}\b", new, CPP) if old.isalpha() else CPP.replace(old, new)
    if old == " i":
        changed = re.sub(r"\bi\b", "k", CPP)
    assert changed != CPP
    assert same(CPP, changed)


def test_parameters_may_be_renamed_in_one_function():
    renamed = re.sub(r"\bb\b", "right", re.sub(r"\ba\b", "left", CPP))
    assert same(CPP, renamed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a = 4;  // tune: 1, 2", "int a = 4;  // tune: 1, 4"),
        ("int a = 4;  // tune: 1, 2", "int a = 4;"),
        ("int a = 4;  // tune: 1, 2\nint b = 4;", "int a = 4; int b = 4;  // tune: 1, 2"),
        ("// build-flags: -O3\nint a;", "// build-flags: -O2\nint a;"),
        ("// build-flags: -O3\nint a;", "int a;"),
        ("#pragma omp simd\nfor (;;);", "for (;;);"),
        ("#pragma unroll 4\nfor (;;);", "#pragma unroll 8\nfor (;;);"),
        ("#define A 1\nint a = A;", "#define A 2\nint a = A;"),
        ("#define A 1\nB", "#define A 1 B"),
        ("#define F (x)", "#define F(x)"),
        ("#define A 1\\\n+ 2\nint a = A;", "#define A 1\n+ 2\nint a = A;"),
        ("/* c */ #define A 1\nB", "/* c */ #define A 1 B"),
        ("int f(int a, int b) { return a - b; }", "int f(int b, int a) { return a - b; }"),
        ("int f() { return a + +b; }", "int f() { return a ++b; }"),
        ("int f() { return a - --b; }", "int f() { return a-- - b; }"),
        ("x = a / *b;", "x = a /*b;*/ ;"),
        ("int a = 1; // x \\\nint b = 2;", "int a = 1; // x\nint b = 2;"),
        ('auto s = "a // b";', 'auto s = "a ";'),
        ('auto s = "a  b";', 'auto s = "a b";'),
        ('auto s = R"(a\n b)";', 'auto s = R"(a b)";'),
        ('auto s = R"(a // b)";', 'auto s = R"(a )";'),
        ("char c = '\"'; int a; // \"\n", "char c = '\"'; int b; // \"\n"),
        ("int x = 0x1e+2;", "int x = 0x1e + 2;"),
        ("int n = 1'000;", "int n = 1'00;"),
        ("float x = 1.0f;", "float x = 1.0;"),
        # Names that are not only local.
        ("float f(V q) { float x = 1; return x + q.x; }", "float f(V q) { float y = 1; return y + q.y; }"),
        ("struct S { int a; int b; }; int f(S s) { return s.a; }",
         "struct S { int b; int a; }; int f(S s) { return s.a; }"),
        ("int f() { float exp = 1; return exp; } int g() { return exp(2); }",
         "int f() { float sin = 1; return sin; } int g() { return sin(2); }"),
        ("int f() { float expf = 1; return expf; } void g() { map(x, expf); }",
         "int f() { float sinf = 1; return sinf; } void g() { map(x, sinf); }"),
        ("void g() { for (float expf = 0; expf < 1;) { } map(x, expf); }",
         "void g() { for (float sinf = 0; sinf < 1;) { } map(x, sinf); }"),
        ("void g() { { float expf = 0; } map(x, expf); }", "void g() { { float sinf = 0; } map(x, sinf); }"),
        ("void g() { float min = 1; h(min<float>(a, b)); }", "void g() { float max = 1; h(max<float>(a, b)); }"),
        ('void g() { int a = 1; int b = 2; asm("%[a]" :: [a] "r"(a), [b] "r"(b)); }',
         'void g() { int b = 1; int a = 2; asm("%[a]" :: [b] "r"(b), [a] "r"(a)); }'),
        ("#define ADD(x) x + k\nint f() { int k = 1; int m = 2; return ADD(m); }",
         "#define ADD(x) x + k\nint f() { int m = 1; int k = 2; return ADD(k); }"),
        ("#define S(x) #x\nauto s = S(a+b);", "#define S(x) #x\nauto s = S(a + b);"),
        ("#define P(x) v##x\nint f() { int v1 = 1; int v2 = 2; return P(1); }",
         "#define P(x) v##x\nint f() { int v2 = 1; int v1 = 2; return P(1); }"),
        ("#pragma omp parallel for reduction(+ : s)\nvoid f() { int s = 0; int t = 0; }",
         "#pragma omp parallel for reduction(+ : s)\nvoid f() { int t = 0; int s = 0; }"),
        ("int f() { return __LINE__; }", "\nint f() { return __LINE__; }"),
        ("extern int a; int f() { return a; }", "extern int b; int f() { return b; }"),
        ("int a; int f() { return a; }", "int b; int f() { return b; }"),
        ("void f() { int a = 0; goto a; a: ; }", "void f() { int b = 0; goto a; a: ; }"),
        ("S s = {.a = 1};", "S s = {.b = 1};"),
        ("void f() { int s = 1; puts(__func__); }", "void f() { int t = 1; puts( __func__); }"),
    ],
)  # fmt: skip
def test_different_cpp_programs_differ(one, other):
    assert not same(one, other)


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_any_changed_token_makes_another_program(rng: random.Random):
    tokens = cpp_tokens(Q4)
    token = rng.choice([text for text in tokens.texts if tokens.kinds[text] in {"number", "punctuation"}])
    spots = [m.start() for m in re.finditer(re.escape(token), Q4)]
    at = rng.choice(spots)
    line = Q4[Q4.rfind("\n", 0, at) + 1 : Q4.find("\n", at)]
    if "//" in line:
        return
    changed = Q4[:at] + ("7" if tokens.kinds[token] == "number" else "?") + Q4[at + len(token) :]
    assert same(Q4, changed) == (changed == Q4)


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_layout_of_a_real_program_does_not_matter(rng: random.Random):
    assert same(Q4, _relaid(Q4, rng))


def _relaid(source: str, rng: random.Random) -> str:
    """The same program with other indentation and more comments."""
    out = []
    for line in source.split("\n"):
        plain = "//" not in line and not line.lstrip().startswith("#")
        out.append(" " * rng.randrange(6) + line.strip() + rng.choice(["", "  ", " // note"]) if plain else line)
    return "\n".join(out)


def test_known_programs_are_found_under_other_names_and_only_they():
    known = KnownPrograms()
    for number, source in ((1, Q4), (2, CPP), (3, CPP.replace("0", "1"))):
        known.add(number, source, "cpp")
    assert list(known.find(re.sub(r"\bsum\b", "total", CPP).replace("\n", "\r\n"), "cpp")) == [2]
    assert list(known.find(CPP.replace("0", "1"), "cpp")) == [3]
    assert not list(known.find(CPP.replace("0", "2"), "cpp"))
    assert not list(known.find(re.sub(r"\bb\b", "a", CPP), "cpp")), "alike but for names, and another program"
    assert not list(known.find(CPP, "cuda"))


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_finding_agrees_with_the_keys(rng: random.Random):
    changed = _relaid(Q4, rng)
    for _ in range(rng.randrange(3)):
        name = rng.choice(["sum", "lanes", "row", "block", "scale", "LANES"])
        changed = re.sub(rf"\b{name}\b", rng.choice(["sum", "lanes", "other", "x"]), changed)
    known = KnownPrograms()
    known.add(1, Q4, "cpp")
    assert (list(known.find(changed, "cpp")) == [1]) == same(Q4, changed)


PY = """
import numpy as np

BLOCK = 64  # tune: 32, 64


def entry(x, out, n):
    total = 0.0
    for i in range(n):
        part = x[i]
        total += part * part
    out[0] = total
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("total", "acc"), ("part", "p"), ("    total = 0.0\n", "    # sum\n\n    total  =  0.0\n"), ("x[i]", "(x[i])")],
)
def test_python_layout_comments_and_local_names_do_not_matter(old, new):
    assert same(PY, PY.replace(old, new), "python")


@pytest.mark.parametrize(
    ("old", "new"),
    [("64  #", "32  #"), ("32, 64", "32"), ("  # tune: 32, 64", ""), ("BLOCK", "B"), ("entry", "other"),
     ("x[i]", "n[i]"), ("(x, out, n)", "(out, x, n)"), ("total += part", "part += total"), ("0.0", "0"),
     ("0.0", "-0.0")],
)  # fmt: skip
def test_different_python_programs_differ(old, new):
    assert not same(PY, PY.replace(old, new), "python")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(e):\n a = 1\n try: g()\n except X as e: a = e\n return a",
         "def f(e):\n a = 1\n try: g()\n except X as e: a = f\n return a"),
        ("def f():\n a = x; b = y\n return evaluate('a-b')", "def f():\n b = x; a = y\n return evaluate('a-b')"),
        ("def f():\n a = 1\n return locals()", "def f():\n b = 1\n return locals()"),
        ("def f():\n return [x for x in y] + x", "def f():\n return [z for z in y] + z"),
        ("def f():\n global a\n a = 1", "def f():\n global b\n b = 1"),
        ("def f():\n import math as m\n m = m.pi\n return m", "def f():\n import math as n\n m = m.pi\n return m"),
        ("class A:\n a = 1", "class A:\n b = 1"),
        ("a = 1", "b = 1"),
        ("x = 1", "x = 1.0"),
        ("x = True", "x = 1"),
        ("f(a=1)", "f(b=1)"),
    ],
)  # fmt: skip
def test_different_python_scopes_differ(one, other):
    assert not same(one, other, "python")


def test_text_that_is_no_program_only_equals_itself():
    assert same("def f(:", "def f(:", "python")
    assert not same("def f(:", "def f( :", "python")


NAMES = ("a", "b", "c")
_name = st.sampled_from(NAMES)
_value = st.one_of(_name, st.sampled_from(["x", "y", "1", "2"]))
_expression = st.one_of(
    _value,
    st.builds("({} - {})".format, _value, _value),
    st.builds("sum([{0} for {0} in (1, 2)])".format, _name),
    st.builds("sum({1} for {0} in (1, 2))".format, _name, _value),
)
_statement = st.one_of(
    st.builds("{} = {}".format, _name, _expression),
    st.builds("{} -= {}".format, _name, _value),
    st.builds("for {} in (3, 4): {} = {}".format, _name, _name, _value),
    st.builds("if {} > {}: {} = {}".format, _value, _value, _name, _value),
)


@st.composite
def _pairs(draw):
    """A function, and the same with some of its names exchanged here and there."""
    lines = [f"{name} = {n}" for n, name in enumerate(NAMES)]
    lines += [*draw(st.lists(_statement, min_size=1, max_size=5)), f"return {draw(_value)}"]
    swap = draw(st.permutations(NAMES))
    where = draw(st.sampled_from(["everywhere", "somewhere"]))

    def exchanged(line: str) -> str:
        if where == "somewhere" and draw(st.booleans()):
            return line
        return re.sub(r"\b[abc]\b", lambda m: swap[NAMES.index(m[0])], line)

    return _function(lines), _function([exchanged(line) for line in lines])


def _function(lines: list[str]) -> str:
    return "def f(x, y):\n" + "".join(f"    {line}\n" for line in lines)


def _results(source: str) -> list[object]:
    scope: dict[str, object] = {"a": 101, "b": 102, "c": 103}
    exec(source, scope)  # the test's own text
    return [scope["f"](x, y) for x, y in itertools.product((0, 5), (1, 7))]


@settings(max_examples=400)
@given(_pairs())
def test_functions_with_equal_keys_compute_the_same(pair):
    one, other = pair
    if same(one, other, "python"):
        assert _results(one) == _results(other)


def test_exchanging_all_local_names_is_recognised():
    one = _function(["a = x", "b = a - y", "return b"])
    other = _function(["c = x", "a = c - y", "return a"])
    assert same(one, other, "python")
