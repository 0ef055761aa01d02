"""What the page on the command line shows of commands is what they write, numbers aside."""

from pathlib import Path

import pytest
from docs.tools.shown_commands import PAGE, form, make_corpus, run, shown

COMMANDS = shown(PAGE.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the corpus that the page looks at."""
    found = tmp_path_factory.mktemp("shown")
    make_corpus(found)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_writes_what_is_shown(command: str, folder: Path) -> None:
    again = "run `python -m docs.tools.shown_commands --write` and read what it changed"
    assert form(run(command, folder)) == form(COMMANDS[command]), again


def test_the_page_shows_every_command_that_needs_no_run() -> None:
    found = {command.split()[1] for command in COMMANDS}
    assert found >= {"info", "index", "plan", "verify", "trace", "find"}
