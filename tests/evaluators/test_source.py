"""EVOLVE-BLOCK regions and build flags."""

import pytest

from evaluators.source import build_flags, check_blocks, evolve_blocks, flags_comment, outside_equal, source_hash

SEED = """#include <cstdint>
// EVOLVE-BLOCK-START
int f() { return 1; }
// EVOLVE-BLOCK-END
int g() { return 2; }
// EVOLVE-BLOCK-START
int h() { return 3; }
// EVOLVE-BLOCK-END
"""
CHOICES = [["-O3", "-O2"], ["", "-funroll-loops"]]


def test_blocks_are_found_in_order_with_their_lines():
    first, second = evolve_blocks(SEED)
    assert (first.start_line, first.end_line, first.text) == (2, 4, "int f() { return 1; }")
    assert second.text == "int h() { return 3; }"


def test_python_and_c_comments_both_mark():
    assert len(evolve_blocks("# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n")) == 1
    assert len(evolve_blocks("/* EVOLVE-BLOCK-START */\nint x;\n/* EVOLVE-BLOCK-END */\n")) == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("// EVOLVE-BLOCK-START\nx\n", "line 1: EVOLVE-BLOCK-START without"),
        ("x\n// EVOLVE-BLOCK-END\n", "line 2: EVOLVE-BLOCK-END without"),
        ("// EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-START\n", "line 2: EVOLVE-BLOCK-START inside"),
        ("int x; // EVOLVE-BLOCK-START\n", "line 1: an EVOLVE-BLOCK marker must stand alone"),
        ("// EVOLVE-BLOCK-START EVOLVE-BLOCK-END\n", "line 1: an EVOLVE-BLOCK marker must stand alone"),
    ],
)
def test_wrong_markers_name_the_line(source, message):
    with pytest.raises(ValueError, match=message) as caught:
        evolve_blocks(source)
    assert "\n" not in str(caught.value)


def test_changes_inside_are_allowed():
    assert check_blocks(SEED, SEED.replace("return 1", "return 10;\n// more\n")) is None
    assert outside_equal(SEED, SEED.replace("int h() { return 3; }\n", ""))


def test_line_ends_do_not_matter():
    assert check_blocks(SEED, SEED.replace("\n", "  \r\n")) is None
    assert check_blocks(SEED, SEED + "\n\n") is None
    assert source_hash(SEED) == source_hash(SEED.replace("\n", "\r\n") + "\n")
    assert source_hash(SEED) != source_hash(SEED.replace("return 1", "return  1"))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.replace("return 2", "return 4"),
        lambda s: s.replace("int g() { return 2; }\n", ""),
        lambda s: "#include <cstdio>\n" + s,
        lambda s: s + "int late;\n",
        lambda s: s.replace("// EVOLVE-BLOCK-END\nint g() { return 2; }\n// EVOLVE-BLOCK-START\n", ""),
        lambda s: s.replace("// EVOLVE-BLOCK-END\nint g", "// EVOLVE-BLOCK-END\r int late;\nint g"),
        lambda s: s.replace("int f", "// EVOLVE-BLOCK-END\nint evil;\n// EVOLVE-BLOCK-START\nint f"),
        lambda s: s.replace("// EVOLVE-BLOCK-START\n", ""),
        lambda s: "",
    ],
)
def test_changes_outside_are_refused_in_one_line(change):
    reason = check_blocks(SEED, change(SEED))
    assert reason
    assert "\n" not in reason


def test_a_seed_without_regions_lets_everything_change():
    assert check_blocks("int x;", "int y;") is None


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("", ("-O3",)),
        ("// build-flags:", ("-O3",)),
        ("// build-flags: -O2", ("-O2",)),
        ("  // build-flags: -funroll-loops -O2", ("-O2", "-funroll-loops")),
        ("# build-flags: -funroll-loops", ("-O3", "-funroll-loops")),
    ],
)
def test_flags_are_picked_from_the_groups(line, flags):
    assert build_flags(f"{line}\nint x;", CHOICES) == flags


def test_a_line_that_omits_an_optional_flag_switches_it_off():
    choices = [["-funroll-loops", ""]]
    assert build_flags("int x;", choices) == ("-funroll-loops",)
    assert build_flags("// build-flags:", choices) == ()


def test_an_alternative_of_several_words_is_taken_whole():
    choices = [["", "-ffast-math -fno-finite-math-only", "-ffast-math"]]
    assert build_flags("// build-flags: -ffast-math", choices) == ("-ffast-math",)
    assert build_flags("// build-flags: -fno-finite-math-only -ffast-math", choices) == (
        "-ffast-math",
        "-fno-finite-math-only",
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("// build-flags: -fplugin=evil.so", "line 1: build-flags: -fplugin=evil.so is not among"),
        ("// build-flags: -O3 -O2", "-O2 is one too many: pick one of -O3, -O2"),
        ("// build-flags: -O3 -O3", "-O3 is one too many"),
        ("// build-flags: -O3\n// build-flags: -O2", "lines 1 and 2 both say build-flags"),
    ],
)
def test_other_flags_are_refused_in_one_line(source, message):
    with pytest.raises(ValueError, match=message) as caught:
        build_flags(source, CHOICES)
    assert "\n" not in str(caught.value)


def test_a_task_without_choices_allows_no_flag():
    assert build_flags("int x;", []) == ()
    with pytest.raises(ValueError, match="it has none"):
        build_flags("// build-flags: -O3", [])


@pytest.mark.parametrize("picked", [("-O3", ""), ("-O2", "-funroll-loops"), ("-O3", "-funroll-loops")])
def test_the_written_line_reads_back(picked):
    assert build_flags(flags_comment(picked), CHOICES) == tuple(filter(None, picked))
