"""The parts of the sandbox that can be looked at from outside."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from evaluators.sandbox import cgroups
from evaluators.sandbox.identity import choose_identities
from evaluators.sandbox.report import Layer, LayerName, SandboxReport, meets
from evaluators.sandbox.view import base_view, cover, package_paths
from evaluators.zygote.client import Zygote
from evaluators.zygote.wire import receive_message, send_message

WHOLE = "0 0 4294967295"


def report(*active: LayerName) -> SandboxReport:
    return SandboxReport(tuple(Layer(name, name in active) for name in LayerName))


CORE = (LayerName.SECCOMP, LayerName.NO_NEW_PRIVILEGES, LayerName.RESOURCE_LIMITS)
SPACES = (
    LayerName.PID_NAMESPACE,
    LayerName.NETWORK_NAMESPACE,
    LayerName.IPC_NAMESPACE,
    LayerName.MOUNT_NAMESPACE,
)


def test_levels() -> None:
    assert report(*CORE, *SPACES, LayerName.LANDLOCK).level == "full"
    assert report(*CORE, *SPACES, LayerName.OTHER_USER).level == "reduced"
    assert report(*CORE, LayerName.LANDLOCK).level == "reduced"
    assert report(*CORE).level == "none"
    assert report(*SPACES, LayerName.LANDLOCK).level == "none"
    for missing in (*CORE, *SPACES, LayerName.LANDLOCK):
        rest = {*CORE, *SPACES, LayerName.LANDLOCK} - {missing}
        assert report(*rest).level != "full"
    assert [meets(level, "reduced") for level in ("none", "reduced", "full")] == [False, True, True]


def test_a_report_survives_the_wire() -> None:
    before = SandboxReport((Layer(LayerName.LANDLOCK, True, "ABI 7"), Layer(LayerName.SECCOMP, False, "why")))
    assert SandboxReport.from_json(before.to_json()) == before


def test_a_zygote_tells_every_layer_once(tmp_path: Path) -> None:
    with Zygote(minimum="none", scratch=tmp_path, preload=()) as zygote:
        found = zygote.layers
    assert [layer.name for layer in found.layers] == list(LayerName)
    assert all(layer.detail for layer in found.missing())
    assert found.active(LayerName.RESOURCE_LIMITS)


def test_users_come_from_where_nobody_else_s_are() -> None:
    first, second = choose_identities(WHOLE, WHOLE, salt=1), choose_identities(WHOLE, WHOLE, salt=2)
    assert first is not None
    assert second is not None
    assert not set(range(first.base, first.base + first.count)) & set(range(second.base, second.base + second.count))
    numbers = [first.next() for _ in range(first.count)]
    assert len(set(numbers)) == first.count
    assert first.next() == numbers[0]


def test_users_in_containers() -> None:
    container = choose_identities("0 100000 65536", "0 100000 65536", salt=5)
    assert container is not None
    assert container.base + container.count <= 65536
    assert choose_identities("0 1000 1", "0 1000 1", salt=5) is None
    nobody = choose_identities("0 1000 1\n65534 200000 1", "0 1000 1\n65534 200000 1", salt=5)
    assert nobody is not None
    assert (nobody.base, nobody.count) == (65534, 1)


def mountinfo(tmp_path: Path, *rows: tuple[str, str, str, str]) -> str:
    return "\n".join(
        f"30 20 0:26 {root} {tmp_path}{point} rw - {kind} x rw,{options}" for root, point, kind, options in rows
    )


def test_groups_of_version_1_go_below_our_own(tmp_path: Path) -> None:
    mounts = mountinfo(tmp_path, ("/", "/memory", "cgroup", "memory"), ("/", "/pids", "cgroup", "pids"))
    found = cgroups.find_hierarchies(("memory", "pids"), mounts, "8:pids:/\n4:memory:/a/b\n0::/")
    assert [(h.version, h.base, set(h.controllers)) for h in found] == [
        (1, tmp_path / "memory/a/b", {"memory"}),
        (1, tmp_path / "pids", {"pids"}),
    ]


@pytest.mark.parametrize(
    ("own", "root", "base"),
    [("/", "/", ""), ("/user.slice/run.scope", "/", "user.slice"), ("/docker/x/run", "/docker/x", "")],
)
def test_groups_of_version_2_go_beside_our_own(tmp_path: Path, own: str, root: str, base: str) -> None:
    (tmp_path / base).mkdir(exist_ok=True)
    (tmp_path / base / "cgroup.controllers").write_text("cpu memory pids")
    mounts = mountinfo(tmp_path, (root, "", "cgroup2", "nsdelegate"))
    (found,) = cgroups.find_hierarchies(("memory", "pids"), mounts, f"0::{own}")
    assert (found.version, found.base) == (2, tmp_path / base)
    assert found.controllers == {"memory", "pids"}


def test_a_group_of_version_2(tmp_path: Path) -> None:
    """The files written, by name and content; a kernel with version 2 says what they mean."""
    (tmp_path / "cgroup.subtree_control").write_text("")
    hierarchy = cgroups.Hierarchy(2, tmp_path, frozenset({"memory", "pids"}))
    with pytest.raises(FileNotFoundError):  # a plain folder does not fill itself with files as a hierarchy does
        cgroups.ChildGroup([cgroups.Parent(hierarchy)], "1", 1 << 20, 5)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"


def test_stale_groups_are_told_by_their_owner(tmp_path: Path) -> None:
    (tmp_path / "kernel-evolve-1-0-abc" / "7").mkdir(parents=True)  # process 1 did not start at 0 and is not ours
    (tmp_path / "kernel-evolve-999999999-5-abc").mkdir()
    parent = cgroups.Parent(cgroups.Hierarchy(1, tmp_path, frozenset({"pids"})))
    assert len(list(tmp_path.iterdir())) == 1
    cgroups.Parent(cgroups.Hierarchy(1, tmp_path, frozenset({"pids"})))
    assert len(list(tmp_path.iterdir())) == 2
    parent.remove_all()
    assert len(list(tmp_path.iterdir())) == 1


def test_no_hierarchy_is_no_error() -> None:
    assert cgroups.find_hierarchies(("memory",), "20 1 0:20 / / rw - ext4 x rw", "0::/") == []


def test_cover_leaves_out_what_is_excluded(tmp_path: Path) -> None:
    for name in ("a/b/keep", "a/b/drop/x", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    covered = set(cover([tmp_path / "a", tmp_path / "d"], [tmp_path / "a/b/drop"]))
    assert covered == {tmp_path / "a/b/keep", tmp_path / "a/c", tmp_path / "d"}
    assert cover([tmp_path / "a/b/drop/x"], [tmp_path / "a/b/drop"]) == []
    (tmp_path / "link").symlink_to("a/b/drop")
    assert cover([tmp_path / "link"], [tmp_path / "a/b/drop"]) == []


def test_package_names_are_names(tmp_path: Path) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy.libs").mkdir()
    assert package_paths([tmp_path], "numpy") == [tmp_path / "numpy", tmp_path / "numpy.libs"]
    for name in ("nothing", "..", "../etc", "/etc", "a/b", ""):
        with pytest.raises(FileNotFoundError, match="not installed"):
            package_paths([tmp_path], name)


def test_the_base_view_shows_no_home_and_no_whole_package_folder() -> None:
    view = base_view()
    shown = [*view.libraries, *view.tools]
    for packages in view.packages:
        assert not any(packages.is_relative_to(path) for path in cover(shown, (*view.packages, *view.hidden)))
    assert Path.home() not in view.binds
    assert not any(path.is_relative_to("/etc") for path in view.libraries if path != Path("/etc/ld.so.cache"))


def test_messages_arrive_whole_with_their_descriptors(tmp_path: Path) -> None:
    left, right = socket.socketpair()
    with left, right, (tmp_path / "file").open("w") as file:
        send_message(left, {"n": 1}, (file.fileno(),))
        send_message(left, {"n": 2, "text": "x" * 10_000})
        first, second = receive_message(right), receive_message(right)
        assert first is not None
        assert first[0] == {"n": 1}
        with open(first[1][0], "w") as copy:
            copy.write("written")
        assert second == ({"n": 2, "text": "x" * 10_000}, [])
        left.sendall(b"\0\0")
        left.close()
        with pytest.raises(ConnectionError):
            receive_message(right)
    assert (tmp_path / "file").read_text() == "written"
