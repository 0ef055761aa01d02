"""Deserializers: what turns arrays and files into chunks of sequences."""

from sweephand.deserializers import (
    arrow,
    ctf,
    jsonl,
    megatron,
    npy,
    npz,
    parquet,
    raw_tokens,
    tfrecord_files,
)
from sweephand.deserializers.array import ArrayDeserializer
from sweephand.deserializers.arrow import ArrowDeserializer
from sweephand.deserializers.ctf import CTFDeserializer
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.jsonl import JSONLDeserializer
from sweephand.deserializers.map import MapDeserializer
from sweephand.deserializers.megatron import MegatronDeserializer
from sweephand.deserializers.npy import NpyDeserializer
from sweephand.deserializers.parquet import ParquetDeserializer
from sweephand.deserializers.raw_tokens import RawTokensDeserializer
from sweephand.deserializers.tfrecord_files import TFRecordDeserializer
from sweephand.deserializers.user import UserDeserializer

__all__ = [
    "ArrayDeserializer",
    "ArrowDeserializer",
    "CTFDeserializer",
    "Deserializer",
    "JSONLDeserializer",
    "MapDeserializer",
    "MegatronDeserializer",
    "NpyDeserializer",
    "ParquetDeserializer",
    "RawTokensDeserializer",
    "TFRecordDeserializer",
    "UserDeserializer",
]

# What `sh.open` recognises, the surest signs first.
FORMATS = (
    npy.FORMAT,
    npz.FORMAT,
    arrow.SAVED_DATASET,
    parquet.FORMAT,
    arrow.FORMAT,
    megatron.FORMAT,
    tfrecord_files.FORMAT,
    jsonl.FORMAT,
    ctf.FORMAT,
    raw_tokens.FORMAT,
)
