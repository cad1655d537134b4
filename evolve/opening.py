"""Making and opening a run's folder and storage, with every way in which that can be refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from evaluators.errors import UsageError
from evaluators.task import Task
from evolve.database.records import NewRun
from evolve.database.sql_storage import SqlStorage
from evolve.database.storage import Storage
from evolve.database.versions import create_database, open_database
from evolve.run_directory import GLANCE_S, RunDirectory
from evolve.settings import RunSettings


def create_storage(directory: Path, new: NewRun, url: str | None) -> tuple[RunDirectory, Storage]:
    """Make the folder, locked, and the run's storage; leaves nothing behind where it fails.

    Raises:
        UsageError: see :meth:`evolve.run.Run.create`.
    """
    folder = RunDirectory(directory)
    is_new = folder.make()
    folder.acquire(GLANCE_S)  # Who does not get it made nothing here, and erases nothing.
    with ExitStack() as undo:
        undo.callback(folder.erase, new=is_new)
        engine = create_database(url or f"sqlite:///{folder.database}")
        undo.callback(engine.dispose)
        storage = SqlStorage.create(engine, new)
        undo.callback(storage.close)
        if url is not None:
            folder.name_database(url, storage.run().id)
        if new.config:
            folder.write(folder.config, new.config)
        undo.pop_all()
    return folder, storage


def open_storage(
    directory: Path, task: Task, settings: RunSettings | None, url: str | None, config: str | None, patience_s: float
) -> tuple[RunDirectory, Storage, RunSettings]:
    """Open a run's folder, locked, and its storage; returns the settings it goes on with.

    Raises:
        UsageError: see :meth:`evolve.run.Run.open`.
    """
    folder = RunDirectory(directory)
    location, run_id = folder.locate(url)
    engine = open_database(location)
    with ExitStack() as undo:
        undo.callback(engine.dispose)
        folder.acquire(patience_s)
        undo.callback(folder.release)
        storage = SqlStorage(engine, run_id, patience_s=patience_s)
        undo.callback(storage.close)
        record = storage.run()
        if record.task_hash != task.hash:
            raise UsageError(
                f"run {directory}: its task {record.task_name} was another when it began (hash "
                f"{record.task_hash[:12]}, now {task.hash[:12]}); restore the task's files, or begin a new run"
            )
        if settings is not None and settings != record.settings:
            _check_unchanged(directory, record.settings, settings)
            storage.set_settings(settings.model_dump_json(), record.config if config is None else config)
            if config is not None:
                folder.write(folder.config, config)
        undo.pop_all()
    return folder, storage, settings or record.settings


@contextmanager
def closed_on_error(folder: RunDirectory, storage: Storage) -> Iterator[None]:
    """Give back a run's storage and lock where nothing comes of them."""
    try:
        yield
    except BaseException:
        storage.close()
        folder.release()
        raise


def _check_unchanged(directory: Path, before: RunSettings, after: RunSettings) -> None:
    for name in ("seed", "islands", "migration_every"):
        old, new = getattr(before.search, name), getattr(after.search, name)
        if old != new:
            raise UsageError(f"run {directory}: search.{name} is {old} and cannot become {new}; begin a new run")
