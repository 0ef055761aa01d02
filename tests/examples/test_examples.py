"""The examples run, each with a small setting, and say what they promise."""

import json
import logging
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCES = Path(json.__file__).parents[1] / "email"  # some functions of the library

Run = Callable[..., str]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Return what runs an example in this process and returns what it prints."""

    def run_example(name: str, *arguments: object) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(EXAMPLES))
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        logger = logging.getLogger("sweephand")
        level = logger.level  # which a script may set
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        finally:
            logger.setLevel(level)
        return capsys.readouterr().out

    return run_example


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_loop_by_hand_goes_on_exactly(run: Run, library: str) -> None:
    told = run(f"frameworks/{library}_loop.py")
    assert "stopped and gone on is the whole: True" in told
    assert told.count("samples:") == 8  # validations: 4 of the whole, 1 and 3 of its parts


def test_a_numpy_session_goes_on_where_it_was(run: Run, tmp_path: Path) -> None:
    first = run("trainer_numpy.py", "--samples", 40_000, "--output", tmp_path)
    assert "starting afresh" in first
    more = run("trainer_numpy.py", "--samples", 60_000, "--output", tmp_path)
    assert "going on from" in more
    assert more.count("Validation") == 1
    assert "60000 samples seen" in more


def test_wrong_labels_have_the_highest_losses(run: Run, tmp_path: Path) -> None:
    told = run("loss_ledger.py", "--output", tmp_path)
    assert "10000 visits" in told
    found, of = map(int, re.findall(r"(\d+) of (\d+) wrong labels", told)[0])
    assert found >= 0.8 * of
    assert (tmp_path / "losses" / "0.losses").exists()


def test_a_poisoned_run_heals_itself(run: Run, tmp_path: Path) -> None:
    told = run("heal_poisoned_run.py", "--output", tmp_path)
    assert "as it is: the loss is nan" in told
    assert "6 of 6 poisoned texts are banned, and 0 others" in told
    assert (tmp_path / "healed" / "spikes.json").exists()


def test_a_forged_run_is_found(run: Run, tmp_path: Path) -> None:
    told = run("receipts.py", "--output", tmp_path)
    assert "94 steps, 6000 samples: ok is True" in told
    assert "forged: step 40: begin should be 2496" in told
    assert (tmp_path / "receipts" / "0.receipts").exists()


def test_a_mixture_anneals_and_goes_on(run: Run) -> None:
    told = run("anneal_mixture.py", "--samples", 300_000, "--sources", SOURCES)
    assert "gone on from a state it is the same: True" in told
    shares = [float(share) for share in re.findall(r"code ([\d.]+)%", told)]
    assert len(shares) == 8
    assert shares[-1] < shares[0] - 25


def test_a_seesaw_takes_fewer_steps(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = tmp_path / "curve.png"
    settings = ["--samples", 24_000, "--output", tmp_path / "run", "--figure", figure]
    told = run("batch_size.py", *settings)
    found = re.findall(r"(\w+): (\d+) steps, validation loss ([\d.]+)", told)
    (_, steps, loss), (_, fewer, same_loss) = found
    assert int(fewer) < int(steps) == 375
    assert float(same_loss) < float(loss) + 0.02
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_language_model_learns_and_draws(run: Run, tmp_path: Path) -> None:
    figure = tmp_path / "curve.png"
    settings = ["--samples", 40_000, "--width", 16, "--sources", SOURCES, "--figure", figure]
    told = run("torch_char_lm.py", *settings)
    assert told.count("Validation") == 8
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_classifier_reads_ctf_and_draws(run: Run, tmp_path: Path) -> None:
    figure = tmp_path / "curve.png"
    for package in ("http", "email"):
        copytree(SOURCES.with_name(package), tmp_path / "sources" / package)
    sources = ["--sources", tmp_path / "sources"]
    settings = ["--sweeps", 2, "--width", 8, *sources, "--figure", figure]
    told = run("ctf_classifier.py", *settings)
    assert told.count("Summary") == told.count("Validation") == 2
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_pictures_are_told_apart_and_a_run_goes_on(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    settings = ["--pictures", 40, "--output", tmp_path / "run"]
    first = run("picture_classifier.py", "--samples", 600, *settings)
    assert "starting afresh" in first
    more = run("picture_classifier.py", "--samples", 900, *settings)
    assert "going on from" in more
    assert "900 samples seen" in more


def test_sounds_become_frames(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("soundfile")
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path))
    assert "100% of 20 words told" in run("speech_spectrograms.py", "--sounds", 20)


def test_frames_of_speech_are_told_by_those_beside_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path))
    told = run("speech_senones.py", "--utterances", 100, "--sweeps", 3).splitlines()
    alone, beside = (int(line.partition("%")[0]) for line in told)
    assert alone < 80 < beside


@pytest.mark.parametrize("name", ["fine_tune_conversations.py", "prefer_answers.py"])
def test_conversations_are_trained_on_and_a_run_goes_on(run: Run, name: str) -> None:
    pytest.importorskip("tokenizers")
    told = run(name, 8)
    assert "stopped and gone on is the whole: True" in told
    assert float(re.findall(r"packed or not, differ by (\S+)", told)[0]) < 1e-13
    first, last = map(float, re.findall(r"(\d\.\d+) at step", told))
    assert last < first


def test_a_policy_learns_on_loans_and_a_killed_run_has_the_same_prompts(run: Run) -> None:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    try:
        told = run("sort_digits_grpo.py")
    finally:
        torch.set_num_threads(threads)  # which the script sets
    first, last = map(int, re.findall(r"(\d+)%", told))
    assert last > 2 * first
    assert "once a sweep: True" in told
    assert "killed (-9) and gone on, the same prompts: True" in told


@pytest.mark.exhaustive
def test_pictures_are_captioned_by_processes_that_are_killed(run: Run) -> None:
    pytest.importorskip("PIL")
    told = run("caption_pictures.py", 12)
    assert told.count("same minibatches True") == 2
    assert all(float(one) < 1e-5 for one in re.findall(r"losses differ by (\S+)", told))
    assert float(re.findall(r"shares of two processes differ by (\S+) %", told)[0]) < 10
    first, last = map(float, re.findall(r"(\d\.\d+) at step", told))
    assert last < first


def test_text_becomes_rows(run: Run, tmp_path: Path) -> None:
    told = run("text_to_rows.py", "--texts", 99, "--sources", SOURCES, "--output", tmp_path)
    first, second = [line for line in told.splitlines() if "tokens" in line]
    assert first == second


def _needs() -> list[tuple[str, str]]:
    """Return every example that needs a package, and that package."""
    found = []
    for path in sorted(EXAMPLES.rglob("*.py")):
        tried = re.search(r"^try:\n    (?:import|from) (\w+)", path.read_text(), re.MULTILINE)
        if tried and "this example needs" in path.read_text():
            found.append((str(path.relative_to(EXAMPLES)), tried[1]))
    return found


@pytest.mark.parametrize(("name", "package"), _needs())
def test_an_example_without_its_package_ends_with_a_sentence(
    run: Run, name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in [one for one in sys.modules if one.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, other)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=r"this example needs .*pip install "):
        run(name)


_OPTIONAL = ["PIL", "array_record", "fsspec", "h5py", "lance", "obstore", "pyarrow", "ray"]
_OPTIONAL += ["scipy", "soundfile", "zarr", "zstandard"]
_QUICK = sorted(path.name for path in EXAMPLES.glob("read_*.py"))


@pytest.mark.parametrize("name", [*_QUICK, "loss_ledger.py", "speech_spectrograms.py"])
def test_an_example_without_any_package_runs_or_ends_with_a_sentence(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in [one for one in sys.modules if one.partition(".")[0] in _OPTIONAL]:
        monkeypatch.delitem(sys.modules, other)
    for package in _OPTIONAL:
        monkeypatch.setitem(sys.modules, package, None)
    told = sentence = ""
    try:
        told = run(name)
    except SystemExit as end:
        sentence = str(end.code)
    except ImportError as error:  # which would pass for a package that the test needs
        pytest.fail(f"a traceback: {error}")
    assert told or re.match(r"this example needs .*pip install ", sentence)


@pytest.mark.parametrize("name", _QUICK)
def test_a_script_that_reads_a_format_runs(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", "")  # is put back when a script sets it
    try:
        told = run(name)
    except SystemExit as end:  # a package is not installed here
        if not str(end).startswith("this example needs "):
            raise
        pytest.skip(str(end))
    assert len(told.splitlines()) >= 2


def test_no_example_needs_a_package_in_silence() -> None:
    own = {"numpy", "sweephand", "__future__", *sys.stdlib_module_names}
    own |= {path.stem for path in EXAMPLES.rglob("*.py")}
    for path in EXAMPLES.rglob("*.py"):
        bare = re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
        assert set(bare) <= own, f"{path.name}: {set(bare) - own}"


def test_ranks_are_asked_for_by_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit, match=r"torchrun .* examples/torch_fsdp2\.py"):
        run("torch_fsdp2.py")
