"""What models are asked to do in whole runs: in another language, and in a task's or run's own words."""

from __future__ import annotations

import json

from evolve.testing_llm.model_server import Manners
from evolve.testing_llm.replies import Reply
from tests.evolve.models.world import KEY, answer, configured, look, serving

CPP = """// # fake: score={score} status=passed
extern "C" void f(float* out, int64_t N) {{
    for (int64_t n = 0; n < N; n++) out[n] = {number};
}}
"""


def test_a_program_is_ported_to_the_tasks_other_language_and_back(evolve, toy, tmp_path):
    """Every proposal that may be is a port: each child is written in the language that its parent is not."""
    task = toy / "task.toml"
    task.write_text(task.read_text().replace('languages = ["python"]', 'languages = ["python", "cpp"]'))

    def script(asked):
        number, score = asked.number, 1.0 + asked.number / 100
        if "anew in\ncpp with the signature" in asked.prompt:
            return Reply(f"The loop stays.\n\n```cpp\n{CPP.format(score=score, number=number)}```\n")
        assert "anew in\npython with the signature" in asked.prompt
        return Reply(answer(number, score))

    with serving(script) as server:
        tables = {"caps": {"candidates": 7}, "search": {"proposals": 1}, "llm": {"port": 1.0, "repair": 0.0}}
        result = evolve(
            "run", toy, "--config", configured(tmp_path / "c.toml", server, **tables), "--dir", "r", "--json"
        )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tried"] == 7
    with look(evolve.folder) as view:
        programs = {p.number: p for p in view.storage.programs()}
    children = [p for p in programs.values() if p.proposer == "llm"]
    assert len(children) == 6
    assert {p.operator for p in children} == {"port"}
    assert {p.language for p in children} == {"cpp", "python"}
    assert all(p.language != programs[p.parents[0]].language for p in children)
    assert evolve("replay", "r").exit_code == 0


def test_of_several_in_flight_each_mends_another_program(evolve, toy, tmp_path):
    def script(asked):
        failing = "build_error" if asked.number <= 4 else "passed"
        return Reply(answer(asked.number, 1.0 + asked.number / 100, failing))

    with serving(script, Manners(key=KEY, piece_s=0.05)) as server:
        tables = {"caps": {"candidates": 9}, "search": {"proposals": 4, "islands": 1}, "llm": {"repair": 1.0}}
        result = evolve("run", toy, "--config", configured(tmp_path / "c.toml", server, **tables), "--dir", "r")
    assert result.exit_code == 0, result.output
    with look(evolve.folder) as view:
        mended = [p.parents[0] for p in view.storage.programs() if p.operator == "repair"]
    assert len(mended) == len(set(mended)) >= 3


def test_a_tasks_own_prompts_are_sent_and_a_runs_own_come_before_them(evolve, toy, tmp_path):
    own = tmp_path / "own" / "operators"
    for folder, words in ((toy / "prompts" / "operators", "as the task says"), (own, "as the run says")):
        folder.mkdir(parents=True)
        (folder / "rewrite.j2").write_text(f"Rewrite it {words}.\n")
    (toy / "prompts" / "answers").mkdir()
    (toy / "prompts" / "answers" / "whole.j2").write_text("One program, says the task.\n")
    models = '[[llm.models]]\nname = "local/m1"\nmax_output_tokens = 600\noperators = ["rewrite"]\n'

    for number, prompts in enumerate(({}, {"prompts": {"folder": str(tmp_path / "own")}})):
        with serving(lambda asked: Reply(answer(asked.number, 1.1))) as server:
            file = configured(tmp_path / "c.toml", server, models=models, caps={"candidates": 2}, **prompts)
            result = evolve("run", toy, "--config", file, "--dir", f"r{number}")
        assert result.exit_code == 0, result.output
        (asked,) = server.asked
        who = "the run" if prompts else "the task"
        assert f"Rewrite it as {who} says.\n\nOne program, says the task." in asked.prompt
