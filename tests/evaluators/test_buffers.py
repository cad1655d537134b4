import mmap
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.buffers import OutputGuard, SharedBuffer
from evaluators.layout import ALIGNMENT, GUARD_BYTES, Layout, plan, slot_views

ARGS = [
    ("x", "in", "fp32", (3, 5)),
    ("out", "out", "fp32", (7,)),
    ("n", "out", "i16", (3,)),
    ("y", "inout", "fp64", (2,)),
]


@pytest.fixture
def armed():
    layout = plan("w", (3, 5), ARGS, 4)
    outputs = SharedBuffer("outputs", layout.output_bytes, read_only=False)
    guard = OutputGuard(layout, outputs, np.random.default_rng(0))
    guard.arm()
    yield layout, outputs, guard
    outputs.close()


@given(
    shapes=st.lists(st.tuples(st.sampled_from(["in", "out", "inout"]), st.integers(0, 40)), min_size=1, max_size=6),
    slots=st.integers(1, 5),
)
@settings(max_examples=60)
def test_arguments_are_aligned_apart_and_surrounded_by_guards(shapes, slots):
    args = [(f"a{i}", role, "fp32", (n,)) for i, (role, n) in enumerate(shapes)]
    layout = plan("w", (), args, slots)
    taken = {True: set(), False: set()}
    for place in layout.places:
        assert place.offset % ALIGNMENT == 0
        span = set(range(place.offset, place.offset + place.nbytes))
        assert not span & taken[place.writable]
        taken[place.writable] |= span
        if place.writable:
            around = set(range(place.offset - GUARD_BYTES, place.offset)) | set(
                range(place.offset + place.nbytes, place.offset + place.nbytes + GUARD_BYTES)
            )
            assert min(around) >= 0
            assert max(around) < layout.output_stride
            others = [p for p in layout.places if p.writable and p is not place]
            assert all(not around & set(range(p.offset, p.offset + p.nbytes)) for p in others)


def test_a_layout_survives_json():
    layout = plan("w", (3, 5), ARGS, 4)
    assert Layout.from_json(layout.to_json()) == layout


@pytest.mark.parametrize("delta", [-1, -GUARD_BYTES, 0, GUARD_BYTES - 1])
def test_a_byte_written_beside_an_output_is_seen(armed, delta):
    layout, outputs, guard = armed
    place = layout.places[1]
    assert guard.broken() is None
    edge = 2 * layout.output_stride + place.offset + (place.nbytes if delta >= 0 else 0)
    outputs.bytes[edge + delta] ^= 1
    assert "outside its output" in guard.broken()


def test_writing_all_of_an_output_breaks_no_guard(armed):
    layout, outputs, guard = armed
    inputs = SharedBuffer("inputs", layout.input_bytes, read_only=True)
    for slot in range(layout.slots):
        for place, view in zip(layout.places, slot_views(layout, inputs.view, outputs.view, slot), strict=True):
            if place.writable:
                view[...] = 1
    assert guard.broken() is None
    assert guard.touched(np.arange(4))
    assert guard.unwritten(0) is None
    inputs.close()


def test_poison_is_nan_and_unwritten_outputs_are_named(armed):
    layout, outputs, guard = armed
    out = np.frombuffer(outputs.view, np.float32, 7, layout.places[1].offset)
    assert np.isnan(out).all()
    assert guard.unwritten(0) == "out"
    out[...] = 0
    assert guard.unwritten(0) == "n"
    guard.poison()
    assert guard.unwritten(0) == "out"


def test_an_eight_bit_output_that_looks_unwritten_is_suspected_and_not_convicted():
    """What was left out is then compared; a right answer that happens to be the poison passes."""
    layout = plan("w", (5,), [("out", "out", "u8", (40,))], 3)
    with SharedBuffer("outputs", layout.output_bytes, read_only=False) as outputs:
        guard = OutputGuard(layout, outputs, np.random.default_rng(0))
        guard.arm()
        slot_views(layout, memoryview(b""), outputs.view, 1)[0][-1] ^= 1
        assert guard.unwritten_among([2, 1, 0]) == [2, 0]
        assert guard.unwritten(2) is None


def test_a_runner_can_neither_write_inputs_nor_shrink_any_buffer():
    for read_only in (True, False):
        buffer = SharedBuffer("b", 5000, read_only=read_only)
        with pytest.raises(PermissionError):
            os.ftruncate(buffer.fd, 0)
        if read_only:
            with pytest.raises(PermissionError):
                mmap.mmap(buffer.fd, 0)
            with pytest.raises(PermissionError):
                os.pwrite(buffer.fd, b"x", 0)
            view = mmap.mmap(buffer.fd, 0, prot=mmap.PROT_READ)
            buffer.bytes[0] = 7
            assert view[0] == 7
        buffer.close()
