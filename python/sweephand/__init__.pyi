"""Where each public name lies; `import sweephand` reads this and imports none of them."""

from . import decode, events, images, mxnet, numpy, ray, tfds, tfrecord, torchft, train
from . import torch as torch
from .corpus.node_cache import NodeCache
from .corpus.stream_defs import StreamDef, StreamDefs
from .corpus.streams import StreamInfo, Streams
from .deserializers.array import ArrayDeserializer
from .deserializers.array_record import ArrayRecordDeserializer
from .deserializers.arrow import ArrowDeserializer
from .deserializers.cbf import CBFDeserializer
from .deserializers.csv_files import CSVDeserializer
from .deserializers.ctf import CTFDeserializer
from .deserializers.ctf_text import sequence_to_cntk_text_format
from .deserializers.deserializer import Deserializer
from .deserializers.hdf5 import HDF5Deserializer
from .deserializers.htk import HTKFeatureDeserializer
from .deserializers.image_folder import ImageFolder
from .deserializers.jsonl import JSONLDeserializer
from .deserializers.lance import LanceDeserializer
from .deserializers.map import MapDeserializer
from .deserializers.mds import MDSDeserializer
from .deserializers.megatron import MegatronDeserializer
from .deserializers.mlf import HTKMLFDeserializer
from .deserializers.npy import NpyDeserializer
from .deserializers.parquet import ParquetDeserializer
from .deserializers.raw_tokens import RawTokensDeserializer
from .deserializers.split import split
from .deserializers.text import TextDeserializer
from .deserializers.tfrecord_files import TFRecordDeserializer
from .deserializers.user import UserDeserializer
from .deserializers.webdataset import WebDatasetDeserializer
from .deserializers.zarr_stores import ZarrDeserializer
from .errors import DataError, LossScaleError, StaleError, StateError, SweephandHint
from .layouts.attention import Attention
from .layouts.base import Layout
from .layouts.bptt import TruncatedBPTT
from .layouts.bucketed import Bucketed
from .layouts.packed import Packed
from .layouts.plain import Frames, Padded, Ragged
from .maps.key import Key
from .minibatch.context_part import ContextPart
from .minibatch.minibatch import Minibatch
from .minibatch.minibatch_data import MinibatchData
from .mixtures.mixture import Mixture
from .open_path import open
from .source.by_score import ByScore
from .source.from_data import MinibatchSourceFromData
from .source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from .source.schedules.formula import cosine, linear, warmup, warmup_stable_decay
from .source.schedules.minibatch_sizes import minibatch_size_schedule
from .source.source import MinibatchSource
from .source.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
from .train.ledger.loss_ledger import LossLedger
from .train.loss_scale.loss_scale_optimizer import LossScaleOptimizer
from .train.loss_scale.step_result import StepResult
from .train.progress.file_writers import CSVProgressWriter, JSONLProgressWriter
from .train.progress.printer import ProgressPrinter
from .train.progress.tensorboard_writer import TensorBoardProgressWriter
from .train.schedules.learning_rates import (
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
)
from .train.schedules.momenta import (
    momentum_as_time_constant_schedule,
    momentum_schedule,
    momentum_schedule_per_sample,
)
from .train.session.checkpoint_config import CheckpointConfig
from .train.session.evaluation_configs import CrossValidationConfig, TestConfig
from .train.session.learning_rate_control import LearningRateControl
from .train.session.minibatch_scaling import MinibatchScaling
from .train.session.preemption import PREEMPTED_EXIT_CODE
from .train.session.session import training_session
from .train.spikes.spike_policy import SpikePolicy
from .train.trainer.trainer import Trainer

__version__: str

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "PREEMPTED_EXIT_CODE",
    "ArrayDeserializer",
    "ArrayRecordDeserializer",
    "ArrowDeserializer",
    "Attention",
    "Bucketed",
    "ByScore",
    "CBFDeserializer",
    "CSVDeserializer",
    "CSVProgressWriter",
    "CTFDeserializer",
    "CheckpointConfig",
    "ContextPart",
    "CrossValidationConfig",
    "DataError",
    "Deserializer",
    "Frames",
    "HDF5Deserializer",
    "HTKFeatureDeserializer",
    "HTKMLFDeserializer",
    "ImageFolder",
    "JSONLDeserializer",
    "JSONLProgressWriter",
    "Key",
    "LanceDeserializer",
    "Layout",
    "LearningRateControl",
    "LossLedger",
    "LossScaleError",
    "LossScaleOptimizer",
    "MDSDeserializer",
    "MapDeserializer",
    "MegatronDeserializer",
    "Minibatch",
    "MinibatchData",
    "MinibatchScaling",
    "MinibatchSource",
    "MinibatchSourceFromData",
    "Mixture",
    "NodeCache",
    "NpyDeserializer",
    "Packed",
    "Padded",
    "ParquetDeserializer",
    "ProgressPrinter",
    "Ragged",
    "RawTokensDeserializer",
    "SpikePolicy",
    "StaleError",
    "StateError",
    "StepResult",
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "Streams",
    "SweephandHint",
    "TFRecordDeserializer",
    "TensorBoardProgressWriter",
    "TestConfig",
    "TextDeserializer",
    "Trainer",
    "TruncatedBPTT",
    "UserDeserializer",
    "WebDatasetDeserializer",
    "ZarrDeserializer",
    "__version__",
    "cosine",
    "decode",
    "events",
    "images",
    "learning_parameter_schedule",
    "learning_parameter_schedule_per_sample",
    "linear",
    "minibatch_size_schedule",
    "momentum_as_time_constant_schedule",
    "momentum_schedule",
    "momentum_schedule_per_sample",
    "mxnet",
    "numpy",
    "open",
    "ray",
    "sequence_to_cntk_text_format",
    "split",
    "tfds",
    "tfrecord",
    "torchft",
    "train",
    "training_session",
    "warmup",
    "warmup_stable_decay",
]
