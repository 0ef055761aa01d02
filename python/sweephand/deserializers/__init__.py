"""Deserializers: what turns arrays and files into chunks of sequences."""

from sweephand.deserializers.array import ArrayDeserializer
from sweephand.deserializers.ctf import CTFDeserializer
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.jsonl import JSONLDeserializer
from sweephand.deserializers.map import MapDeserializer
from sweephand.deserializers.megatron import MegatronDeserializer
from sweephand.deserializers.npy import NpyDeserializer
from sweephand.deserializers.raw_tokens import RawTokensDeserializer
from sweephand.deserializers.tfrecord_files import TFRecordDeserializer
from sweephand.deserializers.user import UserDeserializer

__all__ = [
    "ArrayDeserializer",
    "CTFDeserializer",
    "Deserializer",
    "JSONLDeserializer",
    "MapDeserializer",
    "MegatronDeserializer",
    "NpyDeserializer",
    "RawTokensDeserializer",
    "TFRecordDeserializer",
    "UserDeserializer",
]
