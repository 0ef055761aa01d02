"""A store that says nothing is an error in time, and what signs a URL is never told."""

from __future__ import annotations

import errno
import json
import logging
import pickle
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.read.format_corpora import (
    ALL,
    OPEN_FILES,
    TOKENS,
    ctf,
    jsonl,
    npy,
    raw_tokens,
    varied,
)
from tests.read.format_corpora import tfrecords as records
from tests.read.http_store import CLIENTS, serve, serve_to

import sweephand as sh
from sweephand.cli import main
from sweephand.files import remote
from sweephand.files.find import find_files
from sweephand.files.paths import as_path
from sweephand.files.urls import is_pattern, is_url, shown, swap_suffix, without_secrets

pytest.importorskip("fsspec")

IN_TIME = 30  # seconds: the limits that tests set are short, but a machine may stand still
SECRET = "c2lnbmF0dXJl"
PASSWORD = "hunter2hunter2"
QUERY = f"X-Amz-Credential=AKIA%2F2026&X-Amz-Signature={SECRET}"

OPEN: dict[Any, tuple[str, Any]] = {
    **{
        make: (pattern.replace("*", "part-0"), opener)
        for make in (jsonl, records, ctf, raw_tokens)
        for pattern, opener in [OPEN_FILES[make]]
    },
    npy: ("tokens.npy", lambda url: sh.NpyDeserializer({"tokens": url}, TOKENS)),
}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "_FIRST_DELAY", 0.01)
    return tmp_path / "cache"


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def tokens(deserializer: sh.Deserializer) -> list[list[int]]:
    with sh.MinibatchSource(deserializer, randomize=False, max_sweeps=1) as source:
        return [
            one.reshape(-1).tolist()
            for batch in source.minibatches(50)
            for one in batch["tokens"].as_sequences()
        ]


# -- the limit --
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)
def test_a_server_that_says_nothing_is_an_error_in_time(
    make: Any, client: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(client)
    if client == "aiohttp":
        monkeypatch.setattr(remote, "_OBSTORE", set())
    monkeypatch.setenv("SWEEPHAND_REMOTE_TIMEOUT", "0.4")
    name, open_it = OPEN[make]
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match=r"within 0\.4 seconds.*SWEEPHAND_REMOTE_TIMEOUT"):
        sh.MinibatchSource(open_it(f"{silent}/{name}?sig={SECRET}")).close()
    assert time.monotonic() - begin < IN_TIME


def test_a_server_that_falls_silent_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit holds for reads too, and for the attempts that follow."""
    data = tmp_path / "data"
    data.mkdir()
    jsonl(data, varied())
    with serve_to("aiohttp", data) as store:
        source = sh.MinibatchSource(
            sh.JSONLDeserializer(f"{store.url}/part-0.jsonl", ALL), num_threads=0
        )
        monkeypatch.setenv("SWEEPHAND_REMOTE_TIMEOUT", "0.4")
        released = threading.Event()
        monkeypatch.setattr(remote, "open_store", lambda url: released.wait(2 * IN_TIME))
        begin = time.monotonic()
        with source, pytest.raises(TimeoutError, match="nothing came back"):
            source.next_minibatch(10)
        assert time.monotonic() - begin < IN_TIME
        released.set()


def test_attempts_that_fail_end_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that sleeping alone moves on, as attempts may take any time."""
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(remote, "time", clock)
    monkeypatch.setenv("SWEEPHAND_REMOTE_TIMEOUT", "60")
    monkeypatch.setattr(remote, "_FIRST_DELAY", 30.0)

    def fail() -> None:
        raise ConnectionResetError("the peer went away")

    with pytest.raises(TimeoutError, match=r"attempt [23], the last by ConnectionResetError"):
        remote.retry(fail, "s3://bucket/a")
    assert 15 <= slept[0] <= 45
    assert len(slept) in (2, 3)
    assert sum(slept) == pytest.approx(60)


# -- patterns --
def test_a_url_is_literal_unless_it_holds_a_star_or_a_bracket() -> None:
    for url in ("s3://b/a?b", "https://[::1]:80/a", f"https://h/a?{QUERY}", "http://h/a?x=[*]"):
        assert not is_pattern(url)
    for url in ("s3://b/*.bin", "memory://part-[01].bin", "https://h/*.bin?token=1"):
        assert is_pattern(url)
    assert is_url("https://h/" + 300 * "x")  # longer than the name of a file may be


@pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)
def test_a_presigned_url_is_served_as_it_is(make: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    make(data, varied())
    name, open_it = OPEN[make]
    with serve(data) as store:
        plain = tokens(open_it(f"{store.url}/{name}"))
        store.needs = QUERY
        assert tokens(open_it(f"{store.url}/{name}?{QUERY}")) == plain
        with pytest.raises(PermissionError):
            open_it(f"{store.url}/{name}")


def test_a_user_and_a_password_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"1234")
    with serve(tmp_path) as store:
        store.needs = "Basic bWU6aHVudGVyMmh1bnRlcjI="
        url = store.url.replace("://", f"://me:{PASSWORD}@") + "/a.bin"
        corpus = sh.RawTokensDeserializer(url, "uint16", 2, TOKENS)
        assert tokens(corpus) == [[0x3231, 0x3433]]


