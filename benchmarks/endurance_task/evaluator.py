"""Right, or not."""

import numpy as np

from evaluators.evaluation import Status

CALLS = 3


def evaluate(context):
    """A few calls on fresh numbers."""
    session = context.session(context.build(context.source))
    workload = context.task.workloads[0]
    session.prepare(workload)
    for _ in range(CALLS):
        x = context.rng.standard_normal(workload.axes["N"], dtype=np.float32)
        out = session.call({"x": x})["out"]
        if not np.allclose(out, 2 * np.sqrt(np.abs(x)), rtol=1e-6, atol=0):
            raise context.fail(Status.WRONG_VALUES, "not twice the root")
    return {"score": 1.0}
