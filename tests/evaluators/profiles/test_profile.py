"""What a profile may hold, what it says in words, and the rule that names a limit."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from evaluators.bottleneck import Facts, find_bottleneck
from evaluators.profile import (
    MOST_COUNTERS,
    MOST_TEXT,
    Bottleneck,
    Ceiling,
    Counter,
    HotInstruction,
    HotSpot,
    Profile,
)


def spot(share: float, *instructions: float, **changes: object) -> HotSpot:
    hot = tuple(HotInstruction(share=s, text="vaddps") for s in instructions)
    return HotSpot.model_validate({"share": share, "function": "f", "instructions": hot, **changes})


def profile(**changes: object) -> Profile:
    return Profile.model_validate({"tool": "sampling", "device_class": "cpu:x:2", "samples": 9, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hot_spots": (spot(0.6), spot(0.5))}, "add up to 1.1"),
        ({"hot_spots": (spot(0.2), spot(0.5))}, "not the hottest first"),
        ({"hot_spots": (spot(0.5, 0.2, 0.3),)}, "not the hottest first"),
        ({"hot_spots": (spot(0.5),), "samples": 0}, "without samples"),
        ({"counters": {str(n): Counter(value=1, unit="1") for n in range(MOST_COUNTERS + 1)}}, "at most"),
        ({"hot_spots": (spot(1.0),) * 17}, "at most 16"),
        ({"threads": (1.5,)}, "less than or equal to 1"),
        ({"reason": "x" * (MOST_TEXT + 1)}, "at most 300"),
        ({"speed": 3}, "Extra inputs"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(changes, said):
    with pytest.raises(ValidationError, match=said):
        profile(**changes)


def test_a_gpu_profile_fits_the_same_type_and_survives_the_wire():
    found = profile(
        tool="ncu",
        bottleneck=Bottleneck.OCCUPANCY,
        ceilings=(Ceiling(name="memory bandwidth", achieved=1.2e12, ceiling=4.8e12, unit="bytes/s"),),
        hot_spots=(spot(0.9, function="softmax_kernel"),),
        counters={
            "registers": Counter(value=255, unit="registers/thread", origin="compiled"),
            "sm__warps_active.avg.pct_of_peak_sustained_active": Counter(value=12.5, unit="%"),
        },
    )
    assert Profile.model_validate_json(found.model_dump_json()) == found
    assert found.ceilings[0].share == 0.25


def test_a_profile_that_failed_says_so_and_measures_nothing():
    failed = Profile(tool="none", device_class="cpu:x:2", missing="it failed: exit code 1")
    assert not failed.measured


BUSY = {"call_us": 100.0, "empty_us": 10.0, "arithmetic": 0.1, "bandwidth": 0.1, "busy": 1.0}


@pytest.mark.parametrize(
    ("changes", "limit", "words"),
    [
        (
            {},
            Bottleneck.COMPUTE,
            "busy; far from both limits: latency or instruction mix; "
            "0.10 of measured bandwidth, 0.10 of peak arithmetic",
        ),
        ({"code": "scalar code"}, Bottleneck.COMPUTE, "busy: scalar code; far from both limits"),
        ({"code": "scalar code", "arithmetic": 0.6}, Bottleneck.COMPUTE, "compute-bound: scalar code; "),
        ({"bandwidth": 0.71, "busy": 0.3}, Bottleneck.BANDWIDTH, "memory-bound; 0.71 of measured bandwidth"),
        ({"arithmetic": 0.9}, Bottleneck.COMPUTE, "0.90 of peak arithmetic"),
        ({"call_us": 9.0, "bandwidth": 0.9}, Bottleneck.LAUNCH, "a call takes 9 us, an empty one 10 us"),
        ({"in_kernel": 0.5}, Bottleneck.SYSTEM, "50% of its time in the operating system"),
        ({"in_interpreter": 0.8}, Bottleneck.INTERPRETER, "80% of its work is the interpreter's"),
        ({"busy": 0.5}, Bottleneck.OCCUPANCY, "threads work 50% of the time"),
        ({"warm_us": 40.0}, Bottleneck.LATENCY, "waits for memory 60% of its time"),
        ({"warm_us": 95.0}, Bottleneck.COMPUTE, "latency or instruction mix"),
        ({"busy": None, "bandwidth": None}, None, "neither limit is near; 0.10 of peak arithmetic"),
    ],
)
def test_the_rule_that_names_the_limit(changes, limit, words):
    found, reason = find_bottleneck(Facts(**{**BUSY, **changes}))
    assert found is limit
    assert words in reason
