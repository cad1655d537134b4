"""The proposers: the tuner's search, scripts and mixes."""

import asyncio
from itertools import islice

import numpy as np

from evaluators.evaluation import Evaluation, Stage, Status
from evaluators.source import build_flags, source_hash
from evolve.proposers.scripted import Scripted
from evolve.proposers.tpe import Observation, suggest
from evolve.proposers.tunables import find_tunables
from evolve.proposers.tuner import Tuner, TunerSettings
from evolve.testing import ENVIRONMENT, TASK_HASH, fake_task
from evolve.types import Program, ProgramState, Proposal, ProposeContext

SOURCE = """constexpr int A = 1;  // tune: 1, 2, 4, 8
constexpr int B = 1;  // tune: 1, 2, 4, 8
"""
FLAGS = [["-O3", "-O2"]]


def program(number, source, score=None, status=Status.PASSED, proposer="tuner"):
    evaluation = Evaluation(
        status=status,
        stage=Stage.ROUNDS,
        task_hash=TASK_HASH,
        source_hash=source_hash(source),
        score=score,
        environment=ENVIRONMENT,
    )
    return Program(
        number, source, source_hash(source), "cpp", "tune", proposer, ProgramState.FINISHED, 0, 1, evaluation=evaluation
    )


def context(tmp_path, number, parent, inspirations=(), known=lambda source: False):
    rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(1, number)))
    return ProposeContext(fake_task(tmp_path), number, 0, parent, tuple(inspirations), rng, known)


def propose(tuner, *args, **kwargs) -> Proposal | None:
    return asyncio.run(tuner.propose(context(*args, **kwargs)))


def value(source):
    """A smooth hill with its top at A = 8, B = 4."""
    values = find_tunables(source, "cpp").values
    return 10.0 - abs(int(values["A"]).bit_length() - 4) - abs(int(values["B"]).bit_length() - 3)


def climb(tuner, tmp_path, count):
    """Sources proposed one after another, each told before the next, always from the seed."""
    seed = program(1, SOURCE, value(SOURCE))
    sources = []
    for number in range(2, 2 + count):
        proposal = propose(tuner, tmp_path, number, seed)
        if proposal is None:
            break
        sources.append(proposal.source)
        tuner.tell(program(number, proposal.source, value(proposal.source)))
    return sources


def test_every_combination_is_proposed_once_and_then_nothing(tmp_path):
    sources = climb(Tuner(), tmp_path, 40)
    assert len(sources) == len(set(sources)) == 15
    assert SOURCE not in sources


def test_flags_are_part_of_the_search(tmp_path):
    sources = climb(Tuner(FLAGS), tmp_path, 40)
    assert len(set(sources)) == 31
    assert {build_flags(source, FLAGS) for source in sources} == {("-O3",), ("-O2",)}


def test_what_the_run_knows_already_is_not_proposed_again(tmp_path):
    others = climb(Tuner(), tmp_path, 40)
    left = others.pop()
    seed = program(1, SOURCE, 1.0)
    known = {SOURCE, *others}.__contains__
    assert propose(Tuner(), tmp_path, 2, seed, known=known).source == left
    assert propose(Tuner(), tmp_path, 2, seed, known={left, *others}.__contains__) is None


def test_a_resumed_tuner_goes_on_like_the_one_that_died(tmp_path):
    whole = climb(Tuner(), tmp_path, 14)
    resumed = Tuner()
    for number, source in reversed(list(enumerate(whole[:9], 2))):
        resumed.tell(program(number, source, value(source)))
    seed = program(1, SOURCE, value(SOURCE))
    assert propose(resumed, tmp_path, 11, seed, known=whole[:9].__contains__).source == whole[9]


