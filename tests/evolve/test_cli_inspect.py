"""``evolve eval``, ``show``, ``best``, ``diff``, ``lineage``, ``check``, ``doctor`` and ``db upgrade``."""

import json
import re
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from evaluators.evaluation import Environment, Status
from evolve.testing import ENVIRONMENT, FakeJudge, fake_source


@pytest.fixture
def run(evolve, toy):
    """A finished run in ``runs/r`` of the current folder."""
    assert evolve("run", toy, "--dir", "runs/r", "--set", "caps.candidates=10").exit_code == 0
    return "runs/r"


def data(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_eval_prints_a_verdict_and_its_exit_code_says_it_too(evolve, toy, tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(fake_source(1.25))
    bad.write_text(fake_source(1.25, status=Status.WRONG_VALUES))
    result = evolve("eval", toy, good)
    assert result.exit_code == 0, result.output
    assert "passed, confirmed in a process of its own" in result.output
    assert "1.25" in result.output
    result = evolve("eval", toy, bad)
    assert result.exit_code == 3
    assert "wrong_values at confirmation: the source says wrong_values" in result.output
    assert data(evolve("eval", toy, good, "--json"))["status"] == "passed"
    assert evolve.judge.closed


def test_eval_of_a_timed_task_says_where_it_stands(evolve, toy, tmp_path):
    evolve.judge = FakeJudge(timed=True)
    file = tmp_path / "slow.py"
    file.write_text(fake_source(0.83))
    assert "0.83x of the strongest baseline, [0.822, 0.838], 99 % interval: slower" in evolve("eval", toy, file).output


@pytest.mark.parametrize(("name", "content", "said"), [("a.txt", b"", "--language"), ("a.py", b"\xff", "not UTF-8")])
def test_eval_refuses_what_it_cannot_read(evolve, toy, tmp_path, name, content, said):
    file = tmp_path / name
    file.write_bytes(content)
    result = evolve("eval", toy, file)
    assert result.exit_code == 2
    assert said in result.stderr
    assert evolve.started == []


def test_eval_takes_the_language_from_the_command_line(evolve, toy, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text(fake_source(1.0))
    assert evolve("eval", toy, file, "--language", "python").exit_code == 0


def test_show_tells_a_runs_story(evolve, run):
    result = evolve("show", run)
    assert result.exit_code == 0, result.output
    assert "10 tried" in result.output
    assert "how the best came about" in result.output
    assert "seed/seed" in result.output
    assert data(evolve("show", "r", "--json"))["tried"] == 10


def test_show_tells_a_programs_story(evolve, run):
    result = evolve("show", run, 2, "--source")
    assert result.exit_code == 0, result.output
    for text in ("made by", "tuner", " -> ", "verdict", "passed", "# tune: 1, 2, 3, 4"):
        assert text in result.output
    shown = data(evolve("show", run, 2, "--json"))
    assert shown["number"] == 2
    assert shown["evaluation"]["status"] == "passed"


def test_show_works_without_the_task(evolve, run, toy):
    (toy / "task.toml").unlink()
    assert evolve("show", run).exit_code == 0


def test_a_program_that_is_not_there_is_one_line(evolve, run):
    for command in (["show", run, 99], ["lineage", run, 99], ["diff", run, 1, 99]):
        result = evolve(*command)
        assert result.exit_code == 2
        assert result.stderr.endswith("has no program 99\n")


def test_best_writes_the_file_whole_or_not_at_all(evolve, run, tmp_path):
    file = tmp_path / "best.py"
    file.write_text("old")
    result = evolve("best", run, "-o", file)
    assert result.exit_code == 0, result.output
    best = data(evolve("best", run, "--json"))
    assert file.read_text() == best["source"]
    assert stat.S_IMODE(file.stat().st_mode) & 0o444 == 0o444
    assert sorted(p.name for p in tmp_path.glob("*best.py*")) == ["best.py"]
    assert evolve("best", run).stdout == best["source"]
    for target in (tmp_path, tmp_path / "none" / "best.py"):
        refused = evolve("best", run, "-o", target)
        assert refused.exit_code == 2
        assert len(refused.stderr.splitlines()) == 1


def test_best_of_nothing_is_exit_code_3(evolve, toy):
    evolve.judge.confirm_status = lambda source: Status.TIMEOUT
    evolve("run", toy, "--dir", "r", "--set", "caps.candidates=2")
    result = evolve("best", "r")
    assert result.exit_code == 3
    assert "no confirmed program" in result.stderr


def test_diff_shows_what_changed(evolve, run):
    lines = data(evolve("diff", run, 1, 2, "--json"))["diff"]
    assert any(line.startswith("-A = 1") or line.startswith("-B = 1") for line in lines)
    assert "same source" in evolve("diff", run, 1, 1).output


def test_lineage_ends_at_the_seed(evolve, run):
    best = data(evolve("best", run, "--json"))["number"]
    line = data(evolve("lineage", run, best, "--json"))["lineage"]
    assert [line[0]["number"], line[-1]["number"]] == [best, 1]
    assert evolve("lineage", run, best).output.splitlines()[-1].split()[0] == "1"


def test_an_older_database_is_upgraded_and_a_newer_one_is_refused(evolve, run):
    assert "up to date" in evolve("db", "upgrade", run).output
    with sqlite3.connect(evolve.folder / run / "run.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    for command in (["db", "upgrade", run], ["show", run], ["resume", run]):
        result = evolve(*command)
        assert result.exit_code == 2
        assert "newer than this program" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_plain_output_is_plain(evolve, run):
    for command in (["show", run], ["show", run, 2], ["lineage", run, 2]):
        assert "\x1b" not in evolve(*command).output
    assert evolve("show", run, "--display", "none").output == ""


def test_a_rich_display_shows_the_same(evolve, run):
    assert "10 tried" in evolve("show", run, "--display", "rich").output


WARNING = "a candidate may have cheated; do not publish these numbers"
UNBOXED = Environment(device_class="fake:1", sandbox="none")


def test_one_session_without_a_sandbox_shows_in_every_summary_of_a_run(evolve, toy):
    """Also where seed and best were judged in the full one."""
    evolve("run", toy, "--dir", "r", "--set", "caps.candidates=6")
    evolve.judge.environment = UNBOXED
    resumed = evolve("resume", "r", "--set", "caps.candidates=9")
    stored = data(evolve("show", "r", "--json"))
    assert data(evolve("best", "r", "--json"))["confirmation"]["environment"]["sandbox"] == "full"
    assert "sandbox" not in evolve("show", "r", 1).output
    assert stored["sandbox"] == "none"
    assert 1 <= stored["sandboxes"]["none"] < stored["sandboxes"]["full"]
    for said in (resumed, evolve("show", "r")):
        assert f"none for {stored['sandboxes']['none']} programs: {WARNING}" in " ".join(said.output.split())
    weak = stored["tried"]
    for command in (["show", "r", weak], ["lineage", "r", weak]):
        assert "sandbox none" in evolve(*command).output
    evolve.judge.environment = ENVIRONMENT
    later = evolve("resume", "r", "--set", "caps.candidates=12")
    assert f"none for {stored['sandboxes']['none']} programs: {WARNING}" in " ".join(later.output.split())


def test_checks_and_profiles_say_in_which_sandbox_they_ran(evolve, toy):
    evolve.judge.profiles = True
    commands = ["check", toy], ["profile", toy, toy / "seed.py"]
    assert [WARNING in evolve(*command).output for command in commands] == [False, False]
    evolve.judge.environment = UNBOXED
    assert [f"none: {WARNING}" in evolve(*command).output for command in commands] == [True, True]
    assert [data(evolve(*command, "--json"))["sandbox"] for command in commands] == ["none", "none"]


def test_check_says_that_a_task_is_fit(evolve, toy):
    result = evolve("check", toy)
    assert result.exit_code == 0, result.output
    assert "seed program" in result.output
    assert "fit to search on" in result.output
    assert data(evolve("check", toy, "--json"))["rows"][0]["subject"] == "seed program"


def test_check_warns_of_a_sorting_task_whose_content_only_moves(evolve, tmp_path):
    folder = tmp_path / "sort_rows"
    shutil.copytree(Path(__file__).parents[1] / "data" / "sort_rows", folder)
    assert "warning" not in evolve("check", folder).output
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace(', transform = "fresh"', ""))
    assert "arg 'keys': rows of it only move" in evolve("check", folder, "--freeze").output
    (warning,) = data(evolve("check", folder, "--json"))["warnings"]
    assert 'set transform = "fresh"' in warning


def test_check_refuses_a_task_whose_seed_fails(evolve, toy):
    evolve.judge.confirm_status = lambda source: Status.WRONG_VALUES
    result = evolve("check", toy)
    assert result.exit_code == 2
    assert "seed program seed.py: wrong_values" in result.stderr


def test_doctor_lists_what_every_known_provider_reads(evolve, monkeypatch):
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-v1-0123456789abcdef")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    done = evolve("doctor", "--quick")
    assert re.search(r"key +OPENROUTER_API_KEY +set\n", done.output)
    assert re.search(r"key +ANTHROPIC_API_KEY +not set\n", done.output)
    assert re.search(r"address +OPENAI_BASE_URL ", done.output)
    assert "0123456789abcdef" not in done.output


def test_a_file_of_no_language_of_the_task_is_told_the_suffix(evolve):
    (evolve.folder / "notes.md").write_text("x")
    done = evolve("eval", "q4_matvec_cpu", "notes.md")
    assert done.exit_code == 2
    assert "notes.md: task q4_matvec_cpu wants a .cpp file" in done.output


def test_the_prompt_of_a_run_that_met_its_cap_and_has_no_models(evolve, run):
    model = re.search(r"add one with --set '(.*)'\n$", evolve("prompt", run).stderr)[1]
    asking = ("prompt", run, "--set", model.replace("provider/model", "ollama/x"))
    refused = evolve(*asking, "--set", "caps.seconds=0")
    assert refused.exit_code == 2
    lifted = re.search(r"--set (caps\.seconds=none) shows", refused.stderr)[1]
    shown = evolve(*asking, "--set", "caps.seconds=0", "--set", lifted)
    assert shown.exit_code == 0, shown.output
    assert "ollama/x" in shown.output


def test_what_became_of_a_program_is_said_in_words(evolve, run):
    said = {evolve("show", run, number).output.split("state", 1)[1].splitlines()[0].strip() for number in range(1, 11)}
    assert "finished, took an empty cell of the archive" in said
    assert not any("_" in line for line in said), said


def test_the_log_says_no_line_half(evolve, run):
    with open(f"{run}/run.log") as file:
        lines = file.read().splitlines()
    assert any(line.endswith(" running") for line in lines)
    assert not [line for line in lines if line.endswith((":", ": "))]
