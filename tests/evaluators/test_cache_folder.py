"""A folder that is kept must be this user's alone, and nobody else may put another in its place."""

import os
import stat
from types import SimpleNamespace

import pytest

from evaluators import cache_folder
from evaluators.cache_folder import OFF, VARIABLE, CacheUnusable, open_cache_folder


@pytest.fixture
def home(tmp_path):
    made = tmp_path / "home"
    made.mkdir(mode=0o755)
    return made


def opened(home, **others):
    return open_cache_folder("baselines", {"HOME": str(home), **others})


def test_it_lies_in_the_users_own_cache_and_is_closed_to_others(home):
    old = os.umask(0)
    try:
        folder = opened(home)
    finally:
        os.umask(old)
    assert folder == home.resolve() / ".cache" / "kernel-evolve" / "baselines"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert opened(home) == folder


def test_it_can_be_moved_and_switched_off(home, tmp_path):
    assert opened(home, XDG_CACHE_HOME=str(tmp_path / "xdg")) == tmp_path / "xdg" / "kernel-evolve" / "baselines"
    moved = {VARIABLE: str(tmp_path / "mine"), "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    assert opened(home, **moved) == tmp_path / "mine" / "baselines"
    assert opened(home, **{VARIABLE: OFF}) is None
    assert not (home / ".cache").exists()


@pytest.mark.parametrize("environment", [{}, {"HOME": "here"}, {"XDG_CACHE_HOME": "../x"}, {VARIABLE: "x"}])
def test_where_no_place_is_named_there_is_none(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CacheUnusable):
        open_cache_folder("baselines", environment)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_open_to_others_is_refused(home):
    folder = opened(home)
    folder.chmod(0o750)
    with pytest.raises(CacheUnusable, match="chmod 700"):
        opened(home)


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
@pytest.mark.parametrize("above", [1, 2, 3])
def test_a_parent_that_others_can_write_is_refused(home, above, mode):
    parent = opened(home).parents[above - 1]
    parent.chmod(mode)
    with pytest.raises(CacheUnusable, match="chmod go-w"):
        opened(home)
    parent.chmod(mode | stat.S_ISVTX)  # as /tmp: others can add to it, and replace nothing
    assert opened(home)


@pytest.mark.parametrize("above", [0, 1, 3])
def test_a_folder_that_sandboxed_programs_see_is_refused(home, monkeypatch, above):
    folder = opened(home)
    shown = [folder, *folder.parents][above]
    monkeypatch.setattr(cache_folder, "base_view", lambda: SimpleNamespace(binds=(home / "lib", shown)))
    with pytest.raises(CacheUnusable, match="programs see"):
        opened(home)


def test_another_users_folder_is_refused(home, monkeypatch):
    opened(home)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CacheUnusable, match="another user"):
        opened(home)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_parent_of_another_user_is_refused(home):
    opened(home)
    os.chown(home, 65534, -1)
    with pytest.raises(CacheUnusable, match="who can replace"):
        opened(home)


def test_a_link_in_its_place_is_refused_and_one_above_is_followed_once(home, tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (home / ".cache").symlink_to(real)
    assert opened(home) == real.resolve() / "kernel-evolve" / "baselines"
    opened(home).rmdir()
    (real / "kernel-evolve" / "baselines").symlink_to(tmp_path / "home")
    with pytest.raises(CacheUnusable, match="no folder"):
        opened(home)


@pytest.mark.parametrize("place", [".cache", ".cache/kernel-evolve", ".cache/kernel-evolve/baselines"])
def test_a_file_or_a_circle_of_links_in_its_place_is_refused(home, place):
    at = home / place
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text("")
    with pytest.raises(CacheUnusable):
        opened(home)
    at.unlink()
    at.symlink_to(at.name)
    with pytest.raises(CacheUnusable):
        opened(home)
