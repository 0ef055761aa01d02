"""Where each name for extensions is defined."""

from sweephand import _core as _core
from sweephand.base.checks import OptionalModule as OptionalModule
from sweephand.base.checks import check_choice as check_choice
from sweephand.base.checks import check_flag as check_flag
from sweephand.base.checks import check_function as check_function
from sweephand.base.checks import check_int as check_int
from sweephand.base.checks import check_number as check_number
from sweephand.base.memory import check_memory as check_memory
from sweephand.base.pictures import MOST_PIXEL_BYTES as MOST_PIXEL_BYTES
from sweephand.base.pictures import open_picture as open_picture
from sweephand.cli.answers import Answer as Answer
from sweephand.cli.answers import WrongUsage as WrongUsage
from sweephand.cli.options import add_corpus as add_corpus
from sweephand.cli.options import add_layout as add_layout
from sweephand.cli.options import add_order as add_order
from sweephand.cli.options import add_scores as add_scores
from sweephand.cli.options import add_size as add_size
from sweephand.cli.options import count as count
from sweephand.cli.options import flag as flag
from sweephand.cli.options import make_source as make_source
from sweephand.cli.options import minibatch_size as minibatch_size
from sweephand.cli.options import open_either as open_either
from sweephand.cli.options import option as option
from sweephand.cli.options import whole as whole
from sweephand.cli.picture import keep_picture as keep_picture
from sweephand.cli.script_corpus import object_of_script as object_of_script
from sweephand.corpus import chunks as chunks
from sweephand.corpus.casts import unmasked as unmasked
from sweephand.corpus.chunks import make_chunk as make_chunk
from sweephand.corpus.columns import ColumnData as ColumnData
from sweephand.corpus.columns import column_of_bytes as column_of_bytes
from sweephand.corpus.columns import concat_columns as concat_columns
from sweephand.corpus.columns import offsets_of as offsets_of
from sweephand.corpus.corpus import Corpus as Corpus
from sweephand.corpus.corpus import StoredCorpus as StoredCorpus
from sweephand.corpus.describe import describe_stream as describe_stream
from sweephand.corpus.ids import GivenIds as GivenIds
from sweephand.corpus.ids import SequenceIds as SequenceIds
from sweephand.corpus.ids import ShardIds as ShardIds
from sweephand.corpus.join import join as join
from sweephand.corpus.ledger import Ledger as Ledger
from sweephand.corpus.members import splits_of as splits_of
from sweephand.corpus.objects import object_text as object_text
from sweephand.corpus.objects import objects_column as objects_column
from sweephand.corpus.own_values import own_result as own_result
from sweephand.corpus.picture_shapes import is_picture as is_picture
from sweephand.corpus.reader import StoredReader as StoredReader
from sweephand.corpus.sizes import Sizing as Sizing
from sweephand.corpus.sizes import check_offsets as check_offsets
from sweephand.corpus.sizes import chunks_between as chunks_between
from sweephand.corpus.streams import size_stream as size_stream
from sweephand.corpus.wanted_streams import StreamsLike as StreamsLike
from sweephand.corpus.wanted_streams import choose_streams as choose_streams
from sweephand.corpus.wanted_streams import stream_per_name as stream_per_name
from sweephand.deserializers.deserializer import DerivedDeserializer as DerivedDeserializer
from sweephand.deserializers.deserializer import brief as brief
from sweephand.deserializers.format import Format as Format
from sweephand.deserializers.formats import SelfDescribed as SelfDescribed
from sweephand.deserializers.formats import Wanted as Wanted
from sweephand.deserializers.source_data import SourceData as SourceData
from sweephand.deserializers.units.array_elements import TEXT as TEXT
from sweephand.deserializers.units.array_elements import StoredArray as StoredArray
from sweephand.deserializers.units.array_elements import column_of as column_of
from sweephand.deserializers.units.array_elements import element_of as element_of
from sweephand.deserializers.units.array_elements import kind_of as kind_of
from sweephand.deserializers.units.array_elements import row_bytes as row_bytes
from sweephand.deserializers.units.array_elements import sample_bytes as sample_bytes
from sweephand.deserializers.units.arrow_units import ArrowUnits as ArrowUnits
from sweephand.deserializers.units.arrow_units import data_errors as data_errors
from sweephand.deserializers.units.arrow_units import empty_batch as empty_batch
from sweephand.deserializers.units.arrow_units import read_schema as read_schema
from sweephand.deserializers.units.arrow_units import streams_of as streams_of
from sweephand.deserializers.units.file_columns import FileColumn as FileColumn
from sweephand.deserializers.units.file_columns import read_columns as read_columns
from sweephand.deserializers.units.indexed import IndexedDeserializer as IndexedDeserializer
from sweephand.deserializers.units.kept_scans import all_follow as all_follow
from sweephand.deserializers.units.kept_scans import check_array as check_array
from sweephand.deserializers.units.kept_scans import check_ends as check_ends
from sweephand.deserializers.units.kept_scans import check_first_rows as check_first_rows
from sweephand.deserializers.units.kept_scans import check_places as check_places
from sweephand.deserializers.units.kept_scans import check_row_runs as check_row_runs
from sweephand.deserializers.units.kept_scans import check_units as check_units
from sweephand.deserializers.units.kept_scans import require as require
from sweephand.deserializers.units.kept_scans import spread as spread
from sweephand.deserializers.units.payloads import guess_payload as guess_payload
from sweephand.deserializers.units.payloads import guess_streams as guess_streams
from sweephand.deserializers.units.payloads import make_payload as make_payload
from sweephand.deserializers.units.placed import PlacedDeserializer as PlacedDeserializer
from sweephand.deserializers.units.placed import add_placed as add_placed
from sweephand.deserializers.units.placed import add_units as add_units
from sweephand.deserializers.units.placed import samples_of as samples_of
from sweephand.deserializers.units.records import Places as Places
from sweephand.deserializers.units.records import RecordDeserializer as RecordDeserializer
from sweephand.deserializers.units.row_ids import RowIds as RowIds
from sweephand.deserializers.units.row_table import RowTable as RowTable
from sweephand.deserializers.units.tf_examples import PADDING as PADDING
from sweephand.deserializers.units.tf_examples import ExampleField as ExampleField
from sweephand.deserializers.units.tf_examples import decode_examples as decode_examples
from sweephand.deserializers.units.unit_scan import Columns as Columns
from sweephand.deserializers.units.unit_scan import Facts as Facts
from sweephand.deserializers.units.unit_scan import SampleType as SampleType
from sweephand.deserializers.units.unit_scan import UnitScan as UnitScan
from sweephand.deserializers.units.unit_scan import known_fields as known_fields
from sweephand.errors import ArgumentTypeError as ArgumentTypeError
from sweephand.errors import printable as printable
from sweephand.errors import shown as shown
from sweephand.errors import some_of as some_of
from sweephand.events.event import Ban as Ban
from sweephand.events.event import Event as Event
from sweephand.events.event import event_of as event_of
from sweephand.events.event_list import digest_of as digest_of
from sweephand.ext.formats.array_record_reader import ArrayRecords as ArrayRecords
from sweephand.files.access import access_to as access_to
from sweephand.files.content_file import ContentFile as ContentFile
from sweephand.files.find import find_files as find_files
from sweephand.files.find import find_shards as find_shards
from sweephand.files.find import list_paths as list_paths
from sweephand.files.index_arrays import stored_in as stored_in
from sweephand.files.index_arrays import unpack_part as unpack_part
from sweephand.files.index_file import Advance as Advance
from sweephand.files.index_file import Index as Index
from sweephand.files.index_file import Scan as Scan
from sweephand.files.index_file import load_index as load_index
from sweephand.files.index_places import Keep as Keep
from sweephand.files.index_places import check_keep as check_keep
from sweephand.files.inflate import Compression as Compression
from sweephand.files.inflate import InflatedFile as InflatedFile
from sweephand.files.local import LocalFile as LocalFile
from sweephand.files.local import join_pieces as join_pieces
from sweephand.files.local import not_found as not_found
from sweephand.files.local import open_regular as open_regular
from sweephand.files.local import refuse_irregular as refuse_irregular
from sweephand.files.local import stat_file as stat_file
from sweephand.files.paths import AnyPath as AnyPath
from sweephand.files.paths import as_path as as_path
from sweephand.files.paths import bytes_at as bytes_at
from sweephand.files.paths import folders_at as folders_at
from sweephand.files.paths import folders_like as folders_like
from sweephand.files.paths import head_of as head_of
from sweephand.files.paths import is_glob as is_glob
from sweephand.files.paths import read_file as read_file
from sweephand.files.paths import stat_all as stat_all
from sweephand.files.range_reader import RangeReader as RangeReader
from sweephand.files.remote_path import RemotePath as RemotePath
from sweephand.files.room import room_for as room_for
from sweephand.files.source_file import FileList as FileList
from sweephand.files.source_file import Files as Files
from sweephand.files.source_file import PathLike as PathLike
from sweephand.files.source_file import SourceFile as SourceFile
from sweephand.files.source_file import empty_corpus as empty_corpus
from sweephand.files.source_file import spec_of as spec_of
from sweephand.files.urls import is_url as is_url
from sweephand.layouts.by_name import layout_by_name as layout_by_name
from sweephand.layouts.by_name import layout_names as layout_names
from sweephand.layouts.by_name import layout_of_length as layout_of_length
from sweephand.maps.known_map import KnownMap as KnownMap
from sweephand.maps.lengths import Lengths as Lengths
from sweephand.maps.open_context import OpenContext as OpenContext
from sweephand.minibatch.content_digest import sum_of_digests as sum_of_digests
from sweephand.minibatch.position import Position as Position
from sweephand.minibatch.share import PlannedMinibatch as PlannedMinibatch
from sweephand.minibatch.share import Share as Share
from sweephand.run import records as records
from sweephand.run.appended_file import AppendedFile as AppendedFile
from sweephand.run.locks import FileLock as FileLock
from sweephand.run.records import Block as Block
from sweephand.run.records import RecordKind as RecordKind
from sweephand.run.strict_json import to_json as to_json
from sweephand.run.writing import replaced_file as replaced_file
from sweephand.run.writing import writing as writing
from sweephand.source.cursor import Cursor as Cursor
from sweephand.source.plan import Plan as Plan
from sweephand.source.schedules.schedule import Number as Number
from sweephand.source.schedules.schedule import Schedule as Schedule
from sweephand.source.schedules.schedule import StepSchedule as StepSchedule
from sweephand.source.sizes import Size as Size
from sweephand.source.sizes import size_at as size_at
from sweephand.source.sizes import size_of as size_of
from sweephand.source.twin import twin_of as twin_of
from sweephand.source.whole_plans import WholePlans as WholePlans
from sweephand.terminal import pictures as pictures
from sweephand.terminal.charts import curve as curve
from sweephand.terminal.numbers import in_count as in_count
from sweephand.terminal.screen import Screen as Screen
from sweephand.torch.loaders.data_loader import DataLoader as DataLoader
from sweephand.torch.loaders.dataset import IterableDataset as IterableDataset
from sweephand.torch.minibatch.packed_rows import PackedRows as PackedRows
from sweephand.torch.minibatch.packed_rows import positions_of as positions_of
from sweephand.torch.minibatch.packed_rows import row_length_of as row_length_of
from sweephand.torch.minibatch.pictures import picture_of as picture_of
from sweephand.torch.minibatch.tensor import to_tensor as to_tensor
from sweephand.train.arguments import check_decay as check_decay
from sweephand.train.arguments import check_kind as check_kind
from sweephand.train.arguments import check_path as check_path
from sweephand.train.arguments import check_source as check_source
from sweephand.train.checkpoint.checkpoint_file import HashingSink as HashingSink
from sweephand.train.checkpoint.checkpoint_file import SavedFile as SavedFile
from sweephand.train.checkpoint.read_state import check_keys as check_keys
from sweephand.train.checkpoint.read_state import read_count as read_count
from sweephand.train.checkpoint.read_state import read_text as read_text
from sweephand.train.checkpoint.read_state import reading as reading
from sweephand.train.checkpoint.snapshot import Snapshot as Snapshot
from sweephand.train.progress.observer import Observer as Observer
from sweephand.train.progress.observer import TakenStep as TakenStep
from sweephand.train.progress.record import Record as Record
from sweephand.train.progress.record import Step as Step
from sweephand.train.progress.record import tracker_figures as tracker_figures
from sweephand.train.session.frequency import Frequency as Frequency
from sweephand.train.session.frequency import FrequencySpec as FrequencySpec
from sweephand.train.session.minibatch_feed import MinibatchFeed as MinibatchFeed
from sweephand.train.session.preemption import Preemption as Preemption
from sweephand.train.session.training_run import Activity as Activity
from sweephand.train.session.training_run import GoBack as GoBack
from sweephand.train.session.training_run import TrainingRun as TrainingRun
from sweephand.train.session.trials import trial_branch as trial_branch
from sweephand.train.trainer.loss_shapes import find_losses as find_losses
from sweephand.train.trainer.parameter_digest import file_of_tensors as file_of_tensors
from sweephand.train.trainer.part_norms import PartNorms as PartNorms
from sweephand.train.trainer.part_norms import noise_quotient as noise_quotient
from sweephand.train.trainer.trained_model import Data as Data
from sweephand.train.trainer.workers import Workers as Workers
from sweephand.train.trainer.workers import on_first as on_first

