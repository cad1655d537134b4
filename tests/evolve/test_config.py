"""Configuration: defaults, file, assignments, and one line for every mistake."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.device import Cpu
from evaluators.errors import UsageError
from evaluators.gpu_judge import LEAST_CORES_APART, builds_at_once
from evaluators.task_loading import load_task
from evolve.config import Config, dump_config, load_config, parse_config

TASKS = Path(__file__).parents[2] / "tasks"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[caps]\nseconds = 60\ncandidates = 5\n[search]\nseed = 3\n[judge]\nsandbox = "reduced"\n')
    return path


def test_assignments_win_over_the_file_and_the_file_over_defaults(file):
    config = load_config(file, ["caps.seconds=90", "store.folder=else where"])
    assert (config.caps.seconds, config.caps.candidates, config.search.seed) == (90, 5, 3)
    assert config.store.folder == "else where"
    assert config.judge.sandbox == "reduced"
    assert config.search.islands == Config().search.islands


def test_what_is_stored_reads_back_and_can_be_raised(file):
    config = load_config(file, ['task="my \\"quoted\\" é task"', "proposers.tuner=0.5"])
    stored = parse_config(dump_config(config))
    assert stored == config
    assert load_config(assignments=["caps.seconds=120"], base=stored).caps.seconds == 120
    assert load_config(base=stored) == config


def test_none_unsets_a_key_that_may_be_unset_and_is_a_word_elsewhere(file):
    config = load_config(file, ["caps.seconds=none", "judge.sandbox=none", "store.folder=none", "proposers.llm=none"])
    assert (config.caps.seconds, config.caps.candidates) == (None, 5)
    assert (config.judge.sandbox, config.store.folder, config.proposers.llm) == ("none", "none", None)
    assert load_config(assignments=["store.database=none"]).store.database is None
    assert load_config(assignments=['task="none"']).task == "none"
    assert parse_config(dump_config(config)).caps.seconds is None


MODELS = """
[proposers]
tuner = 0.5

[llm]
choose = "weights"

[[llm.models]]
name = "anthropic/claude-sonnet-5"
effort = "medium"

[[llm.models]]
name = "mine/qwen3"
weight = 3
operators = ["diff", "repair"]

[llm.providers.mine]
base_url = "http://host:8000/v1"
concurrency = 64

[llm.prices."mine/qwen3"]
input = 0
output = 0.5

