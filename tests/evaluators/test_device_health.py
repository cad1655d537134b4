"""Whose fault a failure on a GPU is: what the driver says and what the judge's own work comes to."""

import os
import shutil
import subprocess

import pytest

from evaluators.cuda import nvml
from evaluators.cuda.health import DeviceSick, Health, quarantine, refuse_quarantined
from evaluators.cuda.nvml import NvmlUnavailable, XidEvents, _merged
from evaluators.cuda.xids import DEVICE, PROGRAM, Xid, parse_kernel_line
from evaluators.errors import JudgeError, UsageError

UUID = "GPU-00000000-1111-2222-3333-444444444444"
LINE = (
    "3,1042,123456,-;NVRM: Xid (PCI:0000:0a:00): 31, pid=812, name=python3, channel 0x00000008, intr 00000000. "
    "MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ 0x0_00000000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
)


NVML = """
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return "no"; }
int nvmlSystemGetDriverVersion(char* version, unsigned length) { return %s; }
"""


@pytest.mark.parametrize(
    ("answer", "version"),
    [('(strncpy(version, "580.82.07", length), 0)', "580.82.07"), ("(version[0] = 0, 0)", None), ("3", None)],
)
def test_the_drivers_version_is_its_own_word_or_unknown(tmp_path, monkeypatch, answer, version):
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    library = tmp_path / "nvml.so"
    source = NVML % answer
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    monkeypatch.setattr(nvml, "_LIBRARY", str(library))
    assert nvml.driver_version() == version
    monkeypatch.setattr(nvml, "_LIBRARY", str(tmp_path / "none.so"))
    assert nvml.driver_version() is None


class Device:
    """Memory that a checksum of our own finds right or wrong, after so many milliseconds."""

    def __init__(self, sums=(7,), times_ms=(0.1,)):
        self.sums, self.times_ms = list(sums), list(times_ms)
        self.driver = self

    def allocate(self, size):
        return 4096

    def call(self, name, *arguments):
        if self.sums[0] is None:
            raise JudgeError("the device is sick: cuLaunchKernel: unspecified launch failure (719)")

    def start_clock(self):
        pass

    def stop_clock(self):
        return self.times_ms.pop(0) if len(self.times_ms) > 1 else self.times_ms[0]

    def checksum(self, *place):
        return self.sums.pop(0) if len(self.sums) > 1 else self.sums[0]


class Said:
    def __init__(self, *numbers):
        self.numbers = numbers

    def since(self, wait_s=0.0):
        return [Xid(n) for n in self.numbers] if wait_s else []


