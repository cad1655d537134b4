"""What opens a database is shown and stored nowhere."""

import pytest

from evaluators.errors import UsageError
from evolve.database.engine import parse_url, without_secrets
from evolve.database_url import without_password

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@host/db",
        f"postgresql://me@host/db?password={SECRET}&application_name=x",
        f"postgresql+psycopg://host/db?sslpassword={SECRET}",
    ],
)
def test_a_password_is_taken_out_wherever_it_stands(url):
    assert SECRET not in without_password(url)
    assert "host/db" in without_password(url)
    assert SECRET not in without_secrets(parse_url(url)).render_as_string(hide_password=False)


@pytest.mark.parametrize("url", ["sqlite:///a b/run.db", "postgresql://me@host/db?application_name=x", "", "[", "x"])
def test_what_holds_none_is_left_alone(url):
    assert without_password(url) == url


@pytest.mark.parametrize("url", [f"postgres://me:{SECRET}@host/db", f"nosuch://h/d?password={SECRET}"])
def test_not_even_an_address_that_is_refused_is_shown_whole(url):
    with pytest.raises(UsageError) as refused:
        parse_url(url)
    assert SECRET not in str(refused.value)
