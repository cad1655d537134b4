from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from evaluators.errors import TaskError
from evaluators.task_loading import find_task, load_task, shipped_folder


def mistake(folder: Path) -> str:
    with pytest.raises(TaskError) as caught:
        load_task(folder)
    text = str(caught.value)
    assert "\n" not in text
    assert str(folder / "task.toml") in text
    return text


def test_a_workload_without_name_is_named_after_its_axes(folder):
    assert [w.name for w in load_task(folder.path).workloads] == ["m40_k64", "m3_k1"]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('entry = "rows"', 'entri = "rows"', ["unknown key 'entri'", "did you mean 'entry'"]),
        ('role = "out"', 'rule = "out"', ["unknown key 'args[2].rule'", "did you mean 'role'"]),
        (
            "{ axes = { M = 40, K = 64 } }",
            "{ axes = { M = 40, K = 64 }, wieght = 2 }",
            ["workloads[0].wieght", "'weight'"],
        ),
        ('name = "rows"', 'name = "rows"\nhash = "abc"', ["unknown key 'hash'", "remove it"]),
        ('entry = "rows"\n', "", ["'entry' is missing"]),
        (
            'dtype = "fp32", shape = ["M"]',
            'dtype = "fp31", shape = ["M"]',
            ["args[2].dtype = 'fp31'", "did you mean 'fp32'"],
        ),
        ("M = 40", "M = -40", ["workloads[0].axes.M = -40", "greater than 0"]),
        ("M = 40", "M = inf", ["workloads[0].axes.M = inf"]),
        ("{ axes = { M = 40, K = 64 } }", "{ axes = { M = 40, K = 64 }, weight = inf }", ["weights", "finite"]),
        ("{ axes = { M = 40, K = 64 } }", "{ axes = { M = 40, K = 64 }, weight = 0 }", ["weights", "not all 0"]),
        ("{ axes = { M = 40, K = 64 } }", "{ axes = { M = 40, K = 64 }, weight = -1 }", ["workloads[0].weight = -1"]),
        ("K = 64", "K = 64, B = 2", ["'m40_k64_b2'", "axis 'B'", "no argument's shape"]),
        ("M = 40, K = 64", "M = 40", ["'m40'", "axis 'K' is not given"]),
        ('shape = ["M", "K"]', 'shape = ["M", "K ** 2"]', ["arg 'w'", "K ** 2", "only integers, axes"]),
        ('shape = ["M", "K"]', 'shape = ["M", "K // (K - 64)"]', ["arg 'w'", "division by zero"]),
        ('shape = ["M", "K"]', 'shape = ["M", "K - 65"]', ["arg 'w'", "cannot be negative"]),
        ("M = 3, K = 1", "M = 40, K = 64", ["workloads", "'m40_k64' is used more than once"]),
        ('name = "x"', 'name = "w"', ["args", "'w' is used more than once"]),
        ('name = "x"', 'name = "M"', ["args", "'M' is used more than once"]),
        (
            "{ axes = { M = 40, K = 64 } }",
            '{ axes = { M = 40, K = 64 }, split = "heldout" }',
            ["none has split 'search'"],
        ),
        ('role = "out"', 'role = "in"', ["none has role 'out'"]),
        ('languages = ["python"]', "languages = []", ["languages is empty"]),
        ('languages = ["python"]', 'languages = ["cpp"]', ["'seed.py'", "cpp"]),
        ('"seed.py"', '"../seed.py"', ["seed_program", "outside the task's folder"]),
        ('"seed.py"', '"sead.py"', ["seed_program", "no such file"]),
        ('name = "rows"', 'name = "rows"\nevaluator = "kernal"', ["evaluator = 'kernal'", "'kernel'"]),
        (
            'name = "rows"',
            'name = "rows"\nevaluator = "mine.py:evaluate"\nmetric = "value"',
            ["evaluator", "mine.py", "no such file"],
        ),
        ('name = "rows"', 'name = "rows"\nevaluator = "seed.py:rows"', ["metric = 'time'", "write metric = 'value'"]),
        (
            '[{ name = "plain", file = "seed.py", language = "python" }]',
            "[]",
            ["baselines is empty", 'baselines = [{ name = "plain", file = "seed.py", language = "python" }]'],
        ),
        (
            '[{ name = "plain", file = "seed.py", language = "python" }]',
            '["seed.py"]',
            ["baselines[0] = 'seed.py': must be a table with name, file, language"],
        ),
        (
            '[{ name = "plain", file = "seed.py", language = "python" }]',
            '"seed.py"',
            ["baselines = 'seed.py': must be an array"],
        ),
        ("{ axes = { M = 40, K = 64 } }", '{ name = "a", axes = 40 }', ["workloads[0].axes = 40: must be a table"]),
        ('name = "rows"', 'name = "rows"\nmetric = "value"', ["metric = 'value'", "evaluator of your own"]),
        ('name = "rows"', 'name = "rows"\nbest_known = 2.0', ["best_known", "metric = 'value'"]),
        ('name = "rows"', 'name = "rows', ["not valid TOML"]),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_key(folder, old, new, parts):
    text = mistake(folder.edit("task.toml", (old, new)))
    for part in parts:
        assert part in text


