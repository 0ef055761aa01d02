"""TFRecord files of examples and sequence examples, written without TensorFlow."""

from sweephand.deserializers.tfrecord_writer import (
    Feature,
    encode_example,
    encode_record,
    encode_sequence_example,
    write,
)

__all__ = ["Feature", "encode_example", "encode_record", "encode_sequence_example", "write"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
