"""Finding tunables in source texts, and writing other values in their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.source import build_flags, check_blocks
from evolve.proposers.tunables import find_tunables

CPP = """#include <cstdint>
// EVOLVE-BLOCK-START
constexpr int UNROLL = 4;  // tune: 1, 2, 4, 8
#define TILE 32 // tune: 16, 32, 64
static const char* KIND = "a,b";  // tune: "a,b", "c"
// EVOLVE-BLOCK-END
constexpr int FIXED = 1;  // tune: 1, 2
"""
PYTHON = """STEP = 0.5  # tune: 0.25, 0.5, 1e-3
SIZES = (1, 2)  # tune: (1, 2), (3, 4)
RATE: float = 1  # tune: 1, 2
def f(x, depth=3,  # tune: 1, 2, 3
      ):
    y = g(x, kind="fast")  # tune: "fast", "slow"
    return h(y, n=-1)  # a comment
"""
TRITON = """@triton.autotune([triton.Config({"B": 1}, num_warps=4)], key=[])
@triton.jit
def kernel(x, BLOCK: tl.constexpr = 128, HEAD: tl.constexpr = 96, GROUP: tl.constexpr=8):
    pass
def entry(x):
    kernel[grid](x, num_warps=4, num_stages=3)
    kernel[grid](x, num_warps=8)  # tune: 8, 32
"""
FLAGS = [["-O3", "-O2"], ["", "-funroll-loops"]]


def test_cpp_constants_and_macros_inside_the_regions():
    found = find_tunables(CPP, "cpp")
    assert found.values == {"UNROLL": "4", "TILE": "32", "KIND": '"a,b"'}
    assert [t.choices for t in found] == [("1", "2", "4", "8"), ("16", "32", "64"), ('"a,b"', '"c"')]
    assert found.size == 4 * 3 * 2


def test_python_assignments_and_arguments():
    found = find_tunables(PYTHON, "python")
    assert found.values == {"STEP": "0.5", "SIZES": "(1, 2)", "RATE": "1", "depth": "3", "kind": '"fast"'}


def test_triton_finds_its_own_without_a_comment():
    found = find_tunables(TRITON, "triton")
    assert found.values == {"BLOCK": "128", "GROUP": "8", "num_warps": "4", "num_stages": "3", "num_warps#2": "8"}
    assert [t.choices for t in found if t.name == "num_warps#2"] == [("8", "32")]


def test_substitution_changes_the_values_and_nothing_else():
    found = find_tunables(CPP, "cpp")
    changed = found.substitute({"TILE": "64", "KIND": '"c"'})
    assert changed == CPP.replace("TILE 32", "TILE 64").replace('KIND = "a,b"', 'KIND = "c"')
    assert check_blocks(CPP, changed) is None


@pytest.mark.parametrize("values", [{"TILE": "65"}, {"FIXED": "2"}, {"TILE": "32; evil()"}])
def test_only_choices_are_written(values):
    with pytest.raises(ValueError, match=r"TILE|FIXED"):
        find_tunables(CPP, "cpp").substitute(values)


@pytest.mark.parametrize(
    "line",
    [
        "constexpr int A = 4;",
        "constexpr int A = 4;  // tune:",
        "constexpr int A = 4;  // tune: ;, //",
        "if (a == 4) b();  // tune: 1, 2",
        "a += 4;  // tune: 1, 2",
        "// EVOLVE-BLOCK-START\nconstexpr int A = 4;  // tune: 1, 2",
    ],
)
def test_what_is_no_tunable(line):
    assert not find_tunables(line, "cpp")


def test_sources_that_differ_in_values_share_a_structure():
    found = find_tunables(CPP, "cpp", FLAGS)
    other = find_tunables(found.substitute({"UNROLL": "8", "build_flags_1": "-O2"}), "cpp", FLAGS)
    assert other.structure == found.structure
    assert find_tunables(CPP.replace("FIXED = 1", "FIXED = 2"), "cpp", FLAGS).structure != found.structure
    assert find_tunables(CPP.replace("4, 8", "4, 16"), "cpp", FLAGS).structure != found.structure


def test_flags_are_written_inside_the_first_region():
    found = find_tunables(CPP, "cpp", FLAGS)
    assert found.values["build_flags_1"] == "-O3"
    changed = found.substitute({"build_flags_2": "-funroll-loops"})
    assert build_flags(changed, FLAGS) == ("-O3", "-funroll-loops")
    assert check_blocks(CPP, changed) is None
    again = find_tunables(changed, "cpp", FLAGS)
    other = again.substitute({"build_flags_2": "", "build_flags_1": "-O2"})
    assert other.count("build-flags:") == 1
    assert build_flags(other, FLAGS) == ("-O2",)
    assert again.substitute({"build_flags_2": ""}) == CPP


def test_a_flags_line_outside_the_regions_is_left_alone():
    found = find_tunables("// build-flags: -O2\n" + CPP, "cpp", FLAGS)
    assert not found.flags


NAMES = st.sampled_from(["A", "B2", "_c", "LONG_NAME"])
VALUES = st.sampled_from(["1", "-2", "0x10", "1'000", "2.5f", '"x y"', "{1, 2}", "N / 2", "a::b<1, 2>(3)"])
NOISE = st.sampled_from(
    ["", "int x = 3;", "// tune: 1, 2", "for (int i = 0; i < 4; ++i) {", "\t}", "#define ONE 1", "a = b = c; // tuned"]
)


@st.composite
def cpp_line(draw):
    name, choices = draw(NAMES), draw(st.lists(VALUES, min_size=1, max_size=4))
    form = draw(
        st.sampled_from(["constexpr int {} = {};  // tune: {}", "  #define {} {} // tune:{}", "int {}={};//tune:{}"])
    )
    return form.format(name, draw(VALUES), ", ".join(choices))


SOURCES = st.tuples(
    st.lists(st.one_of(cpp_line(), NOISE), max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans()
)


@given(SOURCES, st.data())
def test_what_is_written_reads_back(parts, data):
    lines, ending, with_blocks, with_flags = parts
    lines = (
        ["// EVOLVE-BLOCK-START", *lines, "// EVOLVE-BLOCK-END", "int A = 1; // tune: 1, 2"] if with_blocks else lines
    )
    source = ending.join([*lines, ""])
    found = find_tunables(source, "cpp", FLAGS if with_flags else [])
    assert found.substitute(found.values) == source
    values = {t.name: data.draw(st.sampled_from(t.choices)) for t in found}
    written = found.substitute(values)
    again = find_tunables(written, "cpp", FLAGS if with_flags else [])
    assert again.values == values
    assert again.structure == found.structure
    others = {t.name: data.draw(st.sampled_from(t.choices)) for t in found}
    assert find_tunables(again.substitute(others), "cpp", FLAGS).values.items() >= others.items()
    if not with_flags:
        assert again.substitute(others) == found.substitute(others)
    if with_blocks:
        assert check_blocks(source, written) is None


@given(st.text(alphabet="aA1=:,;#/ \n\"'()tune.", max_size=200), st.sampled_from(["cpp", "python", "triton", "cuda"]))
def test_any_text_is_read_without_complaint_and_kept(text, language):
    found = find_tunables(text, language)
    assert found.substitute(found.values) == text
