"""The sandbox of a judge that is an ordinary user: namespaces by way of a user namespace, no other user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import evaluators
from evaluators.sandbox import kernel

SOMEBODY = 54_321
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


def test_the_sandbox_of_an_ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.geteuid() != 0:
        pytest.skip("this test starts as root to become somebody else")
    scratch = Path("/var/tmp") / f"kernel-evolve-test-{os.getpid()}"
    scratch.mkdir(mode=0o700)
    os.chown(scratch, SOMEBODY, SOMEBODY)
    try:
        judge = subprocess.run(
            [sys.executable, "-c", JUDGE, str(scratch)],
            cwd=Path(evaluators.__file__).parent.parent,
            preexec_fn=become_somebody,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["rm", "-r", str(scratch)], check=True)
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
    assert seen["owner"] == SOMEBODY
    assert seen["caps"] == "False"
    assert (seen["place"], seen["place of one observed"]) == ("refused", True)
