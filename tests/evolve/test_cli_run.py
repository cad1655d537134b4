"""``evolve run`` and ``evolve resume`` as a person types them, against a fake judge."""

import json
import os

import pytest

from evaluators.errors import SandboxError
from evaluators.evaluation import Status
from evolve.run_directory import RunDirectory
from evolve.testing import FakeJudge


def test_a_run_ends_with_a_summary(evolve, toy):
    result = evolve("run", toy, "--dir", "r", "--set", "caps.candidates=8")
    assert result.exit_code == 0, result.output
    assert "ended         the cap on candidates was met" in result.output
    assert "best program  " in result.output
    assert "8 tried: 8 passed, 0 failed" in result.output
    assert "seed 0." in result.output
    assert "best published 2\n              a paper" in result.output
    assert "stored in     r" in result.output
    assert f"evolve eval {toy} best.py" in result.output
    assert (evolve.folder / "r" / "config.toml").read_text().startswith(f'task = "{toy}"')


def test_the_search_finds_better_programs_than_the_seed(evolve, toy):
    data = json.loads(evolve("run", toy, "--dir", "r", "--set", "caps.candidates=16", "--json").stdout)
    assert data["score"] > data["seed_score"]
    assert data["tried"] == 16
    assert data["confirmed"] is True


def test_it_stops_by_itself_when_every_combination_is_known(evolve, toy):
    data = json.loads(evolve("run", toy, "--dir", "r", "--json").stdout)
    assert (data["tried"], data["duplicates"]) == (16, 0)
    assert data["reason"] == "exhausted"


