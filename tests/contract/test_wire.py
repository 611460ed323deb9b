"""The wire as Python reads and writes it, against frames that the agent's own code wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iodyno.session import wire

GOLDEN = Path(__file__).parents[2] / "schema" / "golden"


@pytest.mark.parametrize("kind", ["commands", "messages"])
def test_golden_frames_decode_to_the_messages_beside_them(kind: str) -> None:
    stream = (GOLDEN / f"{kind}.bin").read_bytes()
    lines = (GOLDEN / f"{kind}.jsonl").read_text().splitlines()
    decoder = wire.Decoder()
    found = [json.loads(payload) for payload in decoder.feed(stream)]
    decoder.finish()
    assert found == [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", ["commands", "messages"])
def test_golden_frames_are_written_byte_for_byte(kind: str) -> None:
    lines = (GOLDEN / f"{kind}.jsonl").read_text().splitlines()
    written = b"".join(wire.encode(number, json.loads(line)) for number, line in enumerate(lines))
    assert written == (GOLDEN / f"{kind}.bin").read_bytes()


@given(st.lists(st.binary(max_size=200), max_size=8), st.integers(1, 40))
def test_frames_survive_any_cutting_of_the_stream(payloads: list[bytes], step: int) -> None:
    stream = b"".join(wire.frame(number, payload) for number, payload in enumerate(payloads))
    decoder = wire.Decoder()
    found = [p for at in range(0, len(stream), step) for p in decoder.feed(stream[at : at + step])]
    decoder.finish()
    assert found == payloads


@given(st.binary(max_size=400), st.booleans(), st.booleans())
def test_any_bytes_are_decoded_or_refused(data: bytes, honest: bool, foreign: bool) -> None:
    decoder = wire.Decoder(allow_foreign=foreign)
    try:
        decoder.feed(wire.MAGIC * honest + data)
        decoder.finish()
    except wire.FrameError as error:
        assert str(error)


@given(st.binary(min_size=1, max_size=100), st.data())
def test_one_changed_byte_is_noticed(payload: bytes, data: st.DataObject) -> None:
    frame = bytearray(wire.frame(0, payload))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    decoder = wire.Decoder()
    with pytest.raises(wire.FrameError):
        decoder.feed(bytes(frame))
        decoder.finish()


@given(
    st.lists(st.one_of(st.binary(max_size=60), st.just(b"IODY"), st.just(b"IODYNO")), max_size=6),
    st.integers(1, 50),
)
def test_what_a_remote_shell_prints_first_is_kept_apart(parts: list[bytes], step: int) -> None:
    noise = b"".join([*parts, b"\n"])
    stream = noise + wire.frame(0, b"{}") + wire.frame(1, b"[]")
    decoder = wire.Decoder(allow_foreign=True)
    found = [p for at in range(0, len(stream), step) for p in decoder.feed(stream[at : at + step])]
    assert found == [b"{}", b"[]"]
    assert decoder.foreign == noise


def test_noise_after_the_first_frame_and_endless_noise_are_errors() -> None:
    decoder = wire.Decoder(allow_foreign=True)
    decoder.feed(wire.frame(0, b"{}"))
    with pytest.raises(wire.FrameError, match="something else writes"):
        decoder.feed(b"oops, hello there")
    with pytest.raises(wire.FrameError, match="none of them from an agent"):
        wire.Decoder(allow_foreign=True).feed(b"x" * 70_000)


def test_lost_oversized_and_cut_frames_are_named() -> None:
    with pytest.raises(wire.FrameError, match="frame 3 came where 0 was due"):
        wire.Decoder().feed(wire.frame(3, b"{}"))
    with pytest.raises(wire.FrameError, match="longer than"):
        wire.Decoder().feed(b"IODY" + b"\xff" * 12)
    decoder = wire.Decoder()
    assert decoder.feed(wire.frame(0, b'{"a":1}')[:18]) == []
    with pytest.raises(wire.FrameError, match="5 bytes short"):
        decoder.finish()
    with pytest.raises(wire.FrameError, match="longer than"):
        wire.frame(0, bytes(wire.MAX_PAYLOAD_BYTES + 1))
