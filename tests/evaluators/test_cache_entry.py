"""What a judge keeps for later ones comes back as it was written, or not at all."""

import hashlib
import json
import os
import struct
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators import cache_entry
from evaluators.cache_entry import Entry, EntryDamaged, EntryUnfit, clear_old, read_entry, write_entry

ENTRY = Entry(
    {"task": "abc"},
    1e9,
    {"8x8": {"eager": 1.25, "compiled": 1e-3}},
    {"a/inductor/x.py": b"pass", "a/empty": b"", "b/y.so": bytes(range(256))},
)
HEADER = {"facts": {}, "made_s": 1.0, "baseline_us": {"w": {"b": 1.0}}, "files": [["a/x", 3]]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "entry.kept"


def put(path, header, behind=b"xyz", length=None):
    """A file whose checksum is right, whatever it says."""
    words = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = struct.pack(">Q", len(words) if length is None else length) + words + behind
    path.write_bytes(hashlib.sha256(content).digest() + content)
    path.chmod(0o600)


def test_an_entry_comes_back(path):
    write_entry(path, ENTRY)
    assert read_entry(path) == ENTRY
    assert path.stat().st_mode & 0o077 == 0
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_what_is_not_there_is_not_damaged(path):
    with pytest.raises(FileNotFoundError):
        read_entry(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "entry.kept"
    write_entry(path, ENTRY)
    return path, path.read_bytes()


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7), cut=st.booleans())
def test_damage_is_found_wherever_it_is(whole, at, bit, cut):
    path, content = whole
    at %= len(content)
    damaged = content[:at] if cut else content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
    path.write_bytes(damaged)
    with pytest.raises(EntryDamaged):
        read_entry(path)


@given(content=st.binary(max_size=200))
def test_garbage_behind_a_right_checksum_is_found(whole, content):
    path, _ = whole
    path.write_bytes(hashlib.sha256(content).digest() + content)
    with pytest.raises(EntryDamaged):
        read_entry(path)


def test_a_header_that_makes_sense_is_read(path):
    put(path, HEADER)
    assert read_entry(path).files == {"a/x": b"xyz"}


@pytest.mark.parametrize(
    "header",
    [
        *({**HEADER, "baseline_us": {"w": {"b": us}}} for us in (0, -1.0, 1e9, 10**400, "1.0", None, True, [], {})),
        *({**HEADER, "made_s": made} for made in (-1.0, 1e300, "now", None)),
        *({**HEADER, "files": files} for files in ([["a/x", -3]], [["a/x", 3.5]], [["a/x"]], [[3, "a/x"]], {}, [])),
        *({**HEADER, "files": [["a/x", size]]} for size in (2, 4, 2**63, 10**30)),
        {**HEADER, "files": [["a/x", 1], ["a/x", 2]]},
        {**HEADER, "facts": {"a": 1}},
        {**HEADER, "more": 1},
        {k: v for k, v in HEADER.items() if k != "baseline_us"},
        [],
        b'{"facts":{},"made_s":1.0,"baseline_us":{"w":{"b":NaN}},"files":[["a/x",3]]}',
        b'{"facts":{},"made_s":1.0,"baseline_us":{"w":{"b":Infinity}},"files":[["a/x",3]]}',
        b'{"facts":{},"made_s":NaN,"baseline_us":{},"files":[["a/x",3]]}',
        b'{"facts":{},"made_s":1e999,"baseline_us":{},"files":[["a/x",3]]}',
        b'{"facts":' * 100_000,
        b"[" * 100_000,
        b"\xff\xfe",
        b"",
    ],
)
def test_a_header_that_makes_no_sense_is_refused(path, header):
    put(path, header)
    with pytest.raises(EntryDamaged):
        read_entry(path)