def test_it_learns_from_verdicts(tmp_path):
    """Over a space of 4096 combinations 60 proposals find more than chance would."""
    lines = "".join(f"constexpr int T{i} = 1;  // tune: 1, 2, 4, 8\n" for i in range(6))
    seed = program(1, lines, 0.0)
    tuner, scores = Tuner(settings=TunerSettings(mutate=0, crossover=0)), []
    for number in range(2, 62):
        proposal = propose(tuner, tmp_path, number, seed)
        scores.append(float(sum(int(v).bit_length() for v in find_tunables(proposal.source, "cpp").values.values())))
        tuner.tell(program(number, proposal.source, scores[-1]))
    assert np.mean(scores[-20:]) > np.mean(scores[:10]) + 3


def test_failures_are_avoided_and_our_own_faults_are_not_held_against_values(tmp_path):
    space = list(find_tunables(SOURCE, "cpp"))
    failed = [Observation(n, {"A": "8", "B": b}, None) for n, b in enumerate(["1", "2", "4", "8"] * 3)]
    passed = [Observation(20 + n, {"A": a, "B": "1"}, 1.0) for n, a in enumerate(["1", "2", "4"] * 4)]
    drawn = [values["A"] for seed in range(10) for values in islice(suggest(space, failed + passed, seed), 4)]
    assert drawn.count("8") <= len(drawn) / 8
    tuner = Tuner()
    tuner.tell(program(2, SOURCE, None, Status.INFRA_ERROR))
    seed = program(1, SOURCE.replace("A = 1", "A = 2"), 1.0)
    offered = set()
    for number in range(3, 20):
        proposal = propose(tuner, tmp_path, number, seed)
        offered |= {proposal.source} if proposal else set()
    assert SOURCE in offered


def test_crossover_takes_values_of_another_structure(tmp_path):
    donor = program(5, SOURCE.replace("A = 1", "A = 8").replace("B = 1", "B = 4") + "int other;\n", 3.0)
    tuner = Tuner(settings=TunerSettings(mutate=0, crossover=1))
    proposal = propose(tuner, tmp_path, 6, program(1, SOURCE, 1.0), [donor])
    assert proposal.operator == "crossover"
    assert proposal.parents == (1, 5)
    assert find_tunables(proposal.source, "cpp").values in (
        {"A": "8", "B": "1"},
        {"A": "1", "B": "4"},
        {"A": "8", "B": "4"},
    )


def test_mutation_moves_to_neighbours_and_says_what_changed(tmp_path):
    tuner = Tuner(settings=TunerSettings(mutate=1, crossover=0))
    proposal = propose(tuner, tmp_path, 6, program(1, SOURCE.replace("A = 1", "A = 4"), 1.0))
    values = find_tunables(proposal.source, "cpp").values
    assert proposal.operator == "mutate"
    assert values["A"] in ("2", "4", "8")
    assert values["B"] in ("1", "2")
    assert " -> " in proposal.note


def test_a_program_without_tunables_gets_no_proposal(tmp_path):
    assert propose(Tuner(), tmp_path, 2, program(1, "int x;", 1.0)) is None


def test_a_huge_space_is_no_burden(tmp_path):
    lines = "".join(f"constexpr int T{i} = 1;  // tune: 1, 2, 4, 8, 16, 32, 64, 128\n" for i in range(40))
    assert propose(Tuner(), tmp_path, 2, program(1, lines, 1.0)).source != lines


def test_a_value_outside_its_own_choices_is_left_for_one_of_them(tmp_path):
    seed = program(1, "constexpr int A = 3;  // tune: 1, 2\n", 1.0)
    assert "A = 3" not in propose(Tuner(), tmp_path, 2, seed).source


def test_a_script_is_followed_by_number(tmp_path):
    seed = program(1, "a", 1.0)
    script = Scripted(["b", Proposal("c", "cpp", "diff", "scripted")])
    said = [propose(script, tmp_path, number, seed) for number in (2, 3, 4)]
    assert [p and (p.source, p.operator) for p in said] == [("b", "rewrite"), ("c", "diff"), None]
    assert said[0].parents == (1,)


def test_a_function_is_a_script(tmp_path):
    script = Scripted(lambda context: f"{context.parent.source}{context.number}")
    assert propose(script, tmp_path, 2, program(1, "a", 1.0)).source == "a2"
