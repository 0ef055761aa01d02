"""What properties are tried on: corpora small enough to be brute-forced, and settings."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.model import FULL_DATA_SWEEP, ModelCorpus, ModelSettings

WORD_MAX = 2**64 - 1


def _chunks(sizes: st.SearchStrategy[int], most: int = 8) -> st.SearchStrategy[ModelCorpus]:
    """Chunks of up to `most` sequences, empty ones among them, at least one sequence in all."""
    chunk = st.lists(sizes, max_size=most)
    return st.lists(chunk, min_size=1, max_size=12).filter(any).map(ModelCorpus.of)


def unit_corpora() -> st.SearchStrategy[ModelCorpus]:
    """Every sequence has one sample, as rows and images do."""
    return _chunks(st.just(1))


def ragged_corpora() -> st.SearchStrategy[ModelCorpus]:
    return _chunks(st.integers(1, 9))


@st.composite
def equal_corpora(draw: st.DrawFn) -> ModelCorpus:
    """Equal sequences in equal chunks, the last chunk possibly shorter."""
    sizes = [draw(st.integers(2, 7))] * draw(st.integers(1, 40))
    per_chunk = draw(st.integers(1, 6))
    return ModelCorpus.of([sizes[i : i + per_chunk] for i in range(0, len(sizes), per_chunk)])


@st.composite
def oversized_corpora(draw: st.DrawFn) -> ModelCorpus:
    """One sequence longer than all others together may be, anywhere."""
    corpus = draw(_chunks(st.integers(1, 4), most=4))
    chunks = [list(chunk) for chunk in corpus.chunks]
    home = draw(st.integers(0, len(chunks) - 1))
    place = draw(st.integers(0, len(chunks[home])))
    chunks[home].insert(place, draw(st.integers(20, 200)))
    return ModelCorpus.of(chunks)


def tiny_corpora() -> st.SearchStrategy[ModelCorpus]:
    """One sequence, or one chunk, among empty ones."""
    single = st.lists(st.integers(1, 5), min_size=1, max_size=2)
    empties = st.integers(0, 3)
    return st.builds(
        lambda before, chunk, after: ModelCorpus.of([*[[]] * before, chunk, *[[]] * after]),
        empties,
        single,
        empties,
    )


def sequence_corpora() -> st.SearchStrategy[ModelCorpus]:
    """Some sequence has several samples, as layouts of rows ask for."""
    return corpora().filter(lambda corpus: max(corpus.sizes) > 1)


def corpora() -> st.SearchStrategy[ModelCorpus]:
    return st.one_of(
        ragged_corpora(), unit_corpora(), equal_corpora(), oversized_corpora(), tiny_corpora()
    )


def seeds() -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from([0, 1, 2**63, WORD_MAX]), st.integers(0, WORD_MAX))


def lanes() -> st.SearchStrategy[int]:
    """Fewer lanes than sequences, more, and the default."""
    return st.one_of(st.integers(1, 13), st.sampled_from([48, 96]))


@st.composite
def settings_for(
    draw: st.DrawFn, corpus: ModelCorpus, randomize: bool | None = None
) -> ModelSettings:
    """Settings with no window, one in chunks or one in samples, from none to more than all."""
    num_lanes = draw(lanes())
    unit = draw(st.sampled_from([None, "chunks", "samples"]))
    most = num_lanes * (len(corpus.chunks) if unit == "chunks" else corpus.num_samples) + 1
    window = draw(st.integers(1, most))
    return ModelSettings(
        seed=draw(seeds()),
        num_lanes=num_lanes,
        window_chunks=window if unit == "chunks" else None,
        window_samples=window if unit == "samples" else None,
        randomize=draw(st.booleans()) if randomize is None else randomize,
    )


@st.composite
def timelines(
    draw: st.DrawFn,
    any_corpus: st.SearchStrategy[ModelCorpus] = corpora(),  # noqa: B008
    randomize: bool | None = None,
) -> tuple[ModelCorpus, ModelSettings]:
    """A corpus with settings: all that an order depends on."""
    corpus = draw(any_corpus)
    return corpus, draw(settings_for(corpus, randomize))


def workers(settings: ModelSettings) -> st.SearchStrategy[int]:
    """Numbers of workers that the settings allow."""
    return st.integers(1, settings.num_lanes if settings.randomize else 13)


def requests(corpus: ModelCorpus) -> st.SearchStrategy[int]:
    """Minibatch sizes: below a sequence, usual ones, more than a sweep, and a whole sweep."""
    return st.one_of(
        st.integers(1, 2 * max(corpus.sizes)),
        st.integers(1, 3 * corpus.num_samples),
        st.just(FULL_DATA_SWEEP),
    )


def times(corpus: ModelCorpus, sweeps: int = 3) -> st.SearchStrategy[int]:
    """Nominal times in the first sweeps, on sequence starts or not, and far away."""
    near = st.integers(0, sweeps * corpus.num_samples)
    far = st.integers(10**6, 10**9).map(lambda sweep: sweep * corpus.num_samples)
    return st.one_of(near, far)


def limits(corpus: ModelCorpus) -> st.SearchStrategy[int | None]:
    """`max_samples`: none, or within a few sweeps."""
    return st.one_of(st.none(), st.integers(1, 3 * corpus.num_samples))
