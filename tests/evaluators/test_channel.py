import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators import channel
from evaluators.channel import HEADER, MAX_BODY, ChannelClosed, DeadlineExceeded, Frame, Kind, ProtocolViolation


@given(
    kind=st.sampled_from(Kind),
    slot=st.integers(0, 2**32 - 1),
    nonce=st.integers(0, 2**64 - 1),
    failure=st.integers(0, 255),
    body=st.binary(max_size=300),
)
def test_a_frame_survives_the_wire(kind, slot, nonce, failure, body):
    frame = Frame(kind, slot, nonce, failure, body)
    assert channel.decode(channel.encode(frame)) == frame


@given(st.binary(max_size=64))
def test_any_bytes_are_a_frame_or_a_violation_and_nothing_else(packet):
    try:
        frame = channel.decode(packet)
    except ProtocolViolation:
        return
    assert channel.encode(frame) == packet


def test_a_body_over_the_cap_is_refused_on_both_sides():
    with pytest.raises(ValueError, match="over the cap"):
        channel.encode(Frame(Kind.PREPARE, 0, 0, body=b"x" * (MAX_BODY + 1)))
    with pytest.raises(ProtocolViolation, match="longer than the cap"):
        channel.decode(HEADER.pack(Kind.DONE, 0, 0, 0, 0) + b"x" * (MAX_BODY + 1))


def test_the_reserved_field_must_be_zero():
    with pytest.raises(ProtocolViolation, match="reserved"):
        channel.decode(HEADER.pack(Kind.DONE, 0, 7, 0, 0))


def test_a_packet_far_over_the_cap_is_seen_as_too_long_not_cut_to_size():
    ours, theirs = channel.pair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.send(HEADER.pack(Kind.DONE, 0, 0, 0, 0) + b"x" * (MAX_BODY * 4))
        with pytest.raises(ProtocolViolation, match="longer"):
            channel.receive(ours)


def test_silence_ends_at_the_deadline():
    ours, theirs = channel.pair()
    with ours, theirs:
        channel.set_receive_deadline(ours, 0.01)
        with pytest.raises(DeadlineExceeded):
            channel.receive(ours)


def test_a_peer_that_is_gone_is_told_from_one_that_is_silent():
    ours, theirs = channel.pair()
    with ours:
        theirs.close()
        with pytest.raises(ChannelClosed):
            channel.receive(ours)
        with pytest.raises(ChannelClosed):
            channel.send(ours, channel.encode(Frame(Kind.CALL, 0, 0)))


def test_a_frame_that_nobody_asked_for_is_seen_and_kept():
    ours, theirs = channel.pair()
    with ours, theirs:
        channel.assert_quiet(ours)
        theirs.send(channel.encode(Frame(Kind.DONE, 0, 0)))
        with pytest.raises(ProtocolViolation, match="before it was asked for"):
            channel.assert_quiet(ours)


def test_a_peer_that_takes_nothing_off_the_channel_is_not_waited_for():
    ours, theirs = channel.pair()
    with ours, theirs, pytest.raises(DeadlineExceeded):
        _send_many(ours, 100_000)


def _send_many(sock, count):
    for nonce in range(count):
        channel.send(sock, channel.encode(Frame(Kind.CALL, 0, nonce)))
