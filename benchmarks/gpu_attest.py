"""What attestation, counters, sanitizer and the driver's errors say on a GPU, of honest and of dishonest programs.

    python -m benchmarks.gpu_attest OUT.json [--commit HASH] [--seconds 240]

Needs an NVIDIA GPU, torch, Triton and the CUDA toolkit; nothing about the device is changed. Ends after so many seconds
with what it has; the table is printed last.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluators.calibration import baseline_side
from evaluators.cuda.arena import CudaArena
from evaluators.cuda.attesting import Attestor, _watched_round
from evaluators.cuda.watcher import Watcher
from evaluators.empty import empty_source
from evaluators.evaluation import Evaluation
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.rounds import Side
from evaluators.task import Language
from evaluators.task_loading import find_task, load_task
from tests.evaluators.cuda.attested import BEYOND, CONVICTED, FAULTS, HONEST, ODD, of_the_corpus

Row = dict[str, Any]
COUNTED_ROUNDS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--seconds", type=float, default=240)
    arguments = parser.parse_args()
    started = time.monotonic()
    task = load_task(find_task("softmax"))
    record: Row = {"task": task.name, "date": datetime.now(UTC).isoformat(), "commit": arguments.commit, "rows": []}
    with open_judge(task, sandbox="full", lanes=1) as (judge, environment):
        if not isinstance(judge, KernelJudge):
            sys.exit("no GPU on this machine")
        record["environment"] = environment.model_dump(mode="json")
        judge.calibrate()
        record["ready_s"] = time.monotonic() - started
        for name, ask in requests(judge, task.folder):
            if time.monotonic() - started > arguments.seconds:
                record["rows"].append({"name": name, "status": "not reached"})
                continue
            record["rows"].append(answered(name, ask))
            save(arguments.out, record)
    save(arguments.out, record)
    show(record)


def counted(judge: KernelJudge) -> Row:
    """How many grids the counters see in rounds of both baselines, of the empty program and of the seed."""
    attestor, found = Attestor(None), {}
    task = judge.bench.task
    built = judge.bench.builds.build(task, (task.folder / "seed.py").read_text(), "triton", ())
    empty = judge.bench.builds.build(task, empty_source("torch", task.entry), "torch", ())
    attestor.watcher = Watcher()
    arena = judge.arena
    assert isinstance(arena, CudaArena)
    with judge._device.held(), attestor.watcher.reserved():
        for name, calibration in judge.calibrations.items():
            rows = found[name] = {"calls": calibration.plan.calls}
            orders = [calibration.plan.layout.sequences[i % 2] for i in range(COUNTED_ROUNDS)]

            def look(
                word: str, side: Side, orders: list[Any] = orders, calibration: Any = calibration, rows: Row = rows
            ) -> None:
                seen = [_watched_round(arena, side, calibration, attestor.watcher, order) for order in orders]
                rows[word] = [(one.dispatches, one.blocks) for one in seen]
                rows[f"{word}, in time"] = [round(count) for count in seen[-1].series]

            for word in judge.bench.baselines:
                look(word, baseline_side(judge.bench, arena, calibration, word))
            for word, program in (("empty", empty), ("seed", built)):
                session = arena.open(program)
                try:
                    session.prepare(calibration.plan.layout, task.limits.prepare_s)
                    look(word, Side(session, 0.0, task.limits.call_s, None))
                finally:
                    session.close()
    attestor.close()
    return found


def requests(judge: KernelJudge, folder: Path) -> list[tuple[str, Callable[[], Row]]]:
    """Everything to ask, what matters most first."""
    seeds: list[tuple[str, str, Language]] = [
        ("triton seed", (folder / "seed.py").read_text(), "triton"),
        ("cuda seed", (folder / "seed.cu").read_text(), "cuda"),
    ]

    def evaluated(source: str, language: Language) -> Callable[[], Row]:
        def ask() -> Row:
            judge._best_score = 0.0  # as if it were the first: else a slow one is attested only if it is confirmed
            return facts(judge.evaluate(source, language))

        return ask

    def confirmed(source: str, language: Language) -> Callable[[], Row]:
        return lambda: facts(judge.confirm(source, language))

    def profiled(source: str, language: Language) -> Callable[[], Row]:
        return lambda: {"profile": judge.profile(source, language).model_dump(mode="json", exclude_none=True)}

    convict = [(f"convict: {n}", evaluated(s, lang)) for n, (lang, s, _) in reversed(CONVICTED.items())]  # type: ignore[arg-type]
    asked: list[tuple[str, Callable[[], Row]]] = [
        ("counted", lambda: {"counted": counted(judge)}),
        *convict,
        *((n, evaluated(s, lang)) for n, s, lang in reversed(seeds)),
    ]
    asked += [(f"profile: {n}", profiled(s, lang)) for n, s, lang in seeds]
    asked += [(f"fault: {n}", evaluated(source, language)) for n, (language, source) in of_the_corpus(*FAULTS).items()]
    asked += [(f"confirm: {n}", confirmed(s, lang)) for n, s, lang in seeds]
    asked += [("convict: a read beyond the input (confirm)", confirmed(BEYOND, "cuda"))]
    asked += [(f"odd: {n}", evaluated(s, lang)) for n, (lang, s) in {**ODD, **HONEST}.items()]  # type: ignore[arg-type]
    return asked


def answered(name: str, ask: Callable[[], Row]) -> Row:
    began = time.monotonic()
    try:
        row = ask()
    except Exception:  # what one request comes to must not keep the others from being asked
        row = {"status": "failed", "message": traceback.format_exc()[-800:]}
    return {"name": name, "wall_s": round(time.monotonic() - began, 2), **row}


def facts(evaluation: Evaluation) -> Row:
    return {
        "status": evaluation.status,
        "message": evaluation.message,
        "detail": evaluation.detail[-1500:] if evaluation.status != "passed" else "",
        "score": evaluation.score,
        "call_us": {w.workload: w.call_us.estimate for w in evaluation.workloads if w.call_us},
        "stages_s": evaluation.cost.stages_s,
        "attestation": evaluation.attestation and evaluation.attestation.model_dump(mode="json"),
    }


def save(out: Path, record: Row) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")


def show(record: Row) -> None:
    print(f"{record['task']} on {record['environment']['device_class']}, ready in {record['ready_s']:.1f} s")
    for row in record["rows"]:
        attested_s = row.get("stages_s", {}).get("attestation")
        cost = f" attestation {attested_s:.2f} s" if attested_s is not None else ""
        score = f" {row['score']:.3f}" if row.get("score") else ""
        print(
            f"{row['name']}: {row.get('status', '')}{score} in {row.get('wall_s', 0)} s{cost} {row.get('message', '')}"[
                :300
            ]
        )
        if row.get("detail"):
            print("    detail:", " | ".join(row["detail"].splitlines()[-4:])[:300])
        show_attestation(row)
        for name, one in row.get("counted", {}).items():
            print("   ", name, {k: v for k, v in one.items() if "in time" not in k})
        if "profile" in row:
            show_profile(row["profile"])


def show_attestation(row: Row) -> None:
    attested = row.get("attestation")
    if not attested:
        return
    print(
        f"    watched {attested['watched']}, memory errors {attested['memory_errors']}, "
        f"races {attested['race_hazards']}, missing: {attested['missing'][:160]}"
    )
    for w in attested["workloads"]:
        call_us = row["call_us"].get(w["workload"])
        kernels = ", ".join(f"{k['launches']} x {k['name'][:40]} {k['us']:.2f} us" for k in w["kernels"][:3])
        print(
            f"    {w['workload']}: call {call_us} us, eager {w['eager_us']} us, kernels {w['kernel_us']:.3f} us,"
            f" K {w['calls']} x {w['launches']}"
            f" (+{w['copies']} copies, {w['fills']} fills), dispatches {w['dispatches']}, overlap {w['overlap']:.3f},"
            f" read {w['read_bytes']} written {w['written_bytes']}; {kernels}"
        )


def show_profile(profile: Row) -> None:
    print(f"    {profile['tool']}: {profile.get('bottleneck')} {profile.get('reason', '')}")
    print("    missing:", profile.get("missing", "")[:250])
    for ceiling in profile.get("ceilings", []):
        print(f"    {ceiling['name']}: {ceiling['achieved'] / ceiling['ceiling']:.3f} of {ceiling['ceiling']:.4g}")
    counters = {n.split(".")[0]: c["value"] for n, c in profile.get("counters", {}).items()}
    print("   ", profile.get("call_us"), counters)


if __name__ == "__main__":
    main()
