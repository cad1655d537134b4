"""Calls a program once on arguments that lie in files. A script that needs nothing of ours: profilers start it.

    python drive.py FOLDER

``FOLDER/order.json`` says what to call; inputs are files beside it. Every argument is an allocation of its own, exactly
as large as it must be, so that a sanitizer sees what lies beyond. What comes out is looked at by nobody.
"""

# ruff: noqa: PLC0415

import ctypes
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Call what the order says; the exit status."""
    folder = Path(sys.argv[1])
    order = json.loads((folder / "order.json").read_text())
    calls = order.get("calls", 1)
    if order["language"] == "cuda":
        return drive_shared_object(folder, order, calls)
    return drive_python(folder, order, calls)


def drive_shared_object(folder: Path, order: dict[str, Any], calls: int) -> int:
    """``extern "C" void ENTRY(pointers, axes, stream)`` on the default stream of the primary context."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, device = ctypes.c_void_p(), ctypes.c_int()
    check(cuda, cuda.cuInit(0))
    check(cuda, cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda, cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda, cuda.cuCtxSetCurrent(context))
    pointers, changed = [], []
    for argument in order["arguments"]:
        address = ctypes.c_ulonglong()
        size = ctypes.c_size_t(max(argument["nbytes"], 1))
        check(cuda, cuda.cuMemAlloc_v2(ctypes.byref(address), size))
        if argument["file"]:
            content = (folder / argument["file"]).read_bytes()
            check(cuda, cuda.cuMemcpyHtoD_v2(address, content, ctypes.c_size_t(len(content))))
            if argument["changed"]:
                changed.append((address, content))
        pointers.append(ctypes.c_void_p(address.value))
    entry = getattr(ctypes.CDLL(str(folder / order["program"])), order["entry"])
    for _ in range(calls):
        for address, content in changed:  # every call meets what it was given, not what the last one made of it
            check(cuda, cuda.cuMemcpyHtoD_v2(address, content, ctypes.c_size_t(len(content))))
        entry(*pointers, *(ctypes.c_int64(value) for value in order["scalars"]), ctypes.c_void_p(0))
    check(cuda, cuda.cuCtxSynchronize())
    return 0


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


def drive_python(folder: Path, order: dict[str, Any], calls: int) -> int:
    """``def ENTRY(tensors, axes)`` over torch tensors."""
    sys.meta_path.insert(0, Granted([*order["packages"], Path(order["program"]).stem]))
    import torch

    tensors, changed = [], []
    for argument in order["arguments"]:
        dtype = getattr(torch, argument["torch_dtype"])
        if argument["file"]:
            content = bytearray((folder / argument["file"]).read_bytes())
            host = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
            tensors.append(host.to("cuda").view(dtype).reshape(argument["shape"]))
            if argument["changed"]:
                changed.append((tensors[-1], tensors[-1].clone()))
        else:
            tensors.append(torch.empty(argument["shape"], dtype=dtype, device="cuda"))
    sys.path.insert(0, str(folder))
    entry = getattr(importlib.import_module(Path(order["program"]).stem), order["entry"])
    for _ in range(calls):
        for tensor, content in changed:
            tensor.copy_(content)
        entry(*tensors, *order["scalars"])
    torch.cuda.synchronize()
    return 0


def check(cuda: ctypes.CDLL, code: int) -> None:
    """End where the driver refuses."""
    if code != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        sys.stderr.write(f"{(text.value or b'unknown error').decode()}\n")
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
