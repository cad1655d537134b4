"""What people read: honest wording, aligned tables, nothing that moves their cursor."""

import io
import json

import pytest
from rich.console import Console

from evaluators.evaluation import (
    Cost,
    Environment,
    ErrorMeasure,
    Evaluation,
    Interval,
    Stage,
    Status,
    Timed,
    WorkloadResult,
)
from evolve.budget import Charge, Spent
from evolve.display import wording
from evolve.display.output import JsonOutput, PlainOutput, RichOutput, open_output, plain_table, printable
from evolve.display.progress import PlainProgress, RichProgress, live_progress, progress_text
from evolve.display.report import Report, Table, facts
from evolve.display.summary import Account, held_out, summarise, versus_strongest
from evolve.display.verdict import describe, workload_table
from evolve.observer import Progress, Silent
from evolve.settings import Caps
from evolve.types import AddStatus, Program, ProgramState, RunStatus


def interval(low, estimate, high):
    return Interval(low=low, estimate=estimate, high=high, level=0.99)


def workload(name="m1", split="search", *, max_ulp=0.4, ratio=0.83):
    return WorkloadResult(
        workload=name,
        split=split,
        weight=1,
        errors={
            "normal": ErrorMeasure(max_ulp=0.1, rms_ulp=0.01, max_limit_ulp=9, rms_limit_ulp=1, elements=9),
            "huge": ErrorMeasure(max_ulp=max_ulp, rms_ulp=0.2, max_limit_ulp=1.6, rms_limit_ulp=1, elements=9),
        },
        call_us=interval(1990, 2000, 2010),
        ratios={"plain": interval(1.9, 2.0, 2.1), "vectorised": interval(ratio - 0.01, ratio, ratio + 0.01)},
        strongest="vectorised",
        floor_us=1500,
        rounds=21,
    )


def evaluation(score=0.83, *, confirmed=False, workloads=(), sandbox="full", timed=True, **changes):
    document = {
        "status": Status.PASSED,
        "stage": Stage.ROUNDS,
        "task_hash": "t",
        "source_hash": "s",
        "score": score,
        "workloads": workloads,
        "confirmed": confirmed,
        "environment": Environment(device_class="cpu:X:2", sandbox=sandbox),
        "cost": Cost(build_s=0.5, wall_s=2),
    }
    if timed:
        document["timing"] = Timed(speedup=interval(score - 0.01, score, score + 0.01), cold=True, rounds=21)
    return Evaluation.model_validate({**document, **changes})


def program(number=7, verdict=None, confirmation=None, **changes):
    fields = {
        "number": number,
        "source": "x",
        "source_hash": "h",
        "language": "cpp",
        "operator": "tune",
        "proposer": "tuner",
        "state": ProgramState.FINISHED,
        "island": 0,
        "generation": 2,
        "note": "UNROLL 4 -> 8",
        "evaluation": verdict,
        "confirmation": confirmation,
        "placement": AddStatus.NEW,
    }
    return Program(**{**fields, **changes})


def progress(**changes):
    fields = {
        "status": RunStatus.RUNNING,
        "programs": 12,
        "finished": 10,
        "duplicates": 2,
        "verdicts": {"passed": 5, "build_error": 2, "wrong_values": 1},
        "judging": 1,
        "spent": Spent(charge=Charge(candidates=12, device_s=20), seconds=40),
        "caps": Caps(seconds=60, candidates=100),
    }
    return Progress(**{**fields, **changes})


@pytest.mark.parametrize(
    ("speedup", "verdict"),
    [
        (interval(0.82, 0.83, 0.84), "0.83x of the strongest baseline (vectorised)"),
        (interval(0.82, 0.83, 0.84), "slower than it"),
        (interval(0.99, 1.01, 1.02), "no difference shown"),
        (interval(1.39, 1.42, 1.45), "faster than it"),
        (interval(1.0, 1.02, 1.04), "no difference shown"),
    ],
)
def test_a_speed_up_is_claimed_only_where_its_interval_shows_one(speedup, verdict):
    text = versus_strongest(speedup, "vectorised")
    assert verdict in text
    assert "99 % interval" in text


