"""What the page on the command line shows of commands is what they write, numbers aside."""

from pathlib import Path

import pytest
from docs.tools.pages import with_commands
from docs.tools.shown_commands import PAGE, form, make_corpus, run, shown

from sweephand.cli import commands

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


def test_the_site_shows_the_help_of_every_command() -> None:
    page = with_commands(PAGE.read_text())
    for name in commands():
        assert f"\n## {name}\n\n```text\nusage: sweephand {name} " in page
    assert "```commands" not in page
