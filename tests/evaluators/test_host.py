from __future__ import annotations

from evaluators.host import inspect_host


def test_the_device_is_measured_with_all_of_its_cores():
    host = inspect_host()
    assert host.problem == ""
    assert host.ceilings is not None
    assert host.ceilings.bytes_per_s > 0