def test_what_was_seen_at_a_glance_says_so_and_is_called_no_gain():
    seen = interval(1.2, 1.25, 1.3).model_copy(update={"level": 0.87})
    text = versus_strongest(seen, "vectorised")
    assert "87 % interval" in text
    assert "faster than it" not in text
    assert wording.ratio(seen) == "1.25x [1.2, 1.3] at 87 %"
    assert "slower than it" in versus_strongest(interval(0.4, 0.5, 0.6).model_copy(update={"level": 0.87}), "")


def summary(best, **changes):
    seed = program(1, evaluation(0.4))
    account = Account("runs/a", "q4", progress(best=best, **changes), seed, "the cap on seconds was met")
    return summarise(account)


def test_a_summary_says_where_the_best_stands():
    confirmation = evaluation(
        0.83, confirmed=True, workloads=(workload(), workload("h", "heldout"), workload("i", "heldout"))
    )
    report = summary(program(7, evaluation(0.9), confirmation))
    text = report.parts[0]
    assert "7 (tune, generation 2: UNROLL 4 -> 8)" in text
    assert "0.83x of the strongest baseline (vectorised), [0.82, 0.84], 99 % interval: slower than it" in text
    assert "2.07x [2, 2.15] the seed's speed" in text
    assert "2 of 2 workloads passed" in text
    assert (
        "12 tried: 5 passed, 3 (build_error 2, wrong_values 1) failed, 2 duplicates, 2 not judged or not placed yet"
        in text
    )
    assert "evolve best runs/a -o best.cpp" in text
    assert "evolve eval q4 best.cpp" in text
    assert report.data["score"] == 0.83
    assert json.loads(json.dumps(report.data, default=str))["speedup"]["low"] == pytest.approx(0.82)


def test_a_summary_without_a_best_does_not_invent_one():
    text = summary(None).parts[0]
    assert "none confirmed" in text
    assert "evolve best" not in text
    unconfirmed = summary(None, contender=program(9, evaluation(1.3))).parts[0]
    assert "program 9 looked best and is not confirmed" in unconfirmed


def test_every_program_judged_in_less_than_the_full_sandbox_shows_in_the_summary():
    def told(**levels):
        return summarise(Account("r", "t", progress(best=program(7, evaluation())), None, sandboxes=levels))

    assert "sandbox" not in told(full=12).parts[0]
    assert told(full=12).data["sandbox"] == "full"
    mixed = told(full=12, reduced=3, none=1)
    assert "none for 1 program, reduced for 3 programs: a candidate may have cheated" in mixed.parts[0]
    assert (mixed.data["sandbox"], mixed.data["sandboxes"]) == ("none", {"full": 12, "reduced": 3, "none": 1})
    assert told(full=2, reduced=1).data["sandbox"] == "reduced"


def test_a_value_is_compared_with_the_seed_and_the_best_published():
    best = program(7, evaluation(2.5, timed=False))
    account = Account("r", "t", progress(best=best), program(1, evaluation(1.5, timed=False)), "", 2.635, "a paper")
    assert "2.5; seed 1.5; best published 2.635\n              a paper" in summarise(account).parts[0]


def test_a_failed_confirmation_is_no_pass():
    failed = evaluation(None, status=Status.WRONG_VALUES, stage=Stage.CONFIRMATION, timed=False)
    assert held_out(program(7, evaluation(), failed)) == "confirmation failed: wrong_values"
    assert held_out(program(7, evaluation())) == "not confirmed yet"