__all__ = [
    "MOST_PIXEL_BYTES",
    "PADDING",
    "TEXT",
    "Activity",
    "Advance",
    "Answer",
    "AnyPath",
    "AppendedFile",
    "ArgumentTypeError",
    "ArrayRecords",
    "ArrowUnits",
    "Ban",
    "Block",
    "ColumnData",
    "Columns",
    "Compression",
    "ContentFile",
    "Corpus",
    "Cursor",
    "Data",
    "DataLoader",
    "DerivedDeserializer",
    "Event",
    "ExampleField",
    "Facts",
    "FileColumn",
    "FileList",
    "FileLock",
    "Files",
    "Format",
    "Frequency",
    "FrequencySpec",
    "GivenIds",
    "GoBack",
    "HashingSink",
    "Index",
    "IndexedDeserializer",
    "InflatedFile",
    "IterableDataset",
    "Keep",
    "KnownMap",
    "Ledger",
    "Lengths",
    "LocalFile",
    "MinibatchFeed",
    "Number",
    "Observer",
    "OpenContext",
    "OptionalModule",
    "PackedRows",
    "PartNorms",
    "PathLike",
    "PlacedDeserializer",
    "Places",
    "Plan",
    "PlannedMinibatch",
    "Position",
    "Preemption",
    "RangeReader",
    "Record",
    "RecordDeserializer",
    "RecordKind",
    "RemotePath",
    "RowIds",
    "RowTable",
    "SampleType",
    "SavedFile",
    "Scan",
    "Schedule",
    "Screen",
    "SelfDescribed",
    "SequenceIds",
    "ShardIds",
    "Share",
    "Size",
    "Sizing",
    "Snapshot",
    "SourceData",
    "SourceFile",
    "Step",
    "StepSchedule",
    "StoredArray",
    "StoredCorpus",
    "StoredReader",
    "StreamsLike",
    "TakenStep",
    "TrainingRun",
    "UnitScan",
    "Wanted",
    "WholePlans",
    "Workers",
    "WrongUsage",
    "_core",
    "access_to",
    "add_corpus",
    "add_layout",
    "add_order",
    "add_placed",
    "add_scores",
    "add_size",
    "add_units",
    "all_follow",
    "as_path",
    "brief",
    "bytes_at",
    "check_array",
    "check_choice",
    "check_decay",
    "check_ends",
    "check_first_rows",
    "check_flag",
    "check_function",
    "check_int",
    "check_keep",
    "check_keys",
    "check_kind",
    "check_memory",
    "check_number",
    "check_offsets",
    "check_path",
    "check_places",
    "check_row_runs",
    "check_source",
    "check_units",
    "choose_streams",
    "chunks",
    "chunks_between",
    "column_of",
    "column_of_bytes",
    "concat_columns",
    "count",
    "curve",
    "data_errors",
    "decode_examples",
    "describe_stream",
    "digest_of",
    "element_of",
    "empty_batch",
    "empty_corpus",
    "event_of",
    "file_of_tensors",
    "find_files",
    "find_losses",
    "find_shards",
    "flag",
    "folders_at",
    "folders_like",
    "guess_payload",
    "guess_streams",
    "head_of",
    "in_count",
    "is_glob",
    "is_picture",
    "is_url",
    "join",
    "join_pieces",
    "keep_picture",
    "kind_of",
    "known_fields",
    "layout_by_name",
    "layout_names",
    "layout_of_length",
    "list_paths",
    "load_index",
    "make_chunk",
    "make_payload",
    "make_source",
    "minibatch_size",
    "noise_quotient",
    "not_found",
    "object_of_script",
    "object_text",
    "objects_column",
    "offsets_of",
    "on_first",
    "open_either",
    "open_picture",
    "open_regular",
    "option",
    "own_result",
    "picture_of",
    "pictures",
    "positions_of",
    "printable",
    "read_columns",
    "read_count",
    "read_file",
    "read_schema",
    "read_text",
    "reading",
    "records",
    "refuse_irregular",
    "replaced_file",
    "require",
    "room_for",
    "row_bytes",
    "row_length_of",
    "sample_bytes",
    "samples_of",
    "shown",
    "size_at",
    "size_of",
    "size_stream",
    "some_of",
    "spec_of",
    "splits_of",
    "spread",
    "stat_all",
    "stat_file",
    "stored_in",
    "stream_per_name",
    "streams_of",
    "sum_of_digests",
    "to_json",
    "to_tensor",
    "trial_branch",
    "twin_of",
    "unmasked",
    "unpack_part",
    "whole",
    "writing",
]
