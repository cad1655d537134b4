"""The parameter blocks of CUPTI's counters lie as its headers say, and what cannot be read is said in one line."""

import ctypes
import io
import json
import shutil
import subprocess

import pytest

from evaluators.cuda import counters, watcher
from evaluators.cuda.cupti import CuptiUnavailable, cupti_headers, cupti_library
from evaluators.cuda.watcher import Watcher

BLOCKS = {
    "Initialize": ("CUpti_Profiler_Initialize_Params", ""),
    "ChipName": ("CUpti_Device_GetChipName_Params", "deviceIndex pChipName"),
    "Availability": (
        "CUpti_PmSampling_GetCounterAvailability_Params",
        "deviceIndex counterAvailabilityImageSize pCounterAvailabilityImage",
    ),
    "Host": ("CUpti_Profiler_Host_Initialize_Params", "profilerType pChipName pCounterAvailabilityImage pHostObject"),
    "AddMetrics": ("CUpti_Profiler_Host_ConfigAddMetrics_Params", "pHostObject ppMetricNames numMetrics"),
    "ImageSize": ("CUpti_Profiler_Host_GetConfigImageSize_Params", "pHostObject configImageSize"),
    "Image": ("CUpti_Profiler_Host_GetConfigImage_Params", "pHostObject configImageSize pConfigImage"),
    "Passes": ("CUpti_Profiler_Host_GetNumOfPasses_Params", "configImageSize pConfigImage numOfPasses"),
    "Enable": ("CUpti_PmSampling_Enable_Params", "deviceIndex pPmSamplingObject"),
    "Object": ("CUpti_PmSampling_Start_Params", "pPmSamplingObject"),
    "Configure": (
        "CUpti_PmSampling_SetConfig_Params",
        "pPmSamplingObject configSize pConfig hardwareBufferSize samplingInterval triggerMode hwBufferAppendMode",
    ),
    "DataSize": (
        "CUpti_PmSampling_GetCounterDataSize_Params",
        "pPmSamplingObject pMetricNames numMetrics maxSamples counterDataSize",
    ),
    "DataInitialize": (
        "CUpti_PmSampling_CounterDataImage_Initialize_Params",
        "pPmSamplingObject counterDataSize pCounterData",
    ),
    "Decode": (
        "CUpti_PmSampling_DecodeData_Params",
        "pPmSamplingObject pCounterDataImage counterDataImageSize decodeStopReason overflow",
    ),
    "DataInfo": (
        "CUpti_PmSampling_GetCounterDataInfo_Params",
        "pCounterDataImage counterDataImageSize numTotalSamples numPopulatedSamples numCompletedSamples",
    ),
    "Evaluate": (
        "CUpti_Profiler_Host_EvaluateToGpuValues_Params",
        "pHostObject pCounterDataImage counterDataImageSize rangeIndex ppMetricNames numMetrics pMetricValues",
    ),
}
"""Our name -> CUPTI's, and its fields after the first two."""


def layout_by_headers(tmp_path) -> dict[str, list[int]]:
    rows = []
    for name, (kind, fields) in BLOCKS.items():
        places = "".join(f", offsetof({kind}, {field}), sizeof((({kind}*)0)->{field})" for field in fields.split())
        marks = " %zu" * (1 + 2 * len(fields.split()))
        rows.append(f'printf("{name}{marks}\\n", (size_t){kind}_STRUCT_SIZE{places});')
    headers = ("cupti_target.h", "cupti_profiler_target.h", "cupti_profiler_host.h", "cupti_pmsampling.h")
    source = "".join(f"#include <{h}>\n" for h in headers) + "#include <cstddef>\n#include <cstdio>\n"
    (tmp_path / "layout.cpp").write_text(source + "int main() { " + "\n".join(rows) + " }\n")
    folders = [f"-I{folder}" for folder in cupti_headers()]
    program = tmp_path / "layout"
    subprocess.run(["g++", "-w", *folders, tmp_path / "layout.cpp", "-o", program], check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {row.split()[0]: [int(word) for word in row.split()[1:]] for row in said.splitlines()}


def test_every_parameter_block_lies_as_the_headers_say(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no compiler")
    try:
        expected = layout_by_headers(tmp_path)
    except CuptiUnavailable as missing:
        pytest.skip(str(missing))
    for name, numbers in expected.items():
        block = getattr(counters, f"_{name}")
        fields = block._fields_[2:]
        found = [n for f, kind in fields for n in (getattr(block, f).offset, ctypes.sizeof(kind))]
        assert [block().struct_size, *found] == numbers, name


def test_the_counters_of_a_round_fit_in_one_pass_of_a_hopper():
    try:
        library = ctypes.CDLL(str(cupti_library()))
    except CuptiUnavailable as missing:
        pytest.skip(str(missing))

    class Planned(counters.Counters):
        def __init__(self) -> None:
            self._library, self._metrics = library, counters.METRICS
            self._names = (ctypes.c_char_p * len(self._metrics))(*(m.encode() for m in self._metrics))
            self._host = self._call("cuptiProfilerHostInitialize", counters._Host(kind=1, chip=b"GH100")).host

    assert len(Planned()._config_image()) > 0  # raises where it takes several


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
def test_a_machine_whose_counters_cannot_be_read_says_why():
    with pytest.raises(CuptiUnavailable) as caught:
        Watcher()
    assert str(caught.value)
    assert "\n" not in str(caught.value)


class Fake(counters.Counters):
    """Counts what it is told to; room for one owner."""

    held = False

    def __init__(self, device: int = 0) -> None:
        if Fake.held:
            raise CuptiUnavailable("somebody else holds the counters")
        Fake.held = True

    def start(self) -> None:
        self.running = True

    def stop(self) -> counters.Counted:
        return counters.Counted({counters.DISPATCHES: 64.0}, (32.0, 0.0, 32.0))

    def close(self) -> None:
        Fake.held = False


def test_the_watchers_process_answers_each_request_and_holds_counters_only_while_they_are_wanted(monkeypatch):
    monkeypatch.setattr(watcher, "Counters", Fake)
    monkeypatch.setattr("ctypes.CDLL", lambda name: type("Driver", (), {"cuInit": staticmethod(lambda flags: 0)}))
    asked = ["start", "reserve", "start", "stop", "release", "stop", "reserve", "release"]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{row}\n" for row in asked)))
    monkeypatch.setattr("sys.stdout", said := io.StringIO())
    watcher.main(0)
    answers = [json.loads(row) for row in said.getvalue().splitlines()]
    assert answers[0] == {}
    assert ["error" in answer for answer in answers[1:]] == [True, False, False, False, False, True, False, False]
    assert answers[4] == {"totals": {counters.DISPATCHES: 64.0}, "series": [32.0, 0.0, 32.0]}
    assert not Fake.held
