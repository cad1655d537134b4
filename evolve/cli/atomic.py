"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from evaluators.errors import UsageError


def write_atomically(path: Path, text: str) -> None:
    """Write ``path`` by way of a temporary file beside it, so that nobody ever sees half of it.

    Raises:
        UsageError: It cannot be written; what was there before is untouched.
    """
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name a file")
    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
