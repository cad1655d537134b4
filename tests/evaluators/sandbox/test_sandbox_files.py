"""Files: what a candidate can see, read and change."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from pathlib import Path

import click
import pytest

import evaluators
from evaluators.zygote.client import Zygote
from tests.evaluators.sandbox_support import folder, refusal, run

ROLES = ["runner", "builder"]


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elsewhere") / "secret"
    path.write_text("sk-secret")
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("role", ROLES)
def test_the_host_s_files_do_not_exist(zygote: Zygote, secret: Path, role: str) -> None:
    paths = [secret, Path("/etc/passwd"), Path("/etc/hostname"), Path("/root"), Path("/proc/self"), Path("/sys")]
    paths += [Path("/dev/shm"), Path("/tmp/x"), Path(evaluators.__file__), Path.home() / ".bashrc", Path("/.old")]
    code = "import os; print([p for p in payload['paths'] if os.path.lexists(p)])"
    seen = run(zygote, code, role, payload={"code": code, "paths": [str(p) for p in paths]})
    assert seen.last in {"[]", "['/root']"}  # /root is there, empty, where this Python lives below it


@pytest.mark.parametrize("role", ROLES)
def test_nothing_can_be_listed_from_the_root(zygote: Zygote, role: str) -> None:
    assert refusal(zygote, "import os; os.listdir('/')", role) == "PermissionError"


def test_scratch_shows_only_what_was_named(zygote: Zygote, scratch: Path) -> None:
    mine = folder(scratch, "mine", data="hello")
    other = folder(scratch, "other", data="another candidate's")
    assert run(zygote, f"print(open('{mine}/data').read())", readable=(mine,)).last == "hello"
    assert refusal(zygote, f"open('{other}/data')", readable=(mine,)) == "PermissionError"
    assert refusal(zygote, f"import os; os.listdir('{scratch}')", readable=(mine,)) == "PermissionError"
    # A builder could change modes and times where it can look, so it has a view of its own.
    assert refusal(zygote, f"import os; os.stat('{other}')", "builder", readable=(mine,)) == "FileNotFoundError"


def test_a_runner_writes_nowhere(zygote: Zygote, scratch: Path) -> None:
    mine = folder(scratch, "writable_by_all", data="hello")
    mine.chmod(0o777)
    (mine / "data").chmod(0o666)
    code = """
    import os
    for path in payload["paths"]:
        for flags in (os.O_CREAT | os.O_WRONLY, os.O_RDWR, os.O_TMPFILE | os.O_RDWR):
            try:
                os.open(path, flags)
            except OSError:
                continue
            print("opened", path)
    for attempt in (os.mkdir, os.unlink, os.rmdir):
        try:
            attempt(payload["paths"][1])
        except OSError:
            continue
        print("changed by", attempt)
    print("end")
    """
    paths = ["/new", f"{mine}/data", f"{mine}/new", str(mine), f"{scratch}/new", "/usr/new", "/dev/new", "/tmp/new"]
    outcome = run(zygote, code, readable=(mine,), payload={"code": textwrap.dedent(code), "paths": paths})
    assert outcome.text == "end\n"
    assert (mine / "data").read_text() == "hello"


def test_a_builder_changes_its_own_folder_and_nothing_else(zygote: Zygote, scratch: Path) -> None:
    work, given = folder(scratch, "work", source="int x;"), folder(scratch, "given", header="// h")
    code = f"""
    import os, tempfile
    os.chdir("{work}")
    open("made", "w").write(open("source").read() + open("{given}/header").read())
    os.mkdir("sub"); os.rename("made", "sub/made"); os.symlink("sub", "link"); os.chmod("source", 0o600)
    print(tempfile.gettempdir())
    """
    assert run(zygote, code, "builder", readable=(given,), writable=(work,)).last == str(work)
    assert (work / "link" / "made").read_text() == "int x;// h"
    for path in (f"{given}/header", f"{given}/new", f"{scratch}/new", "/usr/lib/new", "/new", "/dev/new"):
        refusal(zygote, f"open('{path}', 'w')", "builder", readable=(given,), writable=(work,))
        refusal(zygote, f"import os; os.chmod('{path}', 0o777)", "builder", readable=(given,), writable=(work,))
        refusal(zygote, f"import os; os.utime('{path}', (0, 0))", "builder", readable=(given,), writable=(work,))
    assert (given / "header").read_text() == "// h"


def test_links_lead_nowhere(zygote: Zygote, scratch: Path, secret: Path) -> None:
    work, other = folder(scratch, "linking"), folder(scratch, "linked", data="another candidate's")
    run(
        zygote,
        f"import os; os.symlink('{secret}', '{work}/s'); os.symlink('{other}/data', '{work}/o')",
        "builder",
        writable=(work,),
    )
    for name in ("s", "o"):
        refusal(zygote, f"open('{work}/{name}')", readable=(work,))
        refusal(zygote, f"open('{work}/{name}')", "builder", readable=(work,))
    for target in ("/usr/bin/env", f"{other}/data"):
        refusal(zygote, f"import os; os.link('{target}', '{work}/hard')", "builder", writable=(work,))


def test_no_device_can_be_made_and_only_harmless_ones_exist(zygote: Zygote, scratch: Path) -> None:
    work = folder(scratch, "devices")
    refusal(zygote, f"import os; os.mknod('{work}/sda', 0o60600, os.makedev(8, 0))", "builder", writable=(work,))
    refusal(zygote, f"import os; os.mknod('{work}/mem', 0o20600, os.makedev(1, 1))", "builder", writable=(work,))
    names = ["mem", "kmsg", "ptmx", "tty", "sda", "vda", "fuse", "kvm", "nvidia0", "shm", "mqueue"]
    code = f"import os; print([n for n in {names} if os.path.exists('/dev/' + n)])"
    assert run(zygote, code).last == "[]"
    assert run(zygote, "open('/dev/null', 'w').write('x'); print(len(open('/dev/urandom', 'rb').read(8)))").last == "8"


def test_programs_with_the_setuid_bit_gain_nothing(zygote: Zygote, scratch: Path) -> None:
    work = folder(scratch, "setuid")
    code = f"""
    import os, shutil, subprocess
    shutil.copy("/usr/bin/id", "{work}/id"); os.chmod("{work}/id", 0o6755)
    print(subprocess.run(["{work}/id", "-u"], capture_output=True, text=True).stdout.strip(), os.getuid(), os.geteuid())
    print(os.statvfs("{work}").f_flag & os.ST_NOSUID, os.statvfs("/usr").f_flag & (os.ST_NOSUID | os.ST_RDONLY))
    """
    users, flags = run(zygote, code, "builder", writable=(work,)).text.strip().splitlines()
    assert len(set(users.split())) == 1
    assert "0" not in users.split()
    assert flags == f"{os.ST_NOSUID} {os.ST_NOSUID | os.ST_RDONLY}"


def test_only_granted_packages_can_be_imported(zygote: Zygote) -> None:
    assert run(zygote, "import click; print(click.__name__)", python_packages=("click",)).last == "click"
    assert refusal(zygote, "import click") == "ModuleNotFoundError"
    assert refusal(zygote, "import pytest", python_packages=("click",)) == "ModuleNotFoundError"
    home = Path(click.__file__)
    assert refusal(zygote, f"open('{home}')") == "PermissionError"
    assert refusal(zygote, f"import sys; sys.path.append('{home.parent.parent}'); import click") != "DONE"


def test_granted_numpy_works_after_the_sandbox_is_closed(zygote: Zygote) -> None:
    code = """
    import numpy.linalg, numpy.fft, numpy.polynomial, decimal, zoneinfo
    import numpy as np
    print(round(float(np.linalg.det(np.eye(3) * 2))))
    """
    assert run(zygote, code, python_packages=("numpy",)).last == "8"


def test_neither_modules_nor_arguments_show_the_judge_s_folders(zygote: Zygote) -> None:
    code = "import sys, json; print(json.dumps([sys.path, sys.argv, dict(__import__('os').environ)]))"
    path, arguments, environment = json.loads(run(zygote, code).last)
    root = str(Path(evaluators.__file__).parent.parent)
    assert root not in path
    assert environment == {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    assert arguments == [""]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_a_compiler_works_in_a_builder_and_its_output_in_a_runner(zygote: Zygote, scratch: Path) -> None:
    source = """
    #include <omp.h>
    #include <thread>
    #include <vector>
    #include <numeric>
    extern "C" int count() {
        int n = 0;
        #pragma omp parallel for reduction(+ : n) num_threads(2)
        for (int i = 0; i < 1000; ++i) n += 1;
        std::vector<std::thread> threads;
        std::vector<int> parts(4);
        for (int t = 0; t < 4; ++t) threads.emplace_back([&, t] { parts[t] = t; });
        for (auto& t : threads) t.join();
        return n + std::accumulate(parts.begin(), parts.end(), 0);
    }
    """
    work = folder(scratch, "compile")
    (work / "a.cpp").write_text(source)
    code = f"""
    import subprocess
    flags = "-O2 -fopenmp -shared -fPIC -flto=auto -o a.so".split()
    subprocess.run(["g++", *flags, "a.cpp"], cwd="{work}", check=True)
    """
    built = run(zygote, code, "builder", writable=(work,))
    assert (built.text, built.status.code) == ("", 0)
    ran = run(zygote, f"import ctypes; print(ctypes.CDLL('{work}/a.so').count())", readable=(work,))
    assert ran.last == "1006"


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_a_compiler_cannot_read_the_host_for_a_candidate(zygote: Zygote, scratch: Path, secret: Path) -> None:
    work = folder(scratch, "including")
    lines = [f'#include "{secret}"', '#include "/etc/passwd"', f'asm(".incbin \\"{secret}\\"");']
    (work / "a.cpp").write_text("\n".join(lines))
    code = f"import subprocess; subprocess.run(['g++', '-c', 'a.cpp'], cwd='{work}')"
    text = run(zygote, code, "builder", writable=(work,)).text
    assert "sk-secret" not in text
    assert "root:" not in text
    assert "No such file" in text
