"""Sources and deserializers where CNTK has them: ``C.io``."""

from sweephand.base.other_names import public_face
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamInfo
from sweephand.deserializers.ctf import CTFDeserializer, sequence_to_cntk_text_format
from sweephand.deserializers.user import UserDeserializer
from sweephand.ext.formats.htk import HTKFeatureDeserializer
from sweephand.ext.formats.htk import HTKStreamDef as StreamDef
from sweephand.ext.formats.mlf import HTKMLFDeserializer
from sweephand.minibatch.minibatch_data import MinibatchData
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.source.options import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
from sweephand.source.source import MinibatchSource, MinibatchSourceFromData

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "CTFDeserializer",
    "HTKFeatureDeserializer",
    "HTKMLFDeserializer",
    "MinibatchData",
    "MinibatchSource",
    "MinibatchSourceFromData",
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "UserDeserializer",
    "sequence_to_cntk_text_format",
]

__dir__, __getattr__ = public_face(__name__, __all__)
