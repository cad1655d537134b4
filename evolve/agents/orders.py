"""Steering a run: orders checked against the run, stored with what they change in its settings."""

from __future__ import annotations

from pydantic import BaseModel

from evaluators.errors import UsageError
from evolve.agents.desk import Desk
from evolve.config import Config, ProposerWeights, dump_config, load_config, parse_config
from evolve.config_document import UNSET
from evolve.database.mailbox import Documents
from evolve.database.steering import Steer, SteerRecord
from evolve.llm.prices import PriceList
from evolve.llm.settings import ModelName
from evolve.run_directory import RunDirectory
from evolve.settings import Caps


def hint(desk: Desk, text: str) -> SteerRecord:
    """Say something in every prompt from now on."""
    return _give(desk, Steer.HINT, _said(desk, text))


def ban(desk: Desk, text: str, pattern: str = "") -> SteerRecord:
    """Say in prompts what not to use; with a pattern, matching sources are rejected before the judge sees them."""
    return _give(desk, Steer.BAN, _said(desk, text), desk.entrance.pattern(pattern))


def withdraw(desk: Desk, number: int) -> SteerRecord:
    """Take a hint or ban back.

    Raises:
        UsageError: there is none of that number.
    """
    steering = desk.mailbox.steering()
    for record in (*steering.hints, *steering.bans):
        if record.id == number:
            return _give(desk, Steer.WITHDRAW, f"{record.kind} {number}: {record.text}", str(number))
    raise UsageError(f"run {desk.directory}: no hint or ban {number}; see: evolve steer {desk.directory} list")


def release(desk: Desk, number: int) -> SteerRecord:
    """End the lease of an agent that will not answer: its place is free, and nobody waits for it.

    Raises:
        UsageError: there is no open lease of that number.
    """
    leases = desk.mailbox.open_leases(desk.mailbox.now())
    for lease in leases:
        if lease.id == number:
            return desk.mailbox.release(lease, f"lease {number} of {lease.agent}")
    known = ", ".join(f"{lease.id} ({lease.agent})" for lease in leases) or "none"
    raise UsageError(f"run {desk.directory}: no open lease {number}; open: {known}")


def pause(desk: Desk, island: int) -> SteerRecord:
    """Propose nothing on an island from now on.

    Raises:
        UsageError: there is no such island, or no other would be left.
    """
    _check_island(desk, island)
    paused = desk.mailbox.steering().paused | {island}
    if len(paused) == len(desk.mailbox.islands()):
        raise UsageError(f"run {desk.directory}: island {island} is the last that is not paused")
    return _give(desk, Steer.PAUSE, f"island {island}", str(island))


def unpause(desk: Desk, island: int) -> SteerRecord:
    """Propose on a paused island again.

    Raises:
        UsageError: there is no such island.
    """
    _check_island(desk, island)
    return _give(desk, Steer.RESUME, f"island {island}", str(island))


def weight(desk: Desk, assignment: str) -> SteerRecord:
    """Change a proposer's weight: ``NAME=VALUE``.

    Raises:
        UsageError: there is no such proposer, or no such weight.
    """
    name, value = _assignment(assignment, tuple(ProposerWeights.model_fields))
    return _configure(desk, Steer.WEIGHT, f"proposers.{name}", _number(assignment, value))


def cap(desk: Desk, assignment: str) -> SteerRecord:
    """Raise, lower or lift a cap: ``KEY=VALUE``, or ``KEY=none``.

    Raises:
        UsageError: there is no such cap, no such amount, or a model without a price, which no cap in dollars holds.
    """
    key, value = _assignment(assignment, tuple(Caps.model_fields))
    amount = None if value == UNSET else _number(assignment, value)
    if key == "dollars" and amount is not None:
        llm = parse_config(desk.mailbox.run().config).llm
        PriceList.load(llm.prices).require(ModelName.parse(model.name) for model in llm.models)
    return _configure(desk, Steer.CAP, f"caps.{key}", amount)


def in_force(desk: Desk) -> frozenset[int]:
    """Numbers of the orders that hold now: no later one replaced them, and no ``evolve resume --set`` did."""
    steering = desk.mailbox.steering()
    config = parse_config(desk.mailbox.run().config)
    sections = {Steer.WEIGHT: config.proposers, Steer.CAP: config.caps}
    return frozenset(
        record.id
        for record in steering.records
        if record.id in steering.latest
        and (record.kind not in sections or record.argument == _stored(sections[record.kind], record.argument))
    )


def _stored(section: BaseModel, argument: str) -> str:
    name = argument.partition("=")[0]
    return _shown(name, getattr(section, name, None))


def _shown(name: str, value: float | None) -> str:
    return f"{name}={UNSET if value is None else format(value, 'g')}"


def _configure(desk: Desk, kind: Steer, key: str, value: float | None) -> SteerRecord:
    name = key.partition(".")[2]
    written: list[str] = []

    def change(before: Documents) -> Documents:
        config = _changed(parse_config(before[1]), key, value)
        written.append(dump_config(config))
        return config.run_settings.model_dump_json(), written[-1]

    argument = _shown(name, value)
    record = desk.mailbox.steer(kind, f"{name} is {argument.partition('=')[2]} now", argument, change)
    folder = RunDirectory(desk.directory)
    folder.write(folder.config, written[-1])
    return record


def _changed(config: Config, key: str, value: float | None) -> Config:
    try:
        return load_config(None, [f"{key}={UNSET if value is None else repr(value)}"], base=config)
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--set: ")) from None


def _give(desk: Desk, kind: Steer, text: str, argument: str = "") -> SteerRecord:
    return desk.mailbox.steer(kind, text, argument, lambda before: before)


def _said(desk: Desk, text: str) -> str:
    line = desk.entrance.remark(text)
    if not line:
        raise UsageError("the text is empty; say in one sentence what you want")
    return line


def _check_island(desk: Desk, island: int) -> None:
    known = [record.number for record in desk.mailbox.islands()]
    if island not in known:
        raise UsageError(f"run {desk.directory}: no island {island}; it has {known[0]} to {known[-1]}")


def _assignment(text: str, known: tuple[str, ...]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in known:
        raise UsageError(f"{text!r}: write NAME=VALUE, where NAME is one of {', '.join(known)}")
    return name, value.strip()


def _number(assignment: str, text: str) -> float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{assignment!r}: {text!r} is not a number") from None