[llm.patience]
attempts = 2
"""


def test_models_are_configured_in_sections_and_read_back(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(MODELS)
    config = load_config(path)
    assert config.shares == {"tuner": 0.5, "llm": 1.0, "agent": 0.0}
    assert [(m.name, m.weight, m.operators) for m in config.llm.models] == [
        ("anthropic/claude-sonnet-5", 1.0, ()),
        ("mine/qwen3", 3.0, ("diff", "repair")),
    ]
    assert config.llm.providers["mine"].concurrency == 64
    assert config.llm.prices["mine/qwen3"].output == 0.5
    assert config.llm.patience.attempts == 2
    stored = parse_config(dump_config(config))
    assert stored == config
    raised = load_config(assignments=["llm.providers.mine.concurrency=3"], base=stored)
    assert raised.llm.providers["mine"].base_url == "http://host:8000/v1", "one key changes, the others stay"
    assert raised.llm.providers["mine"].concurrency == 3


def test_no_model_no_share():
    assert load_config().shares == {"tuner": 1.0, "llm": 0.0, "agent": 0.0}


def test_a_secret_in_an_address_is_refused_and_not_shown():
    with pytest.raises(UsageError) as caught:
        load_config(assignments=["llm.providers.mine.base_url='http://me:s3cret@h/v1'"])
    assert "s3cret" not in str(caught.value)


def test_a_password_is_not_stored():
    config = load_config(assignments=["store.database=postgresql+psycopg://me:s3cret@host/db"])
    assert "s3cret" not in dump_config(config)
    assert "postgresql+psycopg://me:***@host/db" in dump_config(config)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("caps.secnds=5", "--set: unknown key 'caps.secnds': did you mean 'caps.seconds'?"),
        ("seconds=5", "did you mean 'caps.seconds'?"),
        ("zzz=5", "known keys: task, search.seed"),
        ("caps=5", "'caps' is a section: set one of its keys"),
        ("caps.seconds.x=5", "--set: caps.seconds = "),
        ("caps.seconds=-1", "--set: caps.seconds = -1: must be greater than or equal to 0"),
        ("caps.seconds=inf", "--set: caps.seconds = Infinity: must be a finite number"),
        ("caps.dollars=nan", "--set: caps.dollars = NaN: must be a finite number"),
        ("caps.target=inf", "--set: caps.target"),
        ("caps.candidates=ten", '--set: caps.candidates = "ten": must be a valid integer'),
        ("caps.candidates=1.5", "--set: caps.candidates = 1.5"),
        ("caps.candidates=true", "--set: caps.candidates = true"),
        ("search.queue=none", '--set: search.queue = "none": must be a valid integer'),
        ("caps=none", "'caps' is a section: set one of its keys"),
        ("llm.models=none", "'llm.models' is a list of sections"),
        ("llm.models.name=ollama/x", """a list of sections: --set 'llm.models=[{name="provider/model"}]'"""),
        ("cap.seconds=3", "--set: unknown key 'cap': did you mean 'caps.seconds'?"),
        ("cap.zzzzzzzz=3", "--set: unknown key 'cap': did you mean 'caps'?"),
        ("caps.patience=0", "--set: caps.patience = 0: must be greater than 0"),
        ("search.lanes=0", "--set: search.lanes = 0"),
        ("judge.sandbox=off", "--set: judge.sandbox = \"off\": must be 'full', 'reduced' or 'none'"),
        ("proposers.tuner=-2", "--set: proposers.tuner = -2"),
        ("proposers.tuner=inf", "--set: proposers.tuner = Infinity: must be a finite number"),
        ("proposers.tuner=0", "proposers: at least one must be above 0"),
        ("proposers.llm=1", "llm.models names none: add [[llm.models]] with a name"),
        ("llm.choos=weights", "unknown key 'llm.choos': did you mean 'llm.choose'?"),
        ("llm.models=[{nam='a/b'}]", "unknown key 'llm.models.nam': did you mean 'llm.models.name'?"),
        ("llm.models='a/b'", "'llm.models' is a list of sections: --set 'llm.models=[{name="),
        ("llm.models=[{name='a/b', weight=-1}]", "--set: llm.models.0.weight = -1: must be greater than or equal to 0"),
        ("llm.providers.mine.base_ur='http://h'", "did you mean 'llm.providers.NAME.base_url'?"),
        ("llm.providers.mine='http://h'", "'llm.providers.mine' is a section"),
        ("llm.providers.mine.base_url='http://me:s3cret@h/v1'", "no password in an address"),
        ("llm.prices.x.output=1", "llm.prices.x.input"),
        ("caps.seconds", '--set "caps.seconds": write key=value'),
        ("=5", "write key=value"),
        ("caps..seconds=5", "write key=value"),
    ],
)
def test_a_wrong_assignment_is_one_line_that_names_key_and_value(assignment, said):
    with pytest.raises(UsageError) as caught:
        load_config(assignments=[assignment])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[caps]\nsecnds = 5\n", "run.toml: unknown key 'caps.secnds'"),
        ("[caps]\nseconds = -5\n", "run.toml: caps.seconds = -5"),
        ("[cap]\nseconds = 5\n", "run.toml: unknown key 'cap': did you mean 'caps.seconds'?"),
        ('[llm]\nmodels = "a/b"\n', "'llm.models' is a list of sections: write [[llm.models]] for each"),
        ("[caps\n", "run.toml: not valid TOML"),
        ("\xff", "run.toml: not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path, text, said):
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_suggested_assignment_of_a_list_works():
    with pytest.raises(UsageError) as caught:
        load_config(assignments=["llm.models.name=ollama/x"])
    suggested = re.search(r"--set '(.*)'$", str(caught.value))
    assert load_config(assignments=[suggested[1]]).llm.models[0].name == "provider/model"


def test_a_missing_file_is_no_default(tmp_path):
    with pytest.raises(UsageError, match=r"none\.toml: no such configuration file"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(tmp_path)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_assignment_is_accepted_or_refused_in_one_line(key, value):
    try:
        load_config(assignments=[f"{key}={value}"])
    except UsageError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_survives_being_stored(text):
    config = load_config(assignments=[]).model_copy(update={"task": text})
    assert parse_config(dump_config(config)) == config


@pytest.mark.parametrize(("cores", "lanes"), [(2, 4), (LEAST_CORES_APART - 1, 4), (LEAST_CORES_APART, 8), (64, 8)])
def test_on_a_gpu_more_is_in_flight_where_compilers_have_cores_of_their_own(monkeypatch, cores, lanes):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    search = parse_config("").search
    assert search.lanes_of(load_task(TASKS / "softmax")) == lanes
    assert search.lanes_of(load_task(TASKS / "q4_matvec_cpu")) == 1
    assert parse_config("[search]\nlanes = 3").search.lanes_of(load_task(TASKS / "softmax")) == 3


@pytest.mark.parametrize(("cores", "builds"), [(2, 2), (7, 3), (8, 2), (16, 6)])
def test_so_many_programs_are_built_at_once(cores, builds):
    assert builds_at_once(Cpu("", tuple(range(cores)), 1 << 20, "")) == builds
