"""A profile in words."""

from evaluators.profile import Bottleneck, Ceiling, Counter, HotInstruction, HotSpot, Profile
from evolve.prompts.facts import shown_profile
from evolve.prompts.profile_text import profile_text


def test_a_profile_that_failed_says_why_and_is_not_told_to_models():
    failed = Profile(tool="none", device_class="cpu:x:2", missing="it failed: exit code 1")
    assert "not measured: it failed: exit code 1" in profile_text(failed)
    assert shown_profile(failed) is None
    assert shown_profile(None) is None


def test_the_words_name_limit_rates_threads_lines_and_instructions():
    text = profile_text(
        Profile(
            tool="sampling",
            device_class="cpu:x:2",
            samples=9,
            workload="m8",
            call_us=123.4,
            bottleneck=Bottleneck.COMPUTE,
            reason="compute-bound: scalar code; 0.10 of measured bandwidth, 0.02 of peak arithmetic",
            ceilings=(Ceiling(name="memory bandwidth", achieved=1e9, ceiling=1e10, unit="bytes/s"),),
            hot_spots=(
                HotSpot(
                    share=0.75,
                    function="inner",
                    line=12,
                    text="sum += x[i];",
                    instructions=(HotInstruction(share=0.5, text="vaddps"),),
                ),
            ),
            threads=(1.0, 0.25),
            counters={
                "text_kib": Counter(value=1.5, unit="KiB", origin="compiled"),
                "page_faults": Counter(value=0.0, unit="1/call"),
            },
        )
    )
    assert text.splitlines() == [
        "limited by compute: compute-bound: scalar code; 0.10 of measured bandwidth, 0.02 of peak arithmetic",
        "measured by sampling on m8, 123.4 us a call",
        "memory bandwidth: 1 Gbytes/s of 10 Gbytes/s as measured (0.10)",
        "threads: working 100%, 25% of the time",
        "page_faults: 0 per call",
        "text_kib: 1.5 KiB (compiled)",
        "where the time goes (9 samples):",
        "  75.0 %  line 12, inner: sum += x[i];",
        "          50.0 %  vaddps",
    ]