def test_a_kernel_task_needs_its_reference(folder):
    (folder.path / "reference.py").unlink()
    assert "reference.py" in mistake(folder.path)


def test_a_seed_that_is_a_link_out_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere.py").write_text("")
    (folder.path / "seed.py").unlink()
    (folder.path / "seed.py").symlink_to(tmp_path / "elsewhere.py")
    assert "outside the task's folder" in mistake(folder.path)


@pytest.mark.parametrize("name", ["task.toml", "reference.py", "seed.py", "tolerance.lock", "helper.py", "data/x.bin"])
def test_the_hash_covers_every_file_that_decides_a_verdict(folder, name):
    before = load_task(folder.path)
    path = folder.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "# changed\n")
    after = load_task(folder.path)
    assert after.hash != before.hash
    assert (after.inputs_hash != before.inputs_hash) == (name in ("reference.py", "data/x.bin"))


def test_the_hash_of_inputs_covers_workloads_and_arguments_but_not_the_rest(folder):
    before = load_task(folder.path)
    described = load_task(folder.edit("task.toml", ('name = "rows"', 'name = "rows"\ndescription = "sums"')))
    assert described.hash != before.hash
    assert described.inputs_hash == before.inputs_hash
    assert load_task(folder.edit("task.toml", ("M = 40", "M = 41"))).inputs_hash != before.inputs_hash


@pytest.mark.parametrize("name", ["README.md", ".swp", "__pycache__/seed.cpython-311.pyc", "seed.py~"])
def test_the_hash_leaves_out_documentation_and_litter(folder, name):
    before = load_task(folder.path).hash
    (folder.path / name).parent.mkdir(exist_ok=True)
    (folder.path / name).write_text("anything")
    assert load_task(folder.path).hash == before


def test_the_hash_does_not_depend_on_where_the_folder_lies(folder, tmp_path):
    before = load_task(folder.path).hash
    os.rename(folder.path, tmp_path / "moved")
    assert load_task(tmp_path / "moved").hash == before


def test_moving_text_between_two_files_changes_the_hash(folder):
    (folder.path / "a.txt").write_text("xy")
    (folder.path / "b.txt").write_text("")
    before = load_task(folder.path).hash
    (folder.path / "a.txt").write_text("x")
    (folder.path / "b.txt").write_text("y")
    assert load_task(folder.path).hash != before


def test_a_task_is_found_by_name_by_path_and_by_file(folder):
    assert find_task("circle_packing") == shipped_folder("tasks") / "circle_packing"
    assert find_task(str(folder.path)) == folder.path
    assert find_task(str(folder.path / "task.toml")) == folder.path


def test_an_unknown_task_names_the_nearest(tmp_path):
    with pytest.raises(TaskError, match="unknown task 'circle_paking'; did you mean 'circle_packing'"):
        find_task("circle_paking")
    with pytest.raises(TaskError, match=r"no task\.toml in this folder"):
        find_task(str(tmp_path))


@pytest.mark.parametrize("target", ["their_tasks.rows", "their_tasks.places:ROWS"])
def test_another_package_offers_a_task_by_entry_point(folder, tmp_path, monkeypatch, target):
    site = tmp_path / "site"
    package = site / "their_tasks"
    (package / "rows").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "places.py").write_text("from pathlib import Path\nROWS = Path(__file__).parent / 'rows'\n")
    (package / "rows" / "__init__.py").write_text("")
    for name in ("task.toml", "reference.py", "seed.py"):
        (package / "rows" / name).write_text((folder.path / name).read_text())
    info = site / "their_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-tasks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[evolve.tasks]\ntheir_rows = {target}\n")
    monkeypatch.syspath_prepend(str(site))
    try:
        assert load_task(find_task("their_rows")).name == "rows"
        with pytest.raises(TaskError, match="did you mean 'their_rows'"):
            find_task("their_row")
    finally:
        for name in [name for name in sys.modules if name.startswith("their_tasks")]:
            del sys.modules[name]
