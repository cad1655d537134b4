"""The sandbox of a judge that is an ordinary user: namespaces by way of a user namespace, no other user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import evaluators
from evaluators.sandbox import kernel

SOMEBODY = 54_321
_SANDBOX = "tests/evaluators/sandbox"
SAME = [f"{_SANDBOX}/test_sandbox_{part}.py" for part in ("files", "network", "processes", "resources")]
"""Tests that hold for children of any judge."""
MOST_OF_THEM = 75
JUDGE = """
import json, os, sys
from pathlib import Path
from evaluators.zygote.client import Zygote
from tests.evaluators.sandbox_support import PRELOAD, refusal, request, run

scratch = Path(sys.argv[1])
(scratch / "other").mkdir()
(scratch / "other" / "data").write_text("another candidate's")
(scratch / "work").mkdir()
builder = {"role": "builder", "writable": (scratch / "work",)}
with Zygote(minimum="none", scratch=scratch, preload=PRELOAD) as zygote:
    def place(**changes):
        with zygote.spawn(request("while True: pass", **changes)) as child:
            child.stop(5.0)
            try:
                return len(open(f"/proc/{child.pid}/syscall").read().split()) > 2
            except PermissionError:
                return "refused"
    caught = "try:\\n    os.setuid(0)\\nexcept OSError:\\n    print('refused')"
    itself = "import os; os.setegid(os.getgid()); os.seteuid(os.getuid()); print('itself')"
    print(json.dumps({
        "level": zygote.layers.level,
        "missing": [f"{layer.name}: {layer.detail}" for layer in zygote.layers.missing()],
        "secret": refusal(zygote, f"open('{scratch}/other/data')"),
        "socket": refusal(zygote, "import socket; socket.socket()"),
        "fork": refusal(zygote, "import os; os.fork()"),
        "built": run(zygote, f"open('{scratch}/work/made', 'w').write('x'); print('built')", **builder).last,
        "chmod": refusal(zygote, f"import os; os.chmod('{scratch}/other/data', 0)", **builder),
        "root": run(zygote, "import os\\n" + caught, **builder).last,
        "place": place(),
        "place of one observed": place(observed=True),
        "owner": (scratch / "work" / "made").stat().st_uid,
        "itself": run(zygote, itself, **builder).last,
        "caps": run(zygote, "import os; print(os.access('/usr', os.W_OK))").last,
    }))
"""


def become_somebody() -> None:
    """In the child before exec: somebody without rights, for whom the interpreter is still within reach."""
    kernel.call("unshare", kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    for path in (Path(sys.base_prefix), Path(sys.prefix), Path(evaluators.__file__).parent.parent):
        closed = next((p for p in reversed(path.parents) if p.stat().st_mode & 0o005 != 0o005), None)
        if closed is not None:
            copy = kernel.clone_mount(str(path))
            kernel.mount("tmpfs", str(closed), "tmpfs", 0, "mode=0755")
            path.mkdir(parents=True)
            kernel.attach_mount(copy, str(path))
    os.setgroups([])
    os.setgid(SOMEBODY)
    os.setuid(SOMEBODY)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Somebody's folder, which somebody can reach."""
    if os.geteuid() != 0:
        pytest.skip("this test starts as root to become somebody else")
    scratch = Path("/var/tmp") / f"kernel-evolve-test-{os.getpid()}"
    scratch.mkdir(mode=0o700)
    os.chown(scratch, SOMEBODY, SOMEBODY)
    yield scratch
    subprocess.run(["rm", "-r", str(scratch)], check=True)


def as_somebody(scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as somebody, beside these packages."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=Path(evaluators.__file__).parent.parent,
        preexec_fn=become_somebody,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(scratch), "HOME": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_holds_for_roots_children_holds_for_an_ordinary_users(scratch: Path) -> None:
    """Files, network, processes and resources, once more, by the same tests: none may fail, and few may be left out."""
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={scratch}/made", f"--junitxml={scratch}/seen.xml"]
    done = as_somebody(scratch, "-m", "pytest", *options, *SAME)
    seen = ElementTree.parse(scratch / "seen.xml").getroot()
    left_out = {case.get("name"): case.find("skipped") for case in seen.iter("testcase")}
    reasons = {name: str(found.get("message")) for name, found in left_out.items() if found is not None}
    if len(reasons) > len(left_out) / 2:
        pytest.skip(f"this host does not let ordinary users make namespaces: {next(iter(reasons.values()))}")
    assert done.returncode == 0, done.stdout
    assert len(left_out) > MOST_OF_THEM
    assert reasons.keys() <= {"test_shared_memory_is_bounded_too"}, (
        reasons
    )  # a control group is an administrator's to give


def test_the_sandbox_of_an_ordinary_user(scratch: Path) -> None:
    judge = as_somebody(scratch, "-c", JUDGE, str(scratch))
    assert judge.returncode == 0, judge.stderr
    seen = json.loads(judge.stdout)
    if seen["level"] != "full":
        pytest.skip(f"this host does not let ordinary users make namespaces: {seen['missing']}")
    assert [line.split(":")[0] for line in seen["missing"]][-1] == "other user"
    assert seen["secret"] == "PermissionError"
    assert seen["socket"] == "PermissionError"
    assert seen["fork"] == "PermissionError"
    assert seen["built"] == "built"
    assert seen["chmod"] == "FileNotFoundError"
    assert seen["root"] == "refused"
    assert seen["itself"] == "itself"  # as make does before it starts a program
    assert seen["owner"] == SOMEBODY
    assert seen["caps"] == "False"
    assert (seen["place"], seen["place of one observed"]) == ("refused", True)
