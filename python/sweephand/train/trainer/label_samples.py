"""The number of label samples in a minibatch."""

from sweephand.corpus.streams import StreamInfo, name_of
from sweephand.train.trainer.trained_model import Data

DEFAULT_LABEL_STREAM = "labels"


def count_label_samples(minibatch: Data, label_stream: str | StreamInfo) -> int:
    """Return the label samples of a minibatch, or of this worker's share of it.

    Every sample of the stream is counted. Without a stream "labels", the default, they are
    those of ``num_label_samples``: next tokens, or samples of the size-defining stream.
    ValueError is raised if there is no such stream.
    """
    labels = minibatch.get(label_stream)
    if labels is None:  # a plain dict does not know infos of streams
        labels = minibatch.get(name_of(label_stream))
    if labels is None:
        found: int | None = getattr(minibatch, "num_label_samples", None)
        if found is not None and label_stream == DEFAULT_LABEL_STREAM:
            return found
        raise ValueError(
            f"the minibatch has no label stream {name_of(label_stream)!r}, there are: "
            f"{', '.join(map(str, minibatch))}"
        )
    counted: int | None = getattr(labels, "num_samples", None)
    return len(labels) if counted is None else counted
