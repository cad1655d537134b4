"""Where what is shipped beside the code lies: in the wheel as package data, in the repository as top-level folders."""

from __future__ import annotations

from pathlib import Path

_PACKAGES = Path(__file__).resolve().parent.parent


def shipped_folder(kind: str) -> Path:
    """The folder of shipped ``tasks`` or ``prompts``: ``evolve/_data/KIND`` of a wheel, else the repository's."""
    packaged = _PACKAGES / "evolve" / "_data" / kind
    return packaged if packaged.is_dir() else _PACKAGES / kind
