"""A task's oracle on the device: what is right for large inputs, without bringing them to the host.

Beside ``reference.py`` a task may have ``device_oracle.py`` with one function, ``oracle(inputs, rows=None)``: what the
reference's gives, from and as torch tensors. It is trusted code in the judge, and the reference stays what decides:
limits are measured with it alone, and the two are compared before the first candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from evaluators.cuda.device import DeviceArray
from evaluators.dtypes import Array
from evaluators.errors import TaskError
from evaluators.reference import Arrays, Reference, import_file, largest_of_rows

AGREEMENT = 2.0**-40
"""Of a row's largest value: both compute in float64, perhaps in another order."""
SEED = 0x0AC1E


@dataclass(frozen=True)
class DeviceReference(Reference):
    """A reference whose oracle computes on the device."""

    on_device: Callable[..., Any] = field(kw_only=True)

    def oracle(self, inputs: Mapping[str, Array], rows: Array | None = None) -> Arrays:
        """See :meth:`Reference.oracle`; inputs may lie in device memory already."""
        import torch  # noqa: PLC0415

        tensors = {name: _tensor(value, self._dtypes[name]) for name, value in inputs.items() if name in self._dtypes}
        chosen = None if rows is None else torch.as_tensor(np.asarray(rows, np.int64), device="cuda")
        try:
            made = self.on_device(tensors, chosen)
            outputs = {name: value.cpu().numpy() for name, value in made.items()}
        except Exception as error:  # a task author's code: whatever it raises is a mistake in the task
            raise TaskError(f"{self.task.device_oracle_path}: {type(error).__name__}: {error}") from error
        self._check_outputs("oracle on the device", outputs, inputs, rows)
        return outputs

    @cached_property
    def _dtypes(self) -> dict[str, str]:
        return {arg.name: arg.dtype for arg in self.inputs}


def with_device_oracle(reference: Reference) -> Reference:
    """The reference with the task's oracle on the device, or as it is where the task has none.

    Raises:
        TaskError: the two oracles disagree on an edge workload.
    """
    path = reference.task.device_oracle_path
    if not path.is_file():
        return reference
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)  # others of its threads would spin on the cores that rounds are played on
    function = getattr(import_file(path), "oracle", None)
    if not callable(function):
        raise TaskError(f"{path}: function 'oracle' is missing")
    known = {one.name: getattr(reference, one.name) for one in fields(reference)}
    made = DeviceReference(**known, on_device=function)
    _compare(reference, made)
    return made


def _compare(host: Reference, device: DeviceReference) -> None:
    small = [w for w in host.task.workloads if w.split == "edge"] or [min(host.task.workloads, key=host.traffic_bytes)]
    for workload in small:
        for family in host.families:
            inputs = host.generate(workload, family, np.random.default_rng(SEED))
            expected, found = host.oracle(inputs), device.oracle(inputs)
            for name, values in expected.items():
                step = (AGREEMENT * largest_of_rows(values)).reshape(-1, *(1,) * (values.ndim - 1))
                with np.errstate(invalid="ignore"):
                    close = (np.abs(found[name] - values) <= step) | (found[name] == values)
                if not (close | (np.isnan(found[name]) & np.isnan(values))).all():
                    where = f"workload {workload.name!r}, family {family!r}"
                    raise TaskError(f"{host.task.device_oracle_path}: {where}: {name!r} disagrees with reference.py")


def _tensor(value: Any, dtype: str) -> Any:
    """An argument as a tensor on the device; without a copy where it lies there."""
    import torch  # noqa: PLC0415

    from evaluators.programs.tensors import TORCH_DTYPES, device_tensor  # noqa: PLC0415

    if isinstance(value, DeviceArray):
        return device_tensor(value.address, dtype, value.shape)
    raw = np.array(value, copy=None, order="C")
    if raw.size == 0:
        return torch.empty(raw.shape, dtype=TORCH_DTYPES[dtype], device="cuda")
    return torch.from_numpy(np.atleast_1d(raw).view(np.uint8)).cuda().view(TORCH_DTYPES[dtype]).view(raw.shape)
