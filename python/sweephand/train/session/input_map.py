"""The streams of a session's minibatches under the keys that a criterion asks for."""

from collections.abc import Mapping
from typing import Any

from sweephand.corpus.streams import StreamInfo, name_of
from sweephand.errors import ArgumentTypeError, shown
from sweephand.source.source import MinibatchSource

InputMap = Mapping[Any, str | StreamInfo]


def checked_inputs(
    given: InputMap | None, source: MinibatchSource, label_stream: str | StreamInfo
) -> InputMap | None:
    """Return ``model_inputs_to_streams`` of a session, checked.

    Raises
    ------
    ArgumentTypeError
        If it is no dict.
    ValueError
        If the source has no such stream, or labels come under another key than the trainer
        looks under.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            "model_inputs_to_streams is a dict from key to stream, such as "
            f"{{'x': source.streams.features}}, got {shown(given)}"
        )
    names = [source.stream_info(stream).name for stream in given.values()]
    wanted = name_of(label_stream)
    is_found = label_stream in given or (
        isinstance(label_stream, StreamInfo) and wanted in names
    )
    if wanted in source.streams and not is_found:
        raise ValueError(
            f"model_inputs_to_streams has no key {wanted!r}, where the trainer counts labels: "
            f"give the trainer label_stream=source.streams.{wanted}, or another stream that is "
            "there"
        )
    return dict(given)
