"""Layouts: how a minibatch is composed and laid out."""

from sweephand.layouts.base import Layout
from sweephand.layouts.bptt import TruncatedBPTT
from sweephand.layouts.bucketed import Bucketed
from sweephand.layouts.packed import Packed
from sweephand.layouts.padding import pad_element
from sweephand.layouts.plain import Frames, Padded, Ragged

__all__ = [
    "Bucketed",
    "Frames",
    "Layout",
    "Packed",
    "Padded",
    "Ragged",
    "TruncatedBPTT",
    "pad_element",
]