@pytest.fixture(autouse=True)
def marks_of_our_own(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("number", sorted(PROGRAM))
def test_an_error_that_a_program_brings_about_is_the_programs(number):
    found = Health(Device(), Said(number), UUID).after_failure()
    assert f"Xid {number}" in str(found)
    refuse_quarantined(UUID)


@pytest.mark.parametrize("number", sorted(DEVICE))
def test_an_error_of_the_device_quarantines_it_whatever_else_was_said(number):
    health = Health(Device(), Said(31, number, 45), UUID)
    with pytest.raises(DeviceSick, match=f"Xid {number} "):
        health.after_failure()
    with pytest.raises(UsageError, match=f"{UUID} is quarantined.*Xid {number}.*remove "):
        refuse_quarantined(UUID)


def test_no_number_is_both_a_programs_and_a_devices():
    assert not set(PROGRAM) & set(DEVICE)


def test_a_number_that_nobody_knows_convicts_neither():
    assert "catalogue" in str(Health(Device(), Said(999), UUID).after_failure())


def test_memory_that_does_not_hold_what_was_written_is_a_sick_device():
    device = Device(sums=(7, 7, 7, 7, 8))
    with pytest.raises(DeviceSick, match="does not hold"):
        Health(device, None, UUID).after_failure()


def test_a_device_on_which_nothing_runs_any_more_is_sick():
    device = Device()
    health = Health(device, None, UUID)
    device.sums = [None]
    with pytest.raises(DeviceSick, match="own kernels fail"):
        health.after_failure()


def test_work_that_a_killed_program_left_is_waited_for(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda s: None)
    Health(Device(times_ms=(0.1, 0.1, 0.1, 0.1, 90, 90, 0.1)), None, UUID).after_failure()


def test_a_device_that_stays_slow_is_no_candidates_fault_and_not_quarantined(monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr("time.sleep", lambda s: None)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    health = Health(Device(times_ms=(0.1, 0.1, 0.1, 0.1, 90)), None, UUID)
    with pytest.raises(DeviceSick, match=r"take 90 ms instead of 0\.1 ms"):
        health.after_failure()
    refuse_quarantined(UUID)


def test_a_mark_is_a_line_with_a_date_and_goes_by_removing_it(tmp_path):
    line = quarantine(UUID, "Xid 79 (the device has fallen off the bus)")
    assert "\n" not in line
    (mark,) = tmp_path.iterdir()
    assert str(mark) in line
    assert os.stat(mark).st_mode & 0o022 == 0
    mark.unlink()
    refuse_quarantined(UUID)


def planted(tmp_path, make):
    """Something under a name that marks of this device may have."""
    make(tmp_path / f"kernel-evolve-{UUID}-{os.getuid()}.quarantine")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        os.mkfifo,
        lambda path: path.mkdir(),
        lambda path: os.link(path.parent / "mine", path),
        pytest.param(
            lambda path: (path.write_text("Xid 79"), os.chown(path, 65534, 65534)),
            marks=pytest.mark.skipif(os.getuid() != 0, reason="takes two users"),
        ),
    ],
    ids=["link", "pipe", "folder", "second name", "another user's file"],
)
def test_what_others_put_among_the_marks_neither_makes_one_nor_keeps_one_from_being_made(tmp_path, make):
    (tmp_path / "mine").write_text("secret")
    planted(tmp_path, make)
    refuse_quarantined(UUID)
    line = quarantine(UUID, "Xid 48")
    with pytest.raises(UsageError, match="Xid 48") as caught:
        refuse_quarantined(UUID)
    assert str(caught.value).endswith(line.rpartition(" ")[2])


def test_a_device_that_cannot_be_marked_is_said_to_be_sick_all_the_same(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    assert "could not be quarantined" in quarantine(UUID, "Xid 48")


def test_another_device_is_not_quarantined():
    quarantine(UUID, "Xid 48")
    refuse_quarantined(UUID.replace("0", "5"))


def test_the_kernels_words_are_read_for_the_device_they_are_about():
    found = parse_kernel_line(LINE, "00000000:0A:00.0")
    assert found is not None
    assert (found.number, found.whose) == (31, "program")
    assert "faulted @ 0x0_00000000" in found.words
    assert parse_kernel_line(LINE, "00000000:0B:00.0") is None
    assert parse_kernel_line("6,1,1,-;usb 1-1: new device") is None


@pytest.mark.parametrize(
    ("row", "number"),
    [
        (
            "4,1163,56328130,c;NVRM: Xid (PCI:0000:00:06): 31, pid=944, name=program, channel 0x0000001e, intr 0. "
            "MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x0_00000000.",
            31,
        ),
        (
            "4,1164,56836944,c;NVRM: Xid (PCI:0000:00:06): 13, Graphics SM Warp Exception on (GPC 1, TPC 4, SM 0): "
            "Misaligned Address",
            13,
        ),
        ("4,1167,57432710,c;NVRM: Xid (PCI:0000:00:06): 43, pid=950, name=program, channel 0x0000001e", 43),
    ],
)
def test_what_a_driver_wrote_after_errors_of_programs_is_read(row, number):
    found = parse_kernel_line(row, "00000000:00:06.0")
    assert found is not None
    assert (found.number, found.whose) == (number, "program")


def test_what_the_log_says_is_kept_beside_the_event():
    assert _merged([Xid(31), Xid(45)], [Xid(31, "faulted @ 0x0")]) == [Xid(31, "faulted @ 0x0"), Xid(45)]
    assert _merged([], [Xid(13, "trap")]) == [Xid(13, "trap")]


def test_a_machine_without_the_drivers_library_says_so(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    with pytest.raises(NvmlUnavailable, match="libnvidia-ml"):
        XidEvents(UUID)
