"""The file of each public name; `import sweephand` reads this and imports none of them."""

from . import events as events
from . import extend as extend
from . import io as io
from . import learners as learners
from . import logging as logging
from . import mxnet as mxnet
from . import numpy as numpy
from . import tfrecord as tfrecord
from . import torch as torch
from . import train as train
from .corpus.node_cache import NodeCache as NodeCache
from .corpus.stream_defs import StreamDef as StreamDef
from .corpus.stream_defs import StreamDefs as StreamDefs
from .corpus.streams import StreamInfo as StreamInfo
from .corpus.streams import Streams as Streams
from .deserializers.array import ArrayDeserializer as ArrayDeserializer
from .deserializers.arrow import ArrowDeserializer as ArrowDeserializer
from .deserializers.csv_files import CSVDeserializer as CSVDeserializer
from .deserializers.ctf import CTFDeserializer as CTFDeserializer
from .deserializers.ctf import sequence_to_cntk_text_format as sequence_to_cntk_text_format
from .deserializers.deserializer import Deserializer as Deserializer
from .deserializers.image_folder import ImageFolder as ImageFolder
from .deserializers.jsonl import JSONLDeserializer as JSONLDeserializer
from .deserializers.map import MapDeserializer as MapDeserializer
from .deserializers.npy import NpyDeserializer as NpyDeserializer
from .deserializers.open_path import open as open
from .deserializers.parquet import ParquetDeserializer as ParquetDeserializer
from .deserializers.split import split as split
from .deserializers.text import TextDeserializer as TextDeserializer
from .deserializers.tfrecord_files import TFRecordDeserializer as TFRecordDeserializer
from .deserializers.tokens import MegatronDeserializer as MegatronDeserializer
from .deserializers.tokens import RawTokensDeserializer as RawTokensDeserializer
from .deserializers.user import UserDeserializer as UserDeserializer
from .deserializers.webdataset import WebDatasetDeserializer as WebDatasetDeserializer
from .errors import DataError as DataError
from .errors import LossScaleError as LossScaleError
from .errors import StaleError as StaleError
from .errors import StateError as StateError
from .errors import SweephandHint as SweephandHint
from .ext import chat as chat
from .ext import tfds as tfds
from .ext.follow.loss_ledger import LossLedger as LossLedger
from .ext.follow.spike_policy import SpikePolicy as SpikePolicy
from .ext.formats.array_record import ArrayRecordDeserializer as ArrayRecordDeserializer
from .ext.formats.hdf5 import HDF5Deserializer as HDF5Deserializer
from .ext.formats.htk import HTKFeatureDeserializer as HTKFeatureDeserializer
from .ext.formats.lance import LanceDeserializer as LanceDeserializer
from .ext.formats.lerobot import LeRobotDeserializer as LeRobotDeserializer
from .ext.formats.mds import MDSDeserializer as MDSDeserializer
from .ext.formats.mlf import HTKMLFDeserializer as HTKMLFDeserializer
from .ext.formats.zarr_stores import ZarrDeserializer as ZarrDeserializer
from .ext.integrations import ray as ray
from .ext.integrations import torchft as torchft
from .ext.vision import decode as decode
from .ext.vision import images as images
from .layouts.attention import Attention as Attention
from .layouts.base import Layout as Layout
from .layouts.bptt import TruncatedBPTT as TruncatedBPTT
from .layouts.bucketed import Bucketed as Bucketed
from .layouts.packed import Packed as Packed
from .layouts.plain import Frames as Frames
from .layouts.plain import Padded as Padded
from .layouts.plain import Ragged as Ragged
from .lengths import plan_lengths as plan_lengths
from .lengths.lengths_plan import LengthsMinibatch as LengthsMinibatch
from .lengths.lengths_plan import LengthsPlan as LengthsPlan
from .loans.desk import Desk as Desk
from .loans.desk import Loan as Loan
from .loans.desk import LoanError as LoanError
from .maps.key import Key as Key
from .maps.sequence_classes import classes as classes
from .minibatch.minibatch import Minibatch as Minibatch
from .minibatch.minibatch_data import MinibatchData as MinibatchData
from .mixtures.mixture import Mixture as Mixture
from .source.formula import cosine as cosine
from .source.formula import linear as linear
from .source.formula import warmup as warmup
from .source.formula import warmup_stable_decay as warmup_stable_decay
from .source.limits import FULL_DATA_SWEEP as FULL_DATA_SWEEP
from .source.limits import INFINITELY_REPEAT as INFINITELY_REPEAT
from .source.options import (
    DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS as DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
)
from .source.schedules import minibatch_size_schedule as minibatch_size_schedule
from .source.source import MinibatchSource as MinibatchSource
from .source.source import MinibatchSourceFromData as MinibatchSourceFromData
from .train.learners.schedules import (
    learning_parameter_schedule as learning_parameter_schedule,
)
from .train.learners.schedules import (
    learning_parameter_schedule_per_sample as learning_parameter_schedule_per_sample,
)
from .train.learners.schedules import (
    momentum_as_time_constant_schedule as momentum_as_time_constant_schedule,
)
from .train.learners.schedules import momentum_schedule as momentum_schedule
from .train.learners.schedules import (
    momentum_schedule_per_sample as momentum_schedule_per_sample,
)
from .train.loss_scale.judgement import Outliers as Outliers
from .train.loss_scale.judgement import StepResult as StepResult
from .train.loss_scale.step_guard import LossScaleOptimizer as LossScaleOptimizer
from .train.loss_scale.step_guard import StepGuard as StepGuard
from .train.session.minibatch_scaling import MinibatchScaling as MinibatchScaling
from .train.session.saving import CheckpointConfig as CheckpointConfig
from .train.session.session import training_session as training_session
from .train.session.training_run import PREEMPTED_EXIT_CODE as PREEMPTED_EXIT_CODE
from .train.session.validation import CrossValidationConfig as CrossValidationConfig
from .train.session.validation import LearningRateControl as LearningRateControl
from .train.session.validation import TestConfig as TestConfig
from .train.trainer.trainer import Trainer as Trainer
from .train.writers import CSVProgressWriter as CSVProgressWriter
from .train.writers import JSONLProgressWriter as JSONLProgressWriter
from .train.writers import ProgressPrinter as ProgressPrinter
from .train.writers import (
    TensorBoardProgressWriter as TensorBoardProgressWriter,
)

__version__: str
