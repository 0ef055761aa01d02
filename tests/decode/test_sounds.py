"""Stored sounds come as samples; their lengths are measured, damaged ones are told."""

from __future__ import annotations

import io
import sys
import wave
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
        (flac[: len(flac) // 2], "cut short|no sound"),
    ]:
        corpus = sh.ArrayDeserializer({"x": [whole, content]}).map(sh.decode.audio("x"))
        with pytest.raises(sh.DataError, match=told) as raised:
            sh.MinibatchSource(corpus)
        assert raised.value.sequence == "array__1"
        with sh.MinibatchSource(corpus, max_sweeps=1, max_errors=1) as source:
            assert source.next_minibatch(200).num_sequences == 1
            assert len(source.errors) == 1


def test_a_wav_of_another_writer_is_read() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(tone(5).tobytes())
    corpus = sh.ArrayDeserializer({"x": [file.getvalue()]})
    assert (sequences(corpus.map(sh.decode.audio("x", dtype="int16")))[0] == tone(5)).all()


def test_a_missing_library_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    from sweephand.decode import sounds

    monkeypatch.setattr(sounds, "soundfile", type(sounds.soundfile)("soundfile", "audio"))
    with pytest.raises(ImportError, match=r"pip install 'sweephand\[audio\]'"):
        sh.decode.audio("x")
