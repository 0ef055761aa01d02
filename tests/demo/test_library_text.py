"""The corpus of the demonstration is the functions that Python's own parser finds."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

import sweephand as sh
from sweephand.demo.library_text import functions, open_text, read_text

JSON_PACKAGE = Path(json.__file__).parent


def parsed(source: bytes) -> list[tuple[int, str, bytes]]:
    """The functions that are in no other function, by Python's parser."""
    lines = source.splitlines(keepends=True)
    found = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                text = b"".join(lines[child.lineno - 1 : child.end_lineno])
                found.append((child.lineno, child.name, text))
            else:
                visit(child)

    visit(ast.parse(source))
    return found


@pytest.mark.parametrize("name", ["decoder", "encoder", "scanner", "tool", "__init__"])
def test_the_split_is_that_of_the_parser(name: str) -> None:
    source = (JSON_PACKAGE / f"{name}.py").read_bytes()
    assert [f[:2] for f in functions(source)] == [f[:2] for f in parsed(source)]
    for (_, _, mine), (_, _, wanted) in zip(functions(source), parsed(source), strict=True):
        assert mine.startswith(wanted)
        for line in mine[len(wanted) :].splitlines():
            assert line.strip()[:1] in (b"", b"#")  # comments after the last statement


def test_a_function_ends_where_the_margin_comes_back() -> None:
    source = b"""
@decorated
async def first(
    a,
) -> int:
    def inner():
        pass

    return a


class Some:
    def second(self): return 1
    x = 3
def third(): pass"""
    found = [(line, name, text.splitlines()[-1]) for line, name, text in functions(source)]
    assert found == [
        (3, "first", b"    return a"),
        (13, "second", b"    def second(self): return 1"),
        (15, "third", b"def third(): pass"),
    ]


def test_the_corpus_is_served_as_it_was_read(tmp_path: Path) -> None:
    corpus = read_text(JSON_PACKAGE)
    corpus.write(tmp_path)
    source = sh.MinibatchSource(open_text(tmp_path), randomize=False, max_sweeps=1)
    texts = [
        sequence.tobytes()
        for minibatch in source.minibatches(5000)
        for sequence in minibatch["bytes"].as_sequences()
    ]
    assert len(texts) == len(corpus.names) == len(corpus.lengths)
    at = next(n for n, name in enumerate(corpus.names) if name.endswith("raw_decode"))
    assert corpus.names[at].startswith("decoder.py:")
    assert texts[at].lstrip().startswith(b"def raw_decode(self, s, idx=0):")
    assert b"".join(texts) == corpus.tokens.tobytes()
    assert np.array_equal(list(map(len, texts)), corpus.lengths)


def test_a_folder_without_functions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(FileNotFoundError, match="no Python functions"):
        read_text(tmp_path)
