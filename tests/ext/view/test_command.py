"""``sweephand view``: a file of one page, or a local page, as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.ext.view.conftest import LENGTHS, words
from tests.ext.view.pages import Read

import sweephand as sh
from sweephand.cli import main

SCRIPT = """
import numpy as np, sweephand as sh
corpus = sh.ArrayDeserializer({"tokens": [np.full(9, 65 + n) for n in range(26)]})
source = sh.MinibatchSource(corpus, layout=sh.Packed(18), randomization_seed=3)
text = {"tokens": chr}
number = 3
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    offsets = np.append(0, np.cumsum(LENGTHS))
    np.savez(tmp_path / "t.npz", tokens=np.concatenate(words()), tokens_offsets=offsets)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in ("view", *words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_page_is_written_that_is_what_the_run_sees(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["t.npz", "--size", 200, "--seed", 5, "--html", "out.html"]
    code, out, err = call(capsys, *options, "--step", 2, "--layout", "packed", "--length", 64)
    assert (code, err) == (0, "")
    assert out == "page: out.html\n"
    page = Read((data / "out.html").read_text())
    source = sh.MinibatchSource(sh.open("t.npz"), randomization_seed=5, layout=sh.Packed(64))
    minibatch = [source.next_minibatch(200) for _ in range(3)][2]
    assert all(name in page.text for name in minibatch.ids)
    assert not page.named("nav")
    assert "t.npz step 2" in " ".join(page.text.split())


def test_a_source_of_a_script_is_taken_as_it_is_with_its_decoder(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["train.py:source", "--size", 36, "--decode", "train.py:text"]
    code, _, err = call(capsys, *options, "--id", "array__7", "--html", "out.html")
    assert (code, err) == (0, "")
    page = Read((data / "out.html").read_text())
    assert "HHHHHHHHH" in page.text
    assert "Packed(row_length=18" in page.text


@pytest.mark.parametrize(
    ("words_of_it", "code", "says"),
    [
        (["t.npz", "--size", 9, "--json"], 2, "--json goes with --html"),
        (["train.py:source", "--seed", 4, "--html", "x"], 2, "--seed is for a corpus"),
        (["t.npz", "--decode", "train.py:nope", "--html", "x"], 1, "has no 'nope'"),
        (["t.npz", "--decode", "train.py:number", "--html", "x"], 1, "decode is a function"),
        (["t.npz", "--decode", "gpt2", "--html", "x"], 1, "as SCRIPT.py:NAME does"),
    ],
    ids=lambda value: str(value[1]) if isinstance(value, list) else "",
)
def test_mistakes_are_answered_in_a_line(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    words_of_it: list[object],
    code: int,
    says: str,
) -> None:
    found, out, err = call(capsys, *words_of_it)
    assert found == code
    assert says in out + err
    assert not (data / "x").exists()


@contextmanager
def served(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve a page in a process of its own, which hears interrupts; yield it and its URL."""
    # Where tests run in the background of a shell, programs are born deaf to them.
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from sweephand.cli import main\n"
        "sys.exit(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "view", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_local_page_is_served_until_it_is_interrupted(data: Path) -> None:
    with served("t.npz", "--size", "100", "--no-browser", "--step", "3") as (process, url):
        with urllib.request.urlopen(url, timeout=60) as answer:
            page = Read(answer.read().decode())
        assert "step 3" in page.text
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url[:-3] + "/", timeout=60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_a_browser_is_opened_whose_arguments_do_not_show_the_token(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = data / "browser.py"
    browser.write_text(
        "import os, sys, urllib.request\n"
        "door = urllib.request.urlopen(sys.argv[1]).read().decode()\n"
        "url = door.partition('url=')[2].partition('\"')[0]\n"
        "status = urllib.request.urlopen(url).status\n"
        "print(sys.argv[1], status, url, flush=True)\n"
    )
    monkeypatch.setenv("BROWSER", f"{sys.executable} {browser} %s")
    with served("t.npz", "--size", "100") as (process, url):
        assert process.stdout is not None
        token = url.split("/")[3]
        seen = next(line for line in process.stdout if line.startswith("file:"))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    opened, status, led_to = seen.split()
    assert token not in opened
    assert (status, led_to) == ("200", url)
    assert not Path(opened.removeprefix("file://")).exists()
