"""Records a small run whose every answer is read in another way: ``python -m tests.evolve.models.record_dialogues``.

No language model answered: the answers below are scripted, one after another, and come from the tests' own server; the
verdicts are those of the tests' fake judge. The run is kept as ``tests/data/dialogues/scripted.jsonl.gz`` and replayed
by ``test_recorded_dialogues.py``: its lineage says how this version of the edit reader read each answer.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evolve.testing_llm.model_server import ModelServer
from evolve.testing_llm.replies import Asked, Fault, Reply
from tests.evolve.models.world import configured, evolve, serving

FILE = Path(__file__).parents[2] / "data" / "dialogues" / "scripted.jsonl.gz"
MODEL = "local/scripted"

TASK = """
name = "steps"
metric = "value"
evaluator = "evaluator.py:evaluate"
languages = ["python"]
entry = "f"
args = [{ name = "out", role = "out", dtype = "fp32", shape = ["N"] }]
workloads = [{ axes = { N = 4 } }]
seed_program = "seed.py"
"""
HEAD, TAIL = '"""Where the steps begin."""\nimport math\n# EVOLVE-BLOCK-START\n', "# EVOLVE-BLOCK-END\n"
FIRST = "    # the first half\n"
SECOND = "    # the second half\n    for i in range(2, 4):\n        out[i] = STEP\n"


def region(step: float, spare: str = "") -> str:
    """What may change; every program has the lines that later answers look for."""
    loop = "    for i in range(0, 2):\n        out[i] = STEP\n"
    return f"STEP = {step}\n{spare}\n\ndef f(out):\n{FIRST}{loop}{SECOND}"


SEED = HEAD + region(1.0, "SPARE = 0\n") + TAIL


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def inserted(number: int) -> str:
    """A change that fits every program, and is another for each number."""
    return block(FIRST, f"{FIRST}    out[0] += {number}\n")


def whole(step: float) -> str:
    return f"{HEAD}{region(step)}{TAIL}"


def fenced(code: str) -> str:
    return f"```python\n{code}```\n"


def shifted(text: str, old: str, new: str) -> str:
    return re.sub("^" + old, new, text, flags=re.MULTILINE)


def second(number: int) -> str:
    """The second half, with one line more."""
    return f"{SECOND}        out[i] -= {number}\n"


NUMBERED = "".join(f"{n:3}: {line}\n" for n, line in enumerate(SECOND.splitlines(), 30))
TABBED = SECOND.replace("    ", "\t")
HUNK = f"--- a/f.py\n+++ b/f.py\n@@ -5,1 +5,2 @@\n {FIRST}+    out[1] += 8\n"
CUT = fenced(whole(31.0))

ANSWERS = (
    Reply("Adds one.\n\n" + inserted(1)),
    Reply("Adds two.\n\n" + inserted(2).replace("\n", "\r\n")),
    Reply(block(shifted(SECOND, "    ", ""), shifted(second(3), "    ", ""))),
    Reply(block(TABBED, second(4).replace("    ", "\t"))),
    Reply(block("\n" + SECOND + "\n", "\n" + second(5) + "\n")),
    Reply(block(fenced(SECOND), fenced(second(6)))),
    Reply(block(NUMBERED, second(7))),
    Reply(f"As a diff.\n\n```diff\n{HUNK}```\n"),
    Reply(inserted(9) + "\nand\n\n" + block("STEP =\n", "STEP = 2 *\n")),  # half a line: not_found, then mended
    Reply(inserted(10)),
    Reply(block("SPARE = 0\n", "")),
    Reply("A whole program.\n\n" + fenced(whole(12.0))),
    Reply(whole(13.0)),
    Reply("It is not closed.\n\n```python\n" + whole(14.0)),
    Reply("First an example.\n\n" + fenced("print(f)\n") + "\nThen all of it.\n\n" + fenced(whole(15.0))),
    Reply(fenced(region(16.0))),
    Reply(fenced(whole(17.0).replace("# EVOLVE-BLOCK-START\n", "").replace(TAIL, ""))),
    Reply(fenced("".join(f"{n:3} | {line}\n" for n, line in enumerate(whole(18.0).splitlines(), 1)))),
    Reply("I am sorry, I cannot help with that.", finish="refusal"),
    Reply(block("        out[i] = STEP\n", "        out[i] = STEP + 1\n")),  # twice there: ambiguous, then mended
    Reply(inserted(20)),
    Reply(block(FIRST, FIRST)),  # no_op, and again
    Reply(block(FIRST, FIRST)),
    Reply("Faster memory would help."),  # no_code, then mended
    Reply(fenced(whole(23.0))),
    Reply(fenced(whole(24.0).replace("        out[i] = STEP\n", "        # ... the rest is unchanged ...\n"))),
    Reply(fenced(whole(24.0))),
    Reply(f"<<<<<<< SEARCH\n{FIRST}=======\n=======\n>>>>>>> REPLACE\n"),  # malformed_diff, then mended
    Reply(inserted(25)),
    Reply(block("", "import os\n")),  # empty_search, then mended
    Reply(inserted(26)),
    Reply(block("import math\n", "import math, os\n")),  # outside_block, then mended
    Reply(inserted(27)),
    Reply(fenced(whole(28.0)) + "\nor\n\n" + fenced(whole(28.5))),  # several_programs, then mended
    Reply(fenced(whole(28.0))),
    Reply(""),
    Reply("", reasoning="Let me think about it for a while."),
    Reply(CUT[:150], finish="length"),  # truncated, and continued with a little of it said again
    Reply("```python\n" + CUT[110:]),
    Reply(fenced(whole(32.0))[:90], finish="length"),  # truncated for good
    Reply("    for", finish="length"),
    Reply(fenced(whole(12.0).replace("for i", "for j").replace("[i]", "[j]"))),  # known but for a name
    Reply(fenced(whole(33.0).replace(FIRST, f"{FIRST}    # fake: status=build_error\n"))),
    Reply(fault=Fault.SERVER_ERROR),
    Reply(inserted(34)),
    Reply(fault=Fault.NO_SUCH_MODEL),
)


def script(asked: Asked) -> Reply:
    """One answer after another."""
    return ANSWERS[min(asked.number, len(ANSWERS)) - 1]


def record(file: Path) -> None:
    """Run, and keep what was recorded without the places where it was."""
    with TemporaryDirectory() as folder, serving(script) as server:
        here = Path(folder)
        _write_task(here / "steps")
        done = evolve(here, "run", "steps", "--config", _configuration(here, server), "--dir", "scripted-answers")
        assert "no model can be asked" in done.stdout, done.stdout + done.stderr
        assert len(server.asked) == len(ANSWERS), "every answer was asked for"
        assert evolve(here, "db", "dump", "scripted-answers", "dump.jsonl").returncode == 0
        lines = (here / "dump.jsonl").read_text()
        for place, name in ((f"{here}/", ""), (server.url, "http://127.0.0.1:8000")):
            lines = lines.replace(place, name)
    file.write_bytes(gzip.compress(lines.encode(), mtime=0))


def _write_task(folder: Path) -> None:
    folder.mkdir()
    (folder / "task.toml").write_text(TASK)
    (folder / "seed.py").write_text(SEED)
    (folder / "evaluator.py").write_text("def evaluate(context):\n    return {'score': 1.0}\n")


def _configuration(here: Path, server: ModelServer) -> Path:
    tables: dict[str, dict[str, Any]] = {
        f'llm__prices."{MODEL}"': {"input": 2.0, "output": 10.0},
        "search": {"seed": 5, "proposals": 1, "queue": 0, "islands": 1, "tune_inside": 0},
    }
    models = f'[[llm.models]]\nname = "{MODEL}"\nmax_output_tokens = 600'
    return configured(here / "c.toml", server, models=models, **tables)


if __name__ == "__main__":
    record(FILE)
