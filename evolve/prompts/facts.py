"""From the judge's and the search's types to what a prompt shows."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evaluators.evaluation import Environment, Evaluation, Timed, WorkloadResult
from evaluators.profile import Profile
from evaluators.task import Language, Task, Workload
from evolve.prompts.context import ShownProfile, ShownProgram, TaskFacts
from evolve.prompts.profile_text import profile_text
from evolve.types import Program

_C_TYPES = {
    "fp64": "double", "fp32": "float", "fp16": "_Float16", "bf16": "__bf16",
    "fp8_e4m3": "uint8_t", "fp8_e5m2": "uint8_t",
    "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t", "u8": "uint8_t", "u16": "uint16_t",
    "bool": "bool",
}  # fmt: skip
_CUDA_TYPES = {**_C_TYPES, "fp16": "__half", "bf16": "__nv_bfloat16"}
_ARCHITECTURES = (
    (r"\b(?:H100|H200|GH200|H800|H20)\b", "hopper"),
    (r"\b(?:B100|B200|B300|GB200|GB300)\b", "blackwell"),
    (r"\bMI3(?:00|08|25)[AX]?\b", "cdna3"),
)
_X86_FLAGS = re.compile(r"\b(?:avx2?|avx512\w*|sse4_2)\b", re.IGNORECASE)


def task_facts(task: Task, language: Language | None = None) -> TaskFacts:
    """What an author may know of a task, for a program in ``language`` (the task's first one by default)."""
    target = language or task.languages[0]
    return TaskFacts(
        name=task.name,
        description=task.description,
        entry=task.entry,
        signature=signature(task, target),
        language=target,
        metric=_metric(task),
        timed=task.metric == "time",
        workloads=tuple(_workload(w) for w in task.search_workloads()),
        rules=_rules(task, target),
    )


def signature(task: Task, language: Language) -> str:
    """The declaration that the calling convention asks for: pointers in the order of ``args``, then every axis."""
    axes = _axes(task)
    if language in {"python", "triton"}:
        tensors = [arg.name for arg in task.args]
        shapes = ", ".join(f"{a.name}: {a.dtype}[{', '.join(map(str, a.shape))}] ({a.role})" for a in task.args)
        names = [*tensors, *axes] if language == "python" else tensors
        return f"def {task.entry}({', '.join(names)}): ...\n# {shapes}"
    types = _CUDA_TYPES if language == "cuda" else _C_TYPES
    pointers = [f"{'const ' if a.role == 'in' else ''}{types[a.dtype]}* {a.name}" for a in task.args]
    stream = ["cudaStream_t stream"] if language == "cuda" else []
    shapes = ", ".join(f"{a.name}[{']['.join(map(str, a.shape))}]" for a in task.args)
    parameters = ", ".join([*pointers, *(f"int64_t {axis}" for axis in axes), *stream])
    return f'extern "C" void {task.entry}({parameters});\n// {shapes}, row-major, contiguous'


def device_facts(environment: Environment) -> tuple[tuple[str, str], ...]:
    """What is known of where programs are measured."""
    return (("device", environment.device_class), *sorted(environment.host.items()))


def architecture_of(environment: Environment) -> str:
    """The family of knowledge cards that fits the device; empty where none does."""
    about = " ".join((environment.device_class, *environment.host.values()))
    for pattern, name in _ARCHITECTURES:
        if re.search(pattern, about):
            return name
    on_cpu = environment.device_class.startswith("cpu")
    return "x86" if on_cpu and _X86_FLAGS.search(about) else ""


def shown_program(program: Program, metric: str) -> ShownProgram:
    """A judged program as a model gets to see it.

    Raises:
        ValueError: it is not judged, or the judge itself failed on it, which is nobody's evidence.
    """
    verdict = program.verdict
    if verdict is None or program.judge_failed:
        raise ValueError(f"program {program.number} has no verdict to show")
    passed = verdict.score is not None
    return ShownProgram(
        number=program.number,
        source=program.source,
        language=program.language,
        status=verdict.status.value,
        score=_score(verdict, metric) if passed else "",
        measures=tuple((name, f"{value:.4g}") for name, value in sorted(verdict.measures.items())),
        workloads=tuple(_result(w) for w in verdict.workloads if w.split == "search"),
        message=verdict.message,
        detail=verdict.detail,
    )


def shown_profile(profile: Profile | None) -> ShownProfile | None:
    """A profile as a model gets to see it; ``None`` where nothing was measured."""
    if profile is None or not profile.measured:
        return None
    return ShownProfile(profile.bottleneck, profile_text(profile))


def _axes(task: Task) -> list[str]:
    """Names in order of first appearance in the shapes."""
    found = [name for a in task.args for dim in a.shape for name in re.findall(r"[A-Za-z_]\w*", str(dim))]
    return list(dict.fromkeys(found))


def _metric(task: Task) -> str:
    if task.metric == "value":
        known = f" The best published is {task.best_known:g}." if task.best_known is not None else ""
        return f"The score is the task's own value; higher is better.{known}"
    names = ", ".join(b.name for b in task.baselines)
    return (
        "The score is how many times faster a program is than the strongest of the baselines"
        f"{f' ({names})' if names else ''}, as the weighted geometric mean over the workloads; higher is better."
    )


def _workload(workload: Workload) -> str:
    axes = ", ".join(f"{name} = {size}" for name, size in workload.axes.items()) or workload.name
    source = f" ({workload.source})" if workload.source else ""
    return f"{axes}; weight {workload.weight:g}{source}"


def _rules(task: Task, language: Language) -> tuple[str, ...]:
    compared = (
        "Results are compared with a float64 reference on many inputs and shapes, also ones not listed here: "
        "sizes of 1, primes, no multiple of any tile, zeros, huge and tiny values."
    )
    rules = [
        compared if task.evaluator == "kernel" else "The task's own evaluator decides whether a result is valid.",
        f"A call may use {task.threads} thread{'s' if task.threads > 1 else ''}.",
    ]
    if task.allowed_precision:
        rules.append(f"Arithmetic may use {', '.join(task.allowed_precision)}, and nothing less precise.")
    if task.deterministic:
        rules.append("The same input twice must give the same bits.")
    rules.append("Inputs must not be modified. Work left undone or done outside the call counts as failure.")
    if language == "python" and task.python_packages:
        rules.append(f"Importable beside the standard library: {', '.join(task.python_packages)}.")
    if language == "cpp" and task.build_flags:
        rules.append(f"Compiled with {' '.join(task.build_flags)}.")
    if language == "cpp" and task.flag_choices:
        groups = "; ".join(" or ".join(choice or "nothing" for choice in group) for group in task.flag_choices)
        rules.append(
            f"One comment line `// build-flags: ...` may pick compiler flags, one of each group: {groups}. "
            "Without it every group's first is used."
        )
    return tuple(rules)


def _score(verdict: Evaluation, metric: str) -> str:
    if metric == "value" or not isinstance(verdict.timing, Timed):
        return f"{verdict.score:.6g}"
    speedup = verdict.timing.speedup
    bounds = f"{speedup.low:.3f} to {speedup.high:.3f}" + (", in few rounds" if speedup.glance else "")
    return f"{speedup.estimate:.3f} times as fast as the strongest baseline ({bounds})"


def _result(result: WorkloadResult) -> str:
    parts = []
    if result.call_us is not None:
        parts.append(f"{result.call_us.estimate:.2f} us a call")
    if result.floor_us:
        parts.append(f"the device needs at least {result.floor_us:.2f} us")
    parts += [f"{ratio.estimate:.3f} times as fast as {name}" for name, ratio in sorted(result.ratios.items())]
    worst = _worst_error(result)
    if worst:
        parts.append(worst)
    return f"{result.workload}: {'; '.join(parts) or 'not measured'}"


def _worst_error(result: WorkloadResult) -> str:
    """The input family that comes nearest to its limit, or passes it."""
    shares: Mapping[str, float] = {
        name: error.max_ulp / error.max_limit_ulp if error.max_ulp is not None and error.max_limit_ulp else float("inf")
        for name, error in result.errors.items()
        if error.max_ulp is None or error.max_ulp > 0
    }
    if not shares:
        return ""
    family = max(shares, key=lambda name: shares[name])
    error = result.errors[family]
    if error.max_ulp is None:
        return f"NaN or Inf where the reference has none, on {family} inputs"
    return f"largest error {error.max_ulp:.3g} of {error.max_limit_ulp:.3g} ulp allowed, on {family} inputs"