def test_a_table_has_a_row_per_workload_and_a_column_per_baseline():
    table = workload_table((workload(), workload("h", "heldout", max_ulp=None)))
    assert table.columns[4:] == ("time", "vs plain", "vs vectorised", "of the floor")
    assert table.rows[0] == (
        "m1", "search", "0.4 / 1.6", "0.2 / 1", "2 ms", "2x [1.9, 2.1]", "0.83x [0.82, 0.84] *", "75 %",
    )  # fmt: skip
    assert table.rows[1][2] == "NaN or Inf"


def test_a_failure_is_told_in_the_compilers_words():
    failed = evaluation(
        None,
        status=Status.BUILD_ERROR,
        stage=Stage.BUILD,
        timed=False,
        message="does not compile",
        detail="a.cpp:1: no\n",
    )
    text = describe(failed)[0]
    assert "build_error at build: does not compile" in text
    assert "a.cpp:1: no" in text
    assert "not timed" not in text


def test_progress_shows_counts_best_rate_and_what_is_left():
    text = progress_text(progress(best=program(7, evaluation(1.42))), "q4", ["judge: started anew"])
    assert "5 passed, 3 (build_error 2, wrong_values 1) failed" in text
    assert "program 7, 1.42x of the strongest baseline" in text
    assert "0.25 candidates a second" in text
    assert "20 s, 88 candidates" in text
    assert "1 being judged" in text
    assert "judge: started anew" in text
    assert "no cap" in progress_text(progress(caps=Caps()), "q4", [])


def test_plain_progress_is_a_line_now_and_then(capsys):
    now = [0.0]
    observer = PlainProgress(PlainOutput(), clock=lambda: now[0])
    for now[0] in range(25):
        observer.on_progress(progress())
    observer.on_best(program(7, evaluation(1.42)))
    observer.on_note("judge", "started anew")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("12 tried")
    assert lines[2].startswith("new best: program 7")


def test_rich_output_shows_the_same_without_reading_markup():
    console = Console(record=True, width=200, file=io.StringIO())
    output = RichOutput(console)
    output.show(Report({}, ["score [bold]5[/]", Table(("a", "b"), (("[red]x", "\x1b[2J"),), right=frozenset({"b"}))]))
    with live_progress(output, "q4") as observer:
        assert isinstance(observer, RichProgress)
        observer.on_progress(progress())
    text = console.export_text()
    assert "score [bold]5[/]" in text
    assert "[red]x" in text
    assert "\x1b" not in text


def test_what_a_candidate_wrote_cannot_move_the_cursor():
    assert printable("a\x1b[2J\r\x07b\tc\nd\u202e") == "a\ufffd[2J\ufffd\ufffdb\tc\nd\ufffd"


def test_one_switch_decides(capsys):
    report = Report({"a": 1}, ["text"])
    for mode, as_json in (("plain", True), ("plain", False), ("none", False), ("auto", False)):
        open_output(mode, as_json).show(report)
        open_output(mode, as_json).say("on the way")
    assert capsys.readouterr().out == '{\n  "a": 1\n}\ntext\non the way\ntext\non the way\n'
    with live_progress(JsonOutput(), "q4") as observer:
        assert type(observer) is Silent


def test_plain_tables_align():
    table = Table(("name", "n"), (("a", "1"), ("long", "100")), right=frozenset({"n"}), title="T")
    assert plain_table(table) == "T\nname    n\na       1\nlong  100"


def test_facts_align_and_leave_out_what_is_empty():
    assert facts([("a", "1\n2"), ("bcd", ""), ("ef", "3")]) == "a   1\n    2\nef  3"


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (65, "1:05"), (3600, "1 h 00 min"), (7380, "2 h 03 min"), (59.7, "60 s")]
)
def test_durations(seconds, text):
    assert wording.duration(seconds) == text


@pytest.mark.parametrize(("us", "text"), [(812.3, "812.3 µs"), (2130, "2.13 ms"), (3.5e6, "3.5 s")])
def test_times(us, text):
    assert wording.microseconds(us) == text