def test_resume_goes_on_where_the_run_stopped(evolve, toy):
    assert evolve("run", toy, "--dir", "r", "--set", "caps.candidates=5").exit_code == 0
    judged = len(evolve.judge.evaluated)
    result = evolve("resume", "r", "--set", "caps.candidates=9", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tried"] == 9
    assert len(evolve.judge.evaluated) == judged + 4
    assert len(set(evolve.judge.evaluated)) == len(evolve.judge.evaluated)


def test_resume_at_a_met_cap_starts_no_judge_and_says_what_to_raise(evolve, toy):
    evolve("run", toy, "--dir", "r", "--set", "caps.candidates=5")
    started = len(evolve.started)
    result = evolve("resume", "r")
    assert result.exit_code == 0, result.output
    said = "the cap on candidates is met, nothing was started; raise it with --set caps.candidates=VALUE"
    assert said in result.output.splitlines()
    assert "5 tried: 5 passed" in result.output
    assert json.loads(evolve("resume", "r", "--json").stdout)["reason"] == "candidates"
    assert len(evolve.started) == started


def test_what_a_crash_left_is_judged_although_the_cap_is_met(evolve, toy):
    async def crash(method, source):
        if method == "evaluate" and len(evolve.judge.evaluated) == 4:
            raise RuntimeError

    evolve.judge.before = crash
    assert evolve("run", toy, "--dir", "r", "--set", "caps.candidates=5").exit_code == 1
    evolve.judge.before = None
    assert evolve("resume", "r").exit_code == 0
    assert len(evolve.judge.evaluated) == 5


def test_resume_lifts_a_cap(evolve, toy):
    assert evolve("run", toy, "--dir", "r", "--set", "caps.candidates=5").exit_code == 0
    data = json.loads(evolve("resume", "r", "--set", "caps.candidates=none", "--json").stdout)
    assert (data["tried"], data["reason"]) == (16, "exhausted"), "all that the seed's constants allow"
    assert "candidates" not in (evolve.folder / "r" / "config.toml").read_text()


def test_what_to_type_next_is_what_goes_on(evolve, toy):
    told = evolve("run", toy, "--dir", "r", "--set", "caps.candidates=5").output
    command = next(line.strip() for line in told.splitlines() if "evolve resume" in line)
    assert command == "evolve resume r --set caps.candidates=10"
    assert json.loads(evolve(*command.split()[1:], "--json").stdout)["tried"] == 10


def test_an_interrupted_and_resumed_run_proposes_what_a_whole_one_does(evolve, toy):
    one_worker = ["--set", "search.queue=0", "--set", "search.seed=5"]
    evolve("run", toy, "--dir", "whole", "--set", "caps.candidates=12", *one_worker)
    whole = list(evolve.judge.evaluated)
    evolve.judge = FakeJudge()
    evolve("run", toy, "--dir", "parts", "--set", "caps.candidates=6", *one_worker)
    evolve("resume", "parts", "--set", "caps.candidates=12")
    assert evolve.judge.evaluated == whole


def test_no_program_at_all_is_exit_code_3(evolve, toy):
    result = evolve("run", toy, "--dir", "r", "--set", "caps.candidates=0")
    assert result.exit_code == 3, result.output
    assert "none confirmed" in result.output


def test_a_seed_that_fails_is_the_tasks_mistake(evolve, toy):
    evolve.judge.confirm_status = lambda source: Status.WRONG_VALUES
    result = evolve("run", toy, "--dir", "r")
    assert result.exit_code == 2
    assert "the seed program seed.py does not pass: wrong_values" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "q4_matvec_cpuu"], "unknown task 'q4_matvec_cpuu'"),
        (["run", "TOY", "--set", "caps.secnds=5"], "unknown key 'caps.secnds': did you mean 'caps.seconds'?"),
        (["run", "TOY", "--set", "caps.seconds=-5"], "caps.seconds = -5"),
        (["run", "TOY", "--set", "caps.seconds=inf"], "caps.seconds = Infinity"),
        (["run", "TOY", "--config", "none.toml"], "none.toml: no such configuration file"),
        (["run", "TOY", "--dir", "/proc/nowhere/run"], "/proc/nowhere/run: "),
        (["run", "TOY", "--dir", "FULL"], "is there already"),
        (["run", "TOY", "--set", "store.database=nonsense"], "not a database URL"),
        (["run", "TOY", "--set", "store.database=postgresql://u@127.0.0.1:1/x"], "127.0.0.1:1/x: "),
        (["run"], "Missing argument 'TASK'"),
        (["run", "TOY", "--display", "loud"], "'loud' is not one of"),
        (["runn", "TOY"], "No such command 'runn'"),
        (["resume", "nowhere"], "nowhere: no such run"),
        (["resume", "FULL"], "holds no run"),
        (["show", "nowhere"], "nowhere: no such run"),
        (["best", "nowhere"], "nowhere: no such run"),
        (["eval", "TOY", "none.py"], "none.py: cannot be read"),
        (["eval", "TOY", "HUGE"], "huge.py: is larger than a program may be, which is 1048576 bytes"),
        (["check", "nowhere"], "unknown task 'nowhere'"),
        (["db", "upgrade", "nowhere"], "nowhere: no such run"),
        (["db", "upgrade", "sqlite:///none.db"], "no such file"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_nothing_is_written(evolve, toy, tmp_path, arguments, said):
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    with (full / "huge.py").open("wb") as huge:
        huge.truncate(65 << 20)
    before = sorted(tmp_path.rglob("*"))
    names = {"TOY": str(toy), "FULL": str(full), "HUGE": str(full / "huge.py")}
    result = evolve(*(names.get(argument, argument) for argument in arguments))
    assert result.exit_code == 2, result.output + repr(result.exception)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert evolve.started == [], "a judge measured for nothing"


def test_a_run_that_goes_on_elsewhere_is_refused_before_a_judge_measures_anything(evolve, toy):
    evolve("run", toy, "--dir", "r", "-s", "caps.candidates=2")
    evolve.started.clear()
    holder = RunDirectory(evolve.folder / "r")
    holder.acquire()
    try:
        result = evolve("resume", "r")
    finally:
        holder.release()
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "another process has it open" in result.stderr
    assert evolve.started == []


def test_a_judge_that_cannot_start_leaves_nothing_behind(evolve, toy):
    evolve.failure = SandboxError("the sandbox is only none here; set judge.sandbox")
    result = evolve("run", toy)
    assert result.exit_code == 2
    assert result.stderr == "evolve: the sandbox is only none here; set judge.sandbox\n"
    assert list(evolve.folder.iterdir()) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_one_may_not_write_to_is_refused(evolve, toy, tmp_path):
    tmp_path.chmod(0o500)
    assert evolve("run", toy, "--dir", tmp_path / "r").exit_code == 2
    tmp_path.chmod(0o700)


def test_the_judge_is_started_as_configured(evolve, toy):
    evolve("run", toy, "--dir", "r", "-s", "caps.candidates=2", "-s", "search.lanes=2", "-s", "judge.sandbox=none")
    assert [(s.task_folder, s.lanes, s.sandbox) for s in evolve.started] == [(toy, 2, "none")]


def test_a_judge_that_dies_is_replaced(evolve, toy):
    calls = []

    async def die_once(method, source):
        calls.append(method)
        if len(calls) == 3:
            evolve.judge.closed = True

    evolve.judge.before = die_once
    result = evolve("run", toy, "--dir", "r", "--set", "caps.candidates=6", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["verdicts"] == {"passed": 6}