def test_an_index_is_kept_when_a_url_is_signed_anew(tmp_path: Path, cache: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    jsonl(data, varied())
    with serve(data) as store:
        for signature in ("abcdefgh", "ijklmnop"):
            url = f"{store.url}/part-0.jsonl?sig={signature}"
            sh.MinibatchSource(sh.JSONLDeserializer(url, ALL)).close()
        (index,) = cache.iterdir()
        assert store.bytes_of(".jsonl") < 1.5 * (data / "part-0.jsonl").stat().st_size
        assert b"abcdefgh" not in index.read_bytes()


# -- secrets --
@pytest.mark.parametrize("end", [f"?{QUERY}", f";token={SECRET}", f";v=2;token={SECRET}?v=3"])
@pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)
def test_nothing_that_is_made_of_a_url_tells_its_secrets(
    make: Any,
    end: str,
    tmp_path: Path,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    make(data, varied())
    name, open_it = OPEN[make]
    told: list[str] = []
    with serve(data) as store, caplog.at_level(logging.DEBUG):
        url = f"{store.url.replace('://', f'://me:{PASSWORD}@')}/{name}{end}"
        corpus = open_it(url)
        told += [repr(find_files(url)), repr(as_path(url)), str(as_path(url)), repr(corpus)]
        with sh.MinibatchSource(corpus, randomize=False) as source:
            told += source.sequence_ids(0, 1) + source.next_minibatch(5).ids
            told += [json.dumps(source.get_checkpoint_state()), repr(source)]
            state = source.get_checkpoint_state()
        told.append(str(list(cache.rglob("*"))))
        told += [str(path.read_bytes()) for path in cache.rglob("*") if path.is_file()]
        assert main(["info", url, "--json", *options(make)]) == 0
        assert main(["index", url, *options(make)]) == 0
        store.folder.joinpath(name).write_bytes(b"")
        for attempt in (
            lambda: tokens(corpus),
            lambda: open_it(url.replace(name, "none-" + name)),
            lambda: tokens(open_it(url)),
            lambda: sh.MinibatchSource(open_it(url)).restore_from_checkpoint(state),
        ):
            told.append(refusal(attempt))
        store.is_closed = True
        told.append(refusal(lambda: open_it(url)))
        store.is_broken = True
        told.append(refusal(lambda: remote.read_object(url)))
    told.append(refusal(lambda: open_it(f"nothing-of-that://{PASSWORD}:{PASSWORD}@h/a{end}")))
    output = capsys.readouterr()
    told += [output.out, output.err, caplog.text]
    for text in told:
        for secret in (SECRET, PASSWORD, "AKIA"):
            assert secret not in text


def options(make: Any) -> list[str]:
    return ["--dtype", "uint16", "--sequence-length", "5"] if make is raw_tokens else []


def refusal(attempt: Any) -> str:
    """All that a traceback prints of an error, and what a pickled one brings along."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt()
    except Exception as error:
        again = pickle.loads(pickle.dumps(error))
        return "".join(traceback.format_exception(error)) + repr(again) + str(error)
    raise AssertionError("it was accepted")


def test_what_a_client_says_of_a_url_is_told_without_its_secrets() -> None:
    url = f"https://me:{PASSWORD}@host/s;sid={SECRET}/a.bin;v=2;token={SECRET}?{QUERY}"
    assert shown(url) == "https://host/s/a.bin"
    assert shown("s3://bucket/a;b.bin") == "s3://bucket/a;b.bin"  # a name, no parameter
    assert not is_pattern(f"https://host/a.bin;token=*{SECRET}")
    assert swap_suffix(url, ".idx", known=(".bin",)) == url.replace(".bin", ".idx")
    told = without_secrets(f"500, url='{url}'; {SECRET} is wrong, and so is AKIA/2026", url)
    assert told == "500, url='https://host/s/a.bin'; ... is wrong, and so is ..."
    other = f"moved to https://other/b?token={SECRET}, say me:{PASSWORD}"
    assert without_secrets(other, url) == "moved to https://other/b say me:..."


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_without_ranges_is_refused_after_one_try(client: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(100))
    with serve_to(client, tmp_path) as store:
        store.has_ranges = False
        (file,) = remote.describe_objects([f"{store.url}/a.bin"])
        with pytest.raises(OSError, match="does not serve parts of a file") as caught:
            file.fetch(10, 4)
    assert caught.value.errno == errno.EOPNOTSUPP
    assert [method for method, _ in store.asked].count("GET") == 1
