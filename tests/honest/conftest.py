"""Judges by task name, shared by all tests of the folder."""

import pytest

from tests.quick_judge import quick_judges


@pytest.fixture(scope="session")
def judges():
    with quick_judges() as judge:
        yield judge
