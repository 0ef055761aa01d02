"""Stored sounds come as samples; their lengths are measured, damaged ones are told."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

soundfile = pytest.importorskip("soundfile")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path))


def tone(samples: int, channels: int = 1) -> np.ndarray:
    values = np.arange(samples * channels, dtype=np.int16) * 37
    return values if channels == 1 else values.reshape(-1, channels)


def stored(values: Any, kind: str = "WAV", rate: int = 8000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, values, rate, format=kind)
    return file.getvalue()


def sequences(corpus: sh.Deserializer, name: str = "x") -> list[Any]:
    with sh.MinibatchSource(corpus, max_sweeps=1, randomize=False) as source:
        return source.next_minibatch(10**6)[name].as_sequences()


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
def test_a_sound_is_its_samples(kind: str) -> None:
    sounds = [tone(n) for n in (5, 90, 31)]
    corpus = sh.ArrayDeserializer({"x": [stored(one, kind) for one in sounds]})
    found = sequences(corpus.map(sh.decode.audio("x", dtype="int16")))
    assert all((a == b).all() for a, b in zip(found, sounds, strict=True))
    floats = sequences(corpus.map(sh.decode.audio("x")))
    assert floats[1].dtype == np.float32
    assert (floats[1] * 32768 == sounds[1]).all()


def test_channels_are_samples_of_several_or_their_mean() -> None:
    corpus = sh.ArrayDeserializer({"x": [stored(tone(8, 2))]})
    (both,) = sequences(corpus.map(sh.decode.audio("x")))
    assert both.shape == (8, 2)
    (one,) = sequences(corpus.map(sh.decode.audio("x", mono=True)))
    assert one.shape == (8,)
    np.testing.assert_allclose(one, both.mean(axis=1), atol=1e-7)


def test_another_rate_is_resampled() -> None:
    pytest.importorskip("scipy.signal")
    seconds = np.arange(8000) / 8000
    slow = np.sin(2 * np.pi * 200 * seconds) * 0.5
    corpus = sh.ArrayDeserializer({"x": [stored(slow), stored(slow, rate=16000)]})
    first, second = sequences(corpus.map(sh.decode.audio("x", 16000)))
    assert (len(first), len(second)) == (16000, 8000)
    wanted = np.sin(2 * np.pi * 200 * np.arange(16000) / 16000) * 0.5
    assert abs(first - wanted)[100:-100].max() < 0.01


def test_a_stream_says_that_it_is_of_sounds() -> None:
    contents = [stored(tone(n)) for n in (4, 7)]
    defs = sh.StreamDefs(x=sh.StreamDef(decode="audio", dtype="int16"), y=sh.StreamDef())
    corpus = sh.ArrayDeserializer({"x": contents, "y": np.arange(2)}, defs)
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        assert source.streams.x.dtype == np.int16
        assert source.streams.y.is_single
        assert source.next_minibatch(99).num_samples == 11


def test_damage_is_told_with_the_sequence_and_counted() -> None:
    whole = stored(tone(99))
    flac = stored(tone(9999), "FLAC")
    for content, told in [
        (b"no sound at all", "no sound that can be decoded"),
        (whole[:-30], "cut short: 212 of 242 bytes"),
        *(
            (stored(tone(99), kind)[:-30], "cut short|no sound")
            for kind in ("RF64", "AIFF")  # of which the last is not decoded at all
        ),
        (flac[: len(flac) // 2], "cut short|no sound"),
    ]:
        corpus = sh.ArrayDeserializer({"x": [whole, content]}).map(sh.decode.audio("x"))
        with pytest.raises(sh.DataError, match=told) as raised:
            sh.MinibatchSource(corpus)
        assert raised.value.sequence == "array__1"
        with sh.MinibatchSource(corpus, max_sweeps=1, max_errors=1) as source:
            assert source.next_minibatch(200).num_sequences == 1
            assert len(source.errors) == 1


FLOATS = [0.5, -0.5, 0.25, -0.25, 1.0, -1.0, 1.5, -3.0]


@pytest.mark.parametrize("kind", ["WAV", "RF64"])
@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_floats_become_integers_of_full_scale(kind: str, subtype: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.array(FLOATS), 8000, format=kind, subtype=subtype)
    corpus = sh.ArrayDeserializer({"x": [file.getvalue()]})
    (found,) = sequences(corpus.map(sh.decode.audio("x", dtype="int16")))
    assert found.tolist() == [16384, -16384, 8192, -8192, 32767, -32768, 32767, -32768]


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_loud_sounds_do_not_wrap(subtype: str) -> None:
    file = io.BytesIO()
    loud = np.where(np.arange(4000) // 100 % 2, 0.99, -0.99)
    soundfile.write(file, loud, 8000, format="OGG", subtype=subtype)
    corpus = sh.ArrayDeserializer({"x": [file.getvalue()]})
    (floats,) = sequences(corpus.map(sh.decode.audio("x")))
    (found,) = sequences(corpus.map(sh.decode.audio("x", dtype="int16")))
    assert abs(floats).max() > 1
    assert np.abs(found - np.clip(floats * 32768, -32768, 32767)).max() <= 1


def test_a_mean_of_integers_is_rounded() -> None:
    corpus = sh.ArrayDeserializer(
        {"x": [stored(np.array([[1, 2, 2], [-1, -2, -2]], np.int16))]}
    )
    (found,) = sequences(corpus.map(sh.decode.audio("x", mono=True, dtype="int16")))
    assert found.tolist() == [2, -2]


def piped(kind: str, **options: str) -> bytes:
    """Return a sound that FFmpeg wrote to where it cannot go back."""
    av = pytest.importorskip("av")
    written = bytearray()

    class Pipe:
        def write(self, content: bytes) -> int:
            written.extend(content)
            return len(content)

    codec = "flac" if kind == "flac" else "pcm_s16le"
    with av.open(Pipe(), "w", format=kind, options=options) as out:
        stream = out.add_stream(codec, rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(tone(700)[None], layout="mono")
        frame.sample_rate = 8000
        out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return bytes(written)


def of_size(content: bytes, size: int, outer: int | None) -> bytes:
    """Return a WAV with other sizes of its samples and of the whole."""
    at = content.index(b"data") + 4
    changed = content[:at] + size.to_bytes(4, "little") + content[at + 4 :]
    return changed if outer is None else content[:4] + outer.to_bytes(4, "little") + changed[8:]


def sounds_of_unknown_size() -> dict[str, bytes]:
    wav = stored(tone(700))
    return {
        "killed recorder": of_size(wav, 0, 0),
        "killed recorder, whose header counts itself": of_size(wav, 0, 36),
        "SoX": of_size(wav, 0x7FFFF000, 0x7FFFF024),
        "arecord": of_size(wav, 0x7FFFFF00, 0x7FFFFF24),
        "all ones": of_size(wav, 0xFFFFFFFF, 0xFFFFFFFF),
        "all ones in the data": of_size(wav, 0xFFFFFFFF, None),
        "a wrong size of the whole": of_size(wav, 1400, 9999),
        "FFmpeg wav": piped("wav"),
        "FFmpeg flac": piped("flac"),
        "FFmpeg rf64": piped("wav", rf64="always"),
    }


@pytest.mark.parametrize("case", sounds_of_unknown_size())
def test_the_sizes_of_a_pipe_mean_to_the_end(case: str) -> None:
    corpus = sh.ArrayDeserializer({"x": [sounds_of_unknown_size()[case]]})
    (found,) = sequences(corpus.map(sh.decode.audio("x", dtype="int16")))
    assert (found[:700] == tone(700)).all()
    assert len(found) == 700


@pytest.mark.parametrize("subtype", ["GSM610", "G721_32", "NMS_ADPCM_16"])
def test_codecs_that_cannot_seek_are_read(subtype: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, tone(1600), 8000, format="WAV", subtype=subtype)
    corpus = sh.ArrayDeserializer({"x": [file.getvalue()]})
    (found,) = sequences(corpus.map(sh.decode.audio("x")))
    assert 1600 <= len(found) < 2000


def test_what_takes_more_memory_than_there_is_is_an_error_with_the_sequence() -> None:
    silence = stored(np.zeros(3_000_000, np.int16), "FLAC")
    lying = bytearray(stored(tone(9), "FLAC"))
    lying[21:26] = bytes([lying[21] | 0x0F, 255, 255, 255, 255])  # 2**36 - 1 samples
    slow = stored(tone(900), rate=1)
    assert len(silence) < 2**18
    for content, options, told in [
        (silence, {}, r"takes \d+ bytes of memory, there are 4194304"),
        (bytes(lying), {}, "cut short: 9 of 68719476735 samples"),
        (slow, {"rate": 48_000}, "resampling 1 to 48000 samples a second takes"),
    ]:
        data = sh.ArrayDeserializer({"x": [stored(tone(99), rate=48_000), content]})
        corpus = data.map(sh.decode.audio("x", **options))
        with pytest.raises(sh.DataError, match=told) as raised:
            sh.MinibatchSource(corpus, memory_limit=2**22)
        assert raised.value.sequence == "array__1"
        with sh.MinibatchSource(corpus, max_errors=1, memory_limit=2**22) as source:
            assert source.next_minibatch(100).num_sequences == 1
            assert len(source.errors) == 1
