"""Clips are the frames that decoding all of a video gives, at places that the key decides."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ext.vision.made_videos import X264, all_frames, av, video

import sweephand as sh
from sweephand.ext.vision.decode.video_file import VideoFile, part_of

UNEVEN = [0, 7, 40, 41, 90, 91, 92, 200, 333, 334, 400, 480, 481, 600, 601, 650, 660, 900, 1000]
UNEVEN = [1500 * sweep + one for sweep in range(3) for one in UNEVEN]

VP9 = {"deadline": "realtime", "cpu-used": "8", "g": "15"}
KINDS: dict[str, dict[str, Any]] = {
    "B-frames": {},
    "a key frame each": {"options": {**X264, "g": "1", "bf": "0"}},
    "one key frame": {"options": {**X264, "g": "999", "sc_threshold": "0"}},
    "open groups": {"options": {**X264, "x264-params": "open-gop=1:keyint=10:bframes=3"}},
    "B-frames of B-frames": {"options": {**X264, "x264-params": "b-pyramid=2:bframes=5"}},
    "variable rate": {"times": UNEVEN},
    "variable rate, Matroska": {"times": UNEVEN, "kind": "matroska"},
    "an edit list that leaves out the first": {
        "num_frames": 67,
        "times": [40 * n - 400 for n in range(67)],
    },
    "fragments": {"muxer": {"movflags": "frag_keyframe+empty_moov"}},
    "Matroska": {"kind": "matroska"},
    "HEVC": {
        "size": (64, 64),
        "codec": "libx265",
        "options": {"x265-params": "keyint=13:log-level=none"},
    },
    "HEVC, open groups": {
        "size": (64, 64),
        "codec": "libx265",
        "options": {"x265-params": "keyint=9:open-gop=1:bframes=4:log-level=none"},
    },
    "VP9": {"codec": "libvpx-vp9", "kind": "webm", "options": VP9},
    "VP8, frames that are not shown": {
        "codec": "libvpx",
        "kind": "webm",
        "options": {"auto-alt-ref": "1", "lag-in-frames": "16", "g": "20"},
    },
    "MPEG-4": {"codec": "mpeg4", "options": {"bf": "2", "g": "9"}},
    "MPEG-4, AVI": {"codec": "mpeg4", "kind": "avi", "options": {"g": "9"}},
}


def made(kind: str) -> bytes:
    """Return a video of which 57 frames are presented."""
    try:
        return video(**{"num_frames": 57, **KINDS[kind]})
    except Exception as error:
        if "codec" in KINDS[kind] and "codec" in str(error).lower():
            pytest.skip(f"this PyAV has no encoder: {error}")
        raise


def first_minibatch(corpus: sh.Deserializer, size: int = 99, **options: Any) -> sh.Minibatch:
    with sh.MinibatchSource(corpus, randomize=False, **options) as source:
        return source.next_minibatch(min(size, source.num_samples_per_sweep))


def clips(contents: list[Any], frames: int, name: str = "x", **options: Any) -> NDArray[Any]:
    corpus = sh.MapDeserializer([{name: one} for one in contents])
    return first_minibatch(corpus.map(sh.decode.video(name, frames, **options)))[name].values


def start_of(clip: NDArray[Any], whole: list[tuple[float, NDArray[Any]]]) -> int:
    (at,) = [at for at, (_, pixels) in enumerate(whole) if (pixels == clip[0]).all()]
    return at


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_those_of_decoding_all(kind: str) -> None:
    content = made(kind)
    whole = all_frames(content)
    pixels = np.stack([pixels for _, pixels in whole])
    assert len(whole) == 57
    (everything,) = clips([content], 57)
    assert (everything == pixels).all()
    for frames, stride, at, first in [
        (1, 1, "end", 56),
        (4, 3, "middle", 23),
        (3, 25, "middle", 3),
        (5, 1, "start", 0),
        (2, 2, "end", 54),
    ]:
        (clip,) = clips([content], frames, stride=stride, at=at)
        assert (clip == pixels[first : first + frames * stride : stride]).all()
    content_again = [content] * 12
    for clip in clips(content_again, 3, stride=2):
        first = start_of(clip, whole)
        assert (clip == pixels[first : first + 6 : 2]).all()


def test_a_place_is_any_and_depends_on_seed_sweep_and_id_alone() -> None:
    content = video(11)
    whole = all_frames(content)
    corpus = sh.ArrayDeserializer({"x": [content] * 150}).map(sh.decode.video("x", 3, stride=4))

    def places(size: int, **options: Any) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        with sh.MinibatchSource(corpus, max_sweeps=2, **options) as source:
            for minibatch in source.minibatches(size):
                for name, clip in zip(minibatch.ids, minibatch["x"].values, strict=True):
                    found.setdefault(name, []).append(start_of(clip, whole))
        return found

    found = places(40, randomization_seed=3)
    first, second = np.array(list(found.values())).T
    assert set(first) == set(second) == {0, 1, 2}
    assert np.bincount(first).min() > 25
    assert (first != second).any()
    assert places(7, randomization_seed=3, num_map_workers=0) == found
    assert places(40, randomization_seed=4) != found


def test_frames_are_resized() -> None:
    content = video(5, size=(64, 96))
    (half,) = clips([content], 5, size=(32, 48))
    assert half.shape == (5, 32, 48, 3)
    whole = np.stack([pixels for _, pixels in all_frames(content)]).astype(float)
    means = whole.reshape(5, 32, 2, 48, 2, 3).mean((2, 4))
    assert np.abs(half - means).mean() < 8
    (square,) = clips([content], 2, size=20)
    assert square.shape == (2, 20, 20, 3)


def test_transforms_draw_the_same_for_all_frames_and_streams() -> None:
    content = video(9, options={**X264, "qp": "0"})
    same = [content[:]] * 1
    corpus = sh.ArrayDeserializer({"a": same, "b": same})
    crop = sh.images.RandomCrop(8)
    both = first_minibatch(
        corpus.map(sh.decode.video(["a", "b"], 4, transforms=[crop, sh.images.ToDtype()]))
    )
    assert both["a"].values.shape == (1, 4, 8, 8, 3)
    assert both["a"].values.dtype == np.float32
    assert (both["a"].values == both["b"].values).all()
    steps = np.diff(both["a"].values[0, :, 0, 0, 0] * 255)
    assert (np.abs(steps) < 20).all()  # the same place of a picture that moves slowly


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_videos_stand_upright(turns: int) -> None:
    if not hasattr(av.VideoStream, "set_display_rotation"):
        pytest.skip("this PyAV writes no orientation")
    content = video(3, quarter_turns=turns)
    (clip,) = clips([content], 3)
    stored = np.stack([pixels for _, pixels in all_frames(content)])
    assert (clip == np.rot90(stored, turns, (1, 2))).all()
    (small,) = clips([content], 3, size=(12, 10))
    assert small.shape == (3, 12, 10, 3)
    assert np.abs(small[:, 0, 0].astype(int) - clip[:, 0, 0]).max() < 60


def test_short_videos_are_errors_or_repeated_or_dropped() -> None:
    contents = [video(n) for n in (7, 4, 9)]
    with pytest.raises(sh.DataError, match=r"has 4 frames, the clip spans 7.*short='repeat'"):
        clips(contents, 3, stride=3)
    skipped = sh.ArrayDeserializer({"x": contents}).map(sh.decode.video("x", 3, stride=3))
    with sh.MinibatchSource(skipped, max_errors=1, max_sweeps=1) as source:
        minibatch = source.next_minibatch(3)
        assert sorted(minibatch.ids) == ["array__0", "array__2"]
        assert [one.sequence for one in source.errors] == ["array__1"]
    whole = all_frames(contents[1])
    repeated = clips(contents, 3, stride=3, short="repeat")[1]
    assert (repeated == np.stack([whole[at][1] for at in (0, 3, 3)])).all()


def test_short_videos_are_dropped_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path))
    contents = [video(n) for n in (4, 7, 9, 1)]
    corpus = sh.ArrayDeserializer({"x": contents, "y": np.arange(4)})
    dropped = corpus.map(sh.decode.video("x", 3, stride=3, short="drop"))
    with sh.MinibatchSource(dropped, max_sweeps=1) as source:
        assert source.num_sequences_per_sweep == 2
        minibatch = source.next_minibatch(2)
        assert sorted(minibatch.ids) == ["array__1", "array__2"]
        assert sorted(minibatch["y"].values) == [1, 2]


def test_what_is_no_video_or_cut_short_is_an_error_with_the_sequence() -> None:
    sound = io.BytesIO()
    with av.open(sound, "w", format="matroska") as out:
        stream = out.add_stream("pcm_s16le", rate=8000, layout="mono")
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        samples.sample_rate = 8000
        out.mux(stream.encode(samples))
        out.mux(stream.encode())
    fragments = video(30, muxer={"movflags": "frag_keyframe+empty_moov"})
    matroska = video(30, kind="matroska")
    webm = video(30, kind="webm", codec="libvpx-vp9", options=VP9)
    good = video(30)
    damaged = bytearray(fragments)
    damaged[len(damaged) // 2 :] = np.random.default_rng(0).bytes(len(damaged) // 2)
    for content, reason in [
        (b"no video at all", "no video that can be decoded"),
        (b"", "no video that can be decoded"),
        (sound.getvalue(), "no stream of pictures, there are: audio"),
        (good[: len(good) // 2], r"cut short: \d+ of \d+ bytes"),
        (good[:-1], r"cut short: \d+ of \d+ bytes"),
        (fragments[: len(fragments) // 2], r"cut short: \d+ of \d+ bytes"),
        (matroska[: len(matroska) * 2 // 3], r"cut short: \d+ of \d+ bytes"),
        (webm[: len(webm) // 2], r"cut short: \d+ of \d+ bytes"),
        (bytes(damaged), r"damaged: no box of MP4 begins at byte \d+|cut short"),
    ]:
        corpus = sh.ArrayDeserializer({"x": [good, content]})
        mapped = corpus.map(sh.decode.video("x", 30))
        with pytest.raises(sh.DataError, match=reason) as caught:
            first_minibatch(mapped)
        assert caught.value.sequence == "array__1"
        with sh.MinibatchSource(mapped, max_errors=1, max_sweeps=1) as source:
            assert source.next_minibatch(2).ids == ["array__0"]


def test_damaged_pixels_of_h264_are_errors() -> None:
    content = video(30, options={**X264, "g": "30", "qp": "10"}, size=(128, 192))
    whole = np.stack([pixels for _, pixels in all_frames(content)])
    rng = np.random.default_rng(1)
    found = {"error": 0, "same": 0, "other": 0}
    for at in rng.integers(len(content) // 4, len(content) // 2, 20).tolist():
        damaged = bytearray(content)
        damaged[at : at + 40] = rng.bytes(40)
        try:
            (clip,) = clips([bytes(damaged)], 30)
            found["same" if (clip == whole).all() else "other"] += 1
        except sh.DataError:
            found["error"] += 1
    assert found["error"] > 15, found


def test_a_part_of_a_file_is_its_frames_within_a_time(tmp_path: Path) -> None:
    path = tmp_path / "several.mp4"
    path.write_bytes(video(90, times=[40 * n for n in range(90)]))
    whole = all_frames(str(path))
    parts = [(0.0, 1.0), (1.0, 1.04), (0.44, 2.52), (3.5, 3.6), (2.2, 9.0), (0.0, 9.0)]
    for begin, end in parts:
        wanted = np.stack([one for time, one in whole if begin - 1e-6 <= time < end - 1e-6])
        sample = {"path": str(path), "begin": begin, "end": end, "num_frames": len(wanted)}
        (clip,) = clips([sample], len(wanted))
        assert (clip == wanted).all()
        if len(wanted) > 2:
            (clip,) = clips([{**sample, "frames": [1, len(wanted) - 1]}], 1, at="end")
            assert (clip == wanted[-2]).all()
    for kind in ("variable rate", "variable rate, Matroska", "VP9", "open groups", "HEVC"):
        path.write_bytes(made(kind))
        whole = all_frames(str(path))
        for begin in range(0, 57, 5):
            wanted = np.stack([one for _, one in whole[begin : begin + 7]])
            end = whole[begin + 7][0] if begin + 7 < 57 else None
            sample = {"path": str(path), "begin": whole[begin][0], "end": end}
            (clip,) = clips([sample], len(wanted))
            assert (clip == wanted).all()


def test_only_what_a_clip_needs_is_read_and_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.mp4"
    path.write_bytes(video(600, options={**X264, "g": "12", "sc_threshold": "0", "qp": "10"}))
    decoded = []
    decode = VideoFile._decode

    def counting(self: VideoFile, packets: Any, used: Any = None) -> Any:
        decoded.append(len(packets))
        return decode(self, packets, used)

    monkeypatch.setattr(VideoFile, "_decode", counting)
    with closing(VideoFile(part_of({"path": str(path), "begin": 16.0, "end": 17.0}))) as opened:
        assert opened.num_frames == 25
        assert len(opened._packets) < 25 + 2 * 12
        opened.frames([20])
        assert sum(decoded) <= 12 + 3
    decoded.clear()
    with closing(VideoFile(part_of(path.read_bytes()))) as opened:
        opened.frames([5, 301, 302, 590])
        assert len(decoded) == 3
        assert sum(decoded) <= 3 * (12 + 3)
        decoded.clear()
        opened.frames(range(100, 160))
        assert len(decoded) == 1
        assert sum(decoded) < 60 + 2 * 12


def test_wrong_parts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(video(10))
    for sample, reason in [
        ({"path": str(tmp_path / "b.mp4")}, "No such file"),
        ({"path": str(path), "frames": [3, 11]}, "has 10 frames in all, of which"),
        ({"path": str(path), "num_frames": 9}, "has 10 frames in all, 9 should be there"),
        (
            {"path": str(path), "begin": 0.0, "end": 0.2, "num_frames": 4},
            "5 frames from 0 s to",
        ),
        ({"path": str(path), "begin": 5.0}, "has 0 frames, the clip spans 1"),
    ]:
        with pytest.raises(sh.DataError, match=reason):
            clips([sample], 1)


def test_streams_beside_a_video_are_cut_at_the_same_places() -> None:
    content = video(30)
    whole = all_frames(content)
    actions = np.arange(60, dtype=np.float32).reshape(30, 2)
    corpus = sh.ArrayDeserializer(
        {"x": [content] * 5, "action": [actions] * 5, "label": np.arange(5)}
    )
    wanted = sh.decode.video("x", 4, stride=3, beside=["action"])
    with sh.MinibatchSource(corpus.map(wanted)) as source:
        assert source.num_samples_per_sweep == 5
        minibatch = source.next_minibatch(5)
    assert minibatch["action"].values.shape == (5, 4, 2)
    for clip, own in zip(minibatch["x"].values, minibatch["action"].values, strict=True):
        first = start_of(clip, whole)
        assert (own == actions[first : first + 12 : 3]).all()
    shorter = sh.ArrayDeserializer({"x": [content], "action": [actions[1:]]})
    with pytest.raises(sh.DataError, match="29 samples beside a video of 30 frames"):
        first_minibatch(shorter.map(wanted))


def test_cameras_give_the_same_frames() -> None:
    one, other = video(20), video(20, codec="mpeg4", options={"g": "5"})
    corpus = sh.ArrayDeserializer({"a": [one] * 8, "b": [other] * 8})
    minibatch = first_minibatch(corpus.map(sh.decode.video(["a", "b"], 2, stride=2)))
    for a, b in zip(minibatch["a"].values, minibatch["b"].values, strict=True):
        assert start_of(a, all_frames(one)) == start_of(b, all_frames(other))
    unequal = sh.ArrayDeserializer({"a": [one], "b": [video(19)]})
    with pytest.raises(sh.DataError, match="20 in 'a', 19 in 'b'"):
        first_minibatch(unequal.map(sh.decode.video(["a", "b"], 2)))


def scripts(folder: Path) -> dict[str, bytes]:
    """Return texts that FFmpeg takes for videos, which name another file or an address."""
    (folder / "other.mp4").write_bytes(video(10))
    (folder / "list.m3u8").write_bytes(b"#EXTM3U\n#EXTINF:5,\nother.mp4\n#EXT-X-ENDLIST\n")
    sdp = b"v=0\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    return {
        "a.mp4": b"ffconcat version 1.0\nfile other.mp4\n",
        "b.sdp": sdp,
        "c.m3u8": b"#EXTM3U\n#EXTINF:5,\nother.mp4\n#EXT-X-ENDLIST\n",
        "d.ffmeta": b";FFMETADATA1\ntitle=x\n",
        "e%d.png": b"\x89PNG\r\n\x1a\n" + bytes(40),
    }


@pytest.mark.parametrize("name", ["a.mp4", "b.sdp", "c.m3u8", "d.ffmeta", "e%d.png"])
def test_a_script_is_no_video(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = scripts(tmp_path)[name]
    Path(name).write_bytes(content)
    for sample in (content, {"path": name}, {"path": str(tmp_path / name)}):
        with pytest.raises(sh.DataError, match="none of MP4, Matroska"):
            clips([sample], 1)


def with_number(content: bytes, box: bytes, at: int, number: int) -> bytes:
    """Return a video with other 4 bytes after the name of a box."""
    begin = content.index(box) + len(box) + at
    return content[:begin] + number.to_bytes(4) + content[begin + 4 :]


def test_what_takes_more_memory_than_there_is_is_an_error_with_the_sequence() -> None:
    good = video(10, size=(64, 64))
    fragments = video(10, muxer={"movflags": "frag_keyframe+empty_moov"})
    many = with_number(with_number(good, b"stsz", 4, 1), b"stsz", 8, 10**8)
    for content, frames, reason in [
        (video(2, size=(1024, 1024)), 1, "1024 x 1024 pixels takes 41943040 bytes of memory"),
        (video(9, size=(256, 256)), 90, "90 frames of 256 x 256 takes 35389440 bytes"),
        (many, 1, "100000000 samples in"),
        (with_number(fragments, b"trun", 4, 10**8), 1, r"\d{9} samples in"),
    ]:
        corpus = sh.MapDeserializer([{"x": one} for one in (good, content)])
        options: dict[str, Any] = {"memory_limit": 2**25, "max_sweeps": 1}
        mapped = corpus.map(sh.decode.video("x", frames, short="repeat"))
        with pytest.raises(sh.DataError, match=reason) as caught:
            first_minibatch(mapped, **options)
        assert caught.value.sequence == "list__1"
        with sh.MinibatchSource(mapped, max_errors=1, **options) as source:
            assert source.next_minibatch(2).num_sequences == 1
