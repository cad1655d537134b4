"""Addresses of databases as they may be shown and stored: without what opens them."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

SECRETS = frozenset({"password", "sslpassword"})
"""Parts of an address' query that libpq takes secrets from."""


def without_password(url: str) -> str:
    """The same address with ``***`` in place of every secret; what is no address comes back as it is."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return url
    user, at, host = parts.netloc.rpartition("@")
    if at and ":" in user:
        parts = parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}")
    if SECRETS & {name for name, _ in query}:
        shown = [(name, "***" if name in SECRETS else value) for name, value in query]
        parts = parts._replace(query=urlencode(shown, safe="*/:"))
    return url if parts == urlsplit(url) else urlunsplit(parts)
