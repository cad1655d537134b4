"""The installed version of this program."""

from __future__ import annotations


def installed_version() -> str | None:
    """Its version; ``None`` where it runs from its source folder without being installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - keeps help fast

    try:
        return version("kernel-evolve")
    except PackageNotFoundError:
        return None
