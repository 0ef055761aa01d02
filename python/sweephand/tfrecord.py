"""TFRecord files of ``tf.train.Example`` messages, written without TensorFlow."""

from sweephand.deserializers.tfrecord_writer import (
    Feature,
    encode_example,
    encode_record,
    write,
)

__all__ = ["Feature", "encode_example", "encode_record", "write"]


def __dir__() -> list[str]:
    """Return what is public."""
    return __all__
