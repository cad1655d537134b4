"""Every status can be reached, and says in one line why."""

import pytest

from evaluators.evaluation import Stage, Status, Timed, Untimed
from tests.evaluators.judge.conftest import DOUBLE_CPP, DOUBLE_PY, POINT_PY

HEAD = "#include <cmath>\n#include <cstdint>\n#include <cstdlib>\n#include <vector>\n"
ENTRY = HEAD + 'extern "C" void double_it(const float* x, float* out, int64_t N) {\n%s\n}\n'
RIGHT = "for (int64_t i = 0; i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));"

OTHER_NEIGHBOUR = """
static int64_t calls;
const int64_t i = ++calls % N;  // another element in every call gets the other neighbour of the exact value
const double exact = 2 * std::sqrt(std::fabs(double(x[i])));
if (N > 9) out[i] = std::nextafterf(out[i], out[i] < exact ? INFINITY : 0.0f);
"""

FAILING = [
    ("cpp", DOUBLE_CPP + "// " + "x" * 300_000, Status.REJECTED, Stage.LINT, "limits.source_bytes"),
    ("cpp", "// build-flags: -ffast-math\n" + DOUBLE_CPP, Status.REJECTED, Stage.LINT, "-ffast-math"),
    ("cpp", "int x = ;", Status.BUILD_ERROR, Stage.BUILD, "error"),
    ("cpp", "int other;", Status.BUILD_ERROR, Stage.IMPORT, "double_it"),
    ("python", "def double_it(:", Status.BUILD_ERROR, Stage.IMPORT, "SyntaxError"),
    ("python", "x = 1", Status.BUILD_ERROR, Stage.IMPORT, "double_it"),
    ("python", "import numpy as np\ndef double_it(x, out, N): return np.zeros(N + 1, 'f4')", Status.WRONG_SHAPE, Stage.SMOKE, "shape"),
    ("python", "import numpy as np\ndef double_it(x, out, N): return np.zeros(N)", Status.WRONG_DTYPE, Stage.SMOKE, "float64"),
    ("cpp", ENTRY % "for (int64_t i = 0; i < N; i++) out[i] = 0;", Status.WRONG_VALUES, Stage.SMOKE, "ulp"),
    ("cpp", ENTRY % "", Status.WRONG_VALUES, Stage.SMOKE, "never written"),
    ("cpp", ENTRY % "for (int64_t i = 0; i < N; i++) out[i] = std::sqrt(-1.0f - x[i] * x[i]);", Status.NOT_FINITE, Stage.SMOKE, "out"),
    ("cpp", ENTRY % (RIGHT + OTHER_NEIGHBOUR), Status.NONDETERMINISTIC, Stage.CORRECTNESS, "differs"),
    ("cpp", ENTRY % (RIGHT + " out[N] = 1;"), Status.RUNTIME_ERROR, Stage.SMOKE, "outside its output"),
    ("cpp", ENTRY % (RIGHT + " *(volatile int*)0 = 1;"), Status.RUNTIME_ERROR, Stage.SMOKE, "SIGSEGV"),
    ("cpp", ENTRY % (RIGHT + " const_cast<float*>(x)[0] = 1;"), Status.RUNTIME_ERROR, Stage.SMOKE, "SIGSEGV"),
    ("cpp", ENTRY % "std::exit(0);", Status.RUNTIME_ERROR, Stage.SMOKE, "code 0"),
    ("python", "def double_it(x, out, N): raise KeyError('lost')", Status.RUNTIME_ERROR, Stage.SMOKE, "KeyError"),
    ("python", "def double_it(x, out, N): x[0] = 1", Status.RUNTIME_ERROR, Stage.SMOKE, "read-only"),
    ("cpp", ENTRY % "for (;;) asm volatile(\"\");", Status.TIMEOUT, Stage.SMOKE, "longer than 1 s"),
    ("python", "while True: pass", Status.TIMEOUT, Stage.IMPORT, "longer than 3 s"),
    ("cpp", ENTRY % "std::vector<char> v(1ull << 40); out[0] = v[7];", Status.OUT_OF_MEMORY, Stage.SMOKE, "memory"),
    ("python", "def double_it(x, out, N): bytearray(1 << 40)", Status.OUT_OF_MEMORY, Stage.SMOKE, "Memory"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "source", "status", "stage", "words"), FAILING)
def test_a_bad_candidate_gets_its_status_and_the_next_one_passes(double_judge, language, source, status, stage, words):
    evaluation = double_judge.evaluate(source, language)
    assert (evaluation.status, evaluation.stage) == (status, stage), evaluation.message
    assert words in evaluation.message + evaluation.detail
    assert "\n" not in evaluation.message
    assert evaluation.score is None
    assert isinstance(evaluation.timing, Untimed)
    assert evaluation.cost.wall_s < 15


def test_a_right_program_passes_and_is_timed_against_the_baseline(double_judge):
    """The candidate is the baseline: whatever else the machine does, the interval holds 1."""
    evaluation = double_judge.evaluate(DOUBLE_CPP, "cpp")
    assert evaluation.status is Status.PASSED, evaluation.message
    assert isinstance(evaluation.timing, Timed) or "noisy" in evaluation.timing.reason
    (large,) = (w for w in evaluation.workloads if w.split == "search")
    assert large.strongest == "plain"
    assert large.ratios["plain"].low <= 1 <= large.ratios["plain"].high
    assert set(large.errors) == {"normal", "zeros", "infinite"}
    assert all(e.max_ulp <= e.max_limit_ulp for e in large.errors.values())
    assert not evaluation.confirmed


def test_a_slow_right_program_passes_with_a_low_score(double_judge):
    evaluation = double_judge.evaluate(DOUBLE_PY, "python")
    assert evaluation.status is Status.PASSED, evaluation.message
    assert evaluation.score is None or evaluation.score < 1


def test_a_confirmation_covers_the_held_out_workload(double_judge):
    evaluation = double_judge.confirm(DOUBLE_CPP, "cpp")
    assert evaluation.status is Status.PASSED, evaluation.message
    assert evaluation.confirmed or "noisy" in evaluation.timing.reason
    (held,) = (w for w in evaluation.workloads if w.split == "heldout")
    assert held.call_us is not None
    assert held.errors["normal"].max_ulp is not None


def test_a_program_wrong_on_the_held_out_shape_alone_is_not_confirmed(double_judge):
    source = ENTRY % (RIGHT + " if (N == 40000) out[N - 1] = 0;")
    assert double_judge.evaluate(source, "cpp").status is Status.PASSED
    confirmation = double_judge.confirm(source, "cpp")
    assert confirmation.status is Status.WRONG_VALUES
    assert "held" in confirmation.message


def test_value_scored_answers_are_scored_or_refused(point_judge):
    passed = point_judge.evaluate(POINT_PY, "python")
    assert (passed.status, passed.score, passed.measures) == (Status.PASSED, 1.0, {"x": 0.5})
    assert passed.artifacts[0].text == "0.5 0.5"
    outside = point_judge.evaluate("def point(out):\n    out[:] = 2", "python")
    assert outside.status is Status.WRONG_VALUES
    assert "outside the disc" in outside.message
    silent = point_judge.evaluate("def point(out):\n    pass", "python")
    assert silent.status is Status.WRONG_VALUES
    assert "never written" in silent.message


def test_a_returned_answer_counts_as_a_written_one(point_judge):
    evaluation = point_judge.evaluate("import numpy as np\ndef point(out):\n    return np.array([0.25, 0.5])", "python")
    assert evaluation.score == 0.75
