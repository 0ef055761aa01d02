"""The file of each layout."""

from .base import Layout as Layout
from .base import pad_element as pad_element
from .base import padding_of as padding_of
from .bptt import TruncatedBPTT as TruncatedBPTT
from .bucketed import Bucketed as Bucketed
from .packed import Packed as Packed
from .plain import Frames as Frames
from .plain import Padded as Padded
from .plain import Ragged as Ragged