@pytest.mark.parametrize("length", [0, 1, 10**6, 2**64 - 1])
def test_a_headers_length_that_is_wrong_is_refused(path, length):
    put(path, HEADER, length=length)
    with pytest.raises(EntryDamaged):
        read_entry(path)


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/x", "a//x", "a/./x", "a/x/", "", ".", "..", "a/\0", "/".join("a" * 17)]
)
def test_no_file_is_put_elsewhere(path, name):
    put(path, {**HEADER, "files": [[name, 3]]})
    with pytest.raises(EntryDamaged, match="called"):
        read_entry(path)


@pytest.mark.parametrize("make", ["symlink", "hard link", "fifo", "folder", "readable", "another user's"])
def test_only_an_own_file_counts(path, make, monkeypatch):
    other = path.with_name("other")
    write_entry(other, ENTRY)
    if make == "symlink":
        path.symlink_to(other)
    elif make == "hard link":
        os.link(other, path)
    elif make == "fifo":
        os.mkfifo(path, 0o600)
    elif make == "folder":
        path.mkdir(0o700)
    else:
        other.rename(path)
        path.chmod(0o644 if make == "readable" else 0o600)
        owner = os.getuid() + (make == "another user's")
        monkeypatch.setattr(os, "geteuid", lambda: owner)
    with pytest.raises(EntryDamaged):
        read_entry(path)


def test_too_much_is_not_kept(path, monkeypatch):
    write_entry(path, ENTRY)
    monkeypatch.setattr(cache_entry, "MOST_FILES", 2)
    with pytest.raises(EntryUnfit):
        write_entry(path, ENTRY)
    monkeypatch.setattr(cache_entry, "MOST_FILES", 3)
    monkeypatch.setattr(cache_entry, "ENTRY_CAP", path.stat().st_size - 1)
    with pytest.raises(EntryUnfit):
        write_entry(path, ENTRY)
    with pytest.raises(EntryDamaged, match="large"):
        read_entry(path)


@pytest.mark.parametrize("us", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_time_that_makes_no_sense_is_not_kept(path, us):
    with pytest.raises(EntryUnfit):
        write_entry(path, Entry({}, 0.0, {"w": {"b": us}}, {}))
    assert not list(path.parent.iterdir())


def test_whoever_reads_while_others_write_gets_one_of_them_whole(path):
    entries = [Entry({}, float(n), {}, {"a/x": bytes([n]) * 100_000}) for n in range(3)]
    write_entry(path, entries[0])
    ended = threading.Event()

    def write(entry):
        while not ended.is_set():
            write_entry(path, entry)

    writers = [threading.Thread(target=write, args=(entry,)) for entry in entries]
    for writer in writers:
        writer.start()
    try:
        for _ in range(100):
            assert read_entry(path) in entries
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_failed_write_leaves_the_old_entry_and_nothing_else(path, monkeypatch):
    write_entry(path, ENTRY)

    def full(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "replace", full)
    with pytest.raises(OSError, match="space"):
        write_entry(path, Entry({}, 0.0, {}, {}))
    assert read_entry(path) == ENTRY
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def aged(path, age_s):
    now = time.time()
    os.utime(path, (now - age_s, now - age_s))


def test_old_entries_go_and_so_do_the_oldest_of_too_many(tmp_path, monkeypatch):
    ages = {"new.kept": 0, "newer.kept": 50, "old.kept": 200, "left.kept.aa.tmp": 4000, "writing.kept.bb.tmp": 10}
    ages["somebodys.txt"] = 10_000
    for name, age_s in ages.items():
        (tmp_path / name).write_bytes(b"x" * 100)
        aged(tmp_path / name, age_s)
    clear_old(tmp_path, 100)
    left = {"new.kept", "newer.kept", "writing.kept.bb.tmp", "somebodys.txt"}
    assert {p.name for p in tmp_path.iterdir()} == left
    monkeypatch.setattr(cache_entry, "FOLDER_CAP", 200)
    clear_old(tmp_path, 100)
    assert {p.name for p in tmp_path.iterdir()} == left - {"newer.kept"}
