"""Bare numbers in a store: what a request reads, and what a window holds of them."""

from __future__ import annotations

import numpy as np
import pytest

import sweephand as sh


@pytest.fixture
def remote_tokens() -> str:
    fsspec = pytest.importorskip("fsspec")
    content = np.arange(10 << 20, dtype=np.uint16)  # 20 MiB
    fsspec.filesystem("memory").pipe("/ahead/tokens.bin", content.tobytes())
    return "memory://ahead/tokens.bin"


def test_a_request_to_a_store_reads_a_mebibyte_of_tokens(remote_tokens: str) -> None:
    corpus = sh.RawTokensDeserializer(remote_tokens, "uint16", 1024)
    with sh.MinibatchSource(corpus, num_threads=0) as source:
        assert len(source.timeline.corpus.chunk_sequences) == 20
        source.next_minibatch(1024)
        assert source.stats()["bytes_loaded"] < (1 << 20) + (1 << 16)


def test_the_window_of_a_store_is_asked_for_at_once(remote_tokens: str) -> None:
    corpus = sh.RawTokensDeserializer(remote_tokens, "uint16", 1024)
    with sh.MinibatchSource(corpus, num_threads=1) as source:
        source.next_minibatch(1024)
        while source.stats()["chunks_loaded"] < 20:  # requests are on their way
            source.next_minibatch(1024)
        assert source.stats()["bytes_held"] <= source.memory_bound(1024)
