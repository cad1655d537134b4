"""The point of the unit disc with the largest x + y."""

from evaluators.evaluation import Status


def evaluate(context):
    session = context.session(context.build(context.source))
    session.prepare(context.task.workloads[0])
    x, y = session.call({})["out"]
    if not x * x + y * y <= 1:
        raise context.fail(Status.WRONG_VALUES, f"({x}, {y}) lies outside the disc")
    context.artifact("answer", f"{x} {y}")
    return {"score": x + y, "x": x}
