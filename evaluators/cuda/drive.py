"""Calls a program on arguments that lie in files. A script that needs nothing of ours: profilers start it.

    python drive.py FOLDER

``FOLDER/order.json`` says what to call, and on which examples, one after another; inputs are files beside it. Every
argument is an allocation of its own, exactly as large as it must be, so that a sanitizer sees what lies beyond, and is
given back before the next example. What comes out is looked at by nobody.

Whatever can be imported and compiled without the device and without the program comes first. Then it waits until a
byte can be read from the pipe ``FOLDER/gate``: the device may be somebody else's until then.
"""

# ruff: noqa: PLC0415

import ctypes
import importlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

GATE, OPEN = "gate", b"+"
"""The pipe's name, and what opens the gate."""
DEVICES = "devices.json"


def main() -> int:
    """Call what the order says; the exit status."""
    folder = Path(sys.argv[1])
    order = json.loads((folder / "order.json").read_text())
    drive = drive_shared_object if order["language"] == "cuda" else drive_python(folder, order)
    (folder / DEVICES).write_text(json.dumps(open_devices()))
    if (folder / GATE).open("rb", buffering=0).read(1) != OPEN:
        return 1
    return drive(folder, order)


def open_devices() -> list[str] | None:
    """What the processes of this box hold open below ``/dev``, the tool's too; ``None`` where that cannot be seen."""
    found = set()
    try:
        processes = [name for name in os.listdir("/proc") if name.isdecimal()]
        for process in processes:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                for descriptor in os.listdir(f"/proc/{process}/fd"):
                    with suppress(FileNotFoundError):
                        found.add(os.readlink(f"/proc/{process}/fd/{descriptor}"))
    except OSError:
        return None
    return sorted(name for name in found if name.startswith("/dev/")) if processes else None


def drive_shared_object(folder: Path, order: dict[str, Any]) -> int:
    """``extern "C" void ENTRY(pointers, axes, stream)`` on the default stream of the primary context."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, device = ctypes.c_void_p(), ctypes.c_int()
    check(cuda, cuda.cuInit(0))
    check(cuda, cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda, cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda, cuda.cuCtxSetCurrent(context))
    entry = None
    for example in order["examples"]:
        held = [_allocated(cuda, folder, argument) for argument in example["arguments"]]
        if entry is None:
            entry = getattr(ctypes.CDLL(str(folder / order["program"])), order["entry"])
        pointers = [ctypes.c_void_p(address.value) for address, _ in held]
        scalars = [ctypes.c_int64(value) for value in example["scalars"]]
        for _ in range(order.get("calls", 1)):
            for argument, (address, content) in zip(example["arguments"], held, strict=True):
                if (
                    argument["changed"] and content
                ):  # every call meets what it was given, not what the last one made of it
                    check(cuda, cuda.cuMemcpyHtoD_v2(address, content, ctypes.c_size_t(len(content))))
            entry(*pointers, *scalars, ctypes.c_void_p(0))
        check(cuda, cuda.cuCtxSynchronize())
        for address, _ in held:
            check(cuda, cuda.cuMemFree_v2(address))
    return 0


def _allocated(cuda: ctypes.CDLL, folder: Path, argument: dict[str, Any]) -> tuple[ctypes.c_ulonglong, bytes]:
    """An argument's address, and what was written there."""
    address, content = ctypes.c_ulonglong(), b""
    check(cuda, cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(argument["nbytes"], 1))))
    if argument["file"]:
        content = (folder / argument["file"]).read_bytes()
        check(cuda, cuda.cuMemcpyHtoD_v2(address, content, ctypes.c_size_t(len(content))))
    return address, content


_BUILD_FACTS = "_sysconfigdata_"
"""What ``sysconfig`` imports, under a name that differs from platform to platform."""


class Granted:
    """Of what is installed here only some can be read; what tries whether there is more must not find it."""

    def __init__(self, names: list[str]) -> None:
        self._names = {*sys.stdlib_module_names, *names}

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Leave known names to the other finders."""
        top = name.partition(".")[0]
        if top not in self._names and not top.startswith(_BUILD_FACTS):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def drive_python(folder: Path, order: dict[str, Any]) -> Callable[[Path, dict[str, Any]], int]:
    """Import what the program will, and nothing of the program's; returns what calls it."""
    sys.meta_path.insert(0, Granted([*order["packages"], Path(order["program"]).stem]))
    import torch  # noqa: F401

    if order["language"] == "triton":
        warm_triton(folder / "utilities")
    return call_python


def warm_triton(folder: Path) -> None:
    """Import Triton, and have it compile what every launch needs: in a folder that no program has written to."""
    from triton.backends.nvidia import driver

    folder.mkdir()
    cache = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = str(folder)
    try:
        driver.CudaUtils()  # a C module; no call of CUDA
    except (AssertionError, OSError):
        return  # no driver on this machine: the program itself will say so
    finally:
        del os.environ["TRITON_CACHE_DIR"]
        if cache is not None:
            os.environ["TRITON_CACHE_DIR"] = cache
    driver.CudaUtils.__init__ = _already_there


def _already_there(self: object) -> None:
    """In place of the constructor of an object of which there is only one."""


def call_python(folder: Path, order: dict[str, Any]) -> int:
    """``def ENTRY(tensors, axes)`` over torch tensors."""
    import torch

    entry = None
    for example in order["examples"]:
        tensors = [_tensor(folder, argument) for argument in example["arguments"]]
        changed = [
            (tensor, tensor.clone())
            for tensor, argument in zip(tensors, example["arguments"], strict=True)
            if argument["changed"]
        ]
        if entry is None:
            sys.path.insert(0, str(folder))
            entry = getattr(importlib.import_module(Path(order["program"]).stem), order["entry"])
        for _ in range(order.get("calls", 1)):
            for tensor, content in changed:
                tensor.copy_(content)
            entry(*tensors, *example["scalars"])
        torch.cuda.synchronize()
        del tensors, changed
    return 0


def _tensor(folder: Path, argument: dict[str, Any]) -> Any:
    import torch

    dtype = getattr(torch, argument["torch_dtype"])
    if not argument["file"]:
        return torch.empty(argument["shape"], dtype=dtype, device="cuda")
    content = bytearray((folder / argument["file"]).read_bytes())
    host = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    return host.to("cuda").view(dtype).reshape(argument["shape"])


def check(cuda: ctypes.CDLL, code: int) -> None:
    """End where the driver refuses."""
    if code != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        sys.stderr.write(f"{(text.value or b'unknown error').decode()}\n")
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
