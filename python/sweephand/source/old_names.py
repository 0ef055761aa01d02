"""Names of CNTK and of other libraries, and their replacements."""

from __future__ import annotations

from collections.abc import Collection

from sweephand.base.advice import advice_by_name

# Names that a user of CNTK may look for in vain, and their replacements.
ELSEWHERE = advice_by_name("""
MinibatchSourceConfig
    give its options to MinibatchSource itself
UserMinibatchSource
    write a UserDeserializer, which is shuffled, shared and resumed for you; a Trainer also
    takes minibatches that are dicts of your own
StreamInformation
    it is StreamInfo(name, dtype, shape, is_sparse)
StreamConfiguration
    it is StreamDef
text_format_minibatch_source
    it is MinibatchSource(CTFDeserializer(...))
ImageDeserializer
    it is ImageFolder(map_file), mapped by sweephand.decode.image
Base64ImageDeserializer
    a MapDeserializer serves the images that your code decodes
TrainingSummaryProgressCallback
    it is a sweephand.train.ProgressWriter whose write(record) you define
UserLearner
    it is sweephand.torch.Learner around a torch optimizer of your own
sgd momentum_sgd nesterov adagrad fsadagrad adam rmsprop adadelta universal
    learners of arrays are in sweephand.numpy; sweephand.torch.Learner is around any torch
    optimizer
data_parallel_distributed_learner block_momentum_distributed_learner Communicator
    workers ask for their share by num_data_partitions and partition_index; with torch the
    model is in a DistributedDataParallel
input_variable input parameter constant placeholder Variable Axis Function layers ops
functions combine sequence initializer losses relu softmax sigmoid tanh times plus
glorot_uniform cross_entropy_with_softmax classification_error squared_error load_model
cntk_py debugging user_function default_options element_select
    models, losses and devices are the framework's: Trainer(model, criterion, learners) takes
    a torch.nn.Module
distributed
    workers ask for their share by num_data_partitions and partition_index; with torch the
    model is in a DistributedDataParallel; sweephand.torch.distributed finds both
LatticeDeserializer
    lattices are read by your code, in a UserDeserializer
""")

# Names that users of torch, Hugging Face, Grain and Mosaic may look for.
IN_OTHER_LIBRARIES = advice_by_name("""
DataLoader Loader StatefulDataLoader StreamingDataLoader
    minibatches come from source = MinibatchSource(corpus), by source.sweep(size); a loader of
    torch is sweephand.torch.DataLoader
Dataset StreamingDataset MapDataset IterDataset Subset
    sweephand.open(path) opens the corpus at a path or URL, whatever its format is;
    MapDeserializer(dataset) serves a data set of your own
IterableDataset
    it is sweephand.torch.IterableDataset(source, size)
TensorDataset ArrayDataset from_numpy from_arrays from_dict from_tensor_slices
    arrays are served by MinibatchSource({'x': X, 'y': y})
from_pandas from_arrow from_polars
    a table is served as it is, by MinibatchSource(table)
load load_dataset load_from_disk open_dataset read dataset data Corpus corpus
    sweephand.open(path) opens the corpus at a path or URL, whatever its format is
Source Epoch epoch sweep batch Batch minibatches
    minibatches come from source = MinibatchSource(corpus), by source.sweep(size)
random_split train_test_split
    it is split(corpus, validation=0.1)
ConcatDataset concatenate_datasets concat
    files of one corpus are sweephand.open([a, b]); of others it is Mixture({'a': a, 'b': b},
    weights={'a': 3, 'b': 1})
interleave interleave_datasets mix Mix
    it is Mixture({'a': a, 'b': b}, weights={'a': 3, 'b': 1})
WeightedRandomSampler balance
    it is Mixture.by(corpus, 'label', weights='equal')
RandomSampler DistributedSampler Sampler shuffle DistributedDataLoader
    a source shuffles by itself, and workers share minibatches by num_data_partitions and
    partition_index
Padding Pad pad PadCollator pad_sequence
    it is Padded(), a layout: MinibatchSource(corpus, layout=sh.Padded())
Collator collate collate_fn default_collate DataCollator
    a layout makes the arrays of a minibatch: MinibatchSource(corpus, layout=sh.Padded()),
    Packed(row_length), Bucketed('auto')
from_generator from_iterable GeneratorDataset
    what has an order is MapDeserializer(list(items)); what is made chunk by chunk a
    UserDeserializer
HFDataset HuggingFaceDeserializer HFDeserializer
    it is ArrowDeserializer(dataset), or open(folder) of save_to_disk
Tokenizer tokenizer tokenize encode
    texts become tokens in a map, corpus.map(function, size='measured'), and conversations in
    sweephand.chat.encode(tokenizer)
seed manual_seed set_seed seed_everything set_random_seed
    the order's seed is MinibatchSource(corpus, randomization_seed=1)
cuda device to_torch to_device tensor pin_memory
    tensors come by minibatch.torch('cuda')
audio image imread read_image
    it is a map of sweephand.decode: corpus.map(sh.decode.image('image'))
EarlyStopping
    a session ends when the callback of its CrossValidationConfig returns False
accuracy Metric metrics evaluate Evaluator
    a criterion returns (loss sum, metric sum), and trainer.test_minibatch(minibatch) their
    mean
Stream
    a stream is declared by StreamDef, and described by StreamInfo
Packing Pack pack
    it is Packed(row_length), a layout
Bucketing Bucket BucketSampler
    it is Bucketed('auto'), a layout
BucketSentenceIter
    it is sweephand.mxnet.BucketSentenceIter
BucketingModule
    it is sweephand.torch.BucketingModule
Compose transforms
    steps for pictures are in sweephand.images
Adam AdamW SGD Lion RMSprop optim Learner TorchLearner
    learners of arrays are in sweephand.numpy; sweephand.torch.Learner is around any torch
    optimizer
GradScaler amp
    it is LossScaleOptimizer(optimizer)
lr_scheduler Scheduler LambdaLR LRScheduler StepLR
    it is learning_parameter_schedule, warmup, cosine or linear
Checkpoint checkpoint save ModelCheckpoint
    sessions save by CheckpointConfig(filename, frequency), a source by
    source.get_checkpoint_state()
Callback callbacks TensorBoard
    it is a sweephand.train.ProgressWriter whose write(record) you define, or one of
    TensorBoardProgressWriter, CSVProgressWriter, ProgressPrinter
fit Model nn
    models, losses and devices are the framework's: Trainer(model, criterion, learners) takes
    a torch.nn.Module
""")

# Names in modules of CNTK that are missing in the modules of the same name here.
IN_ROOMS = advice_by_name("""
transforms
    steps for pictures are in sweephand.images
progress_print
    it is sweephand.logging.ProgressPrinter itself
TraceLevel set_trace_level
    it is the level of logging.getLogger('sweephand')
log_number_of_parameters
    ask the model: sum(p.numel() for p in model.parameters())
graph
    graphs are the framework's
distributed
    workers ask for their share by num_data_partitions and partition_index; with torch the
    model is in a DistributedDataParallel
DataUnit
    a frequency is (n, 'minibatch'), (n, 'sweep') or (n, 'seconds')
IGNORE
    leave out the reference minibatch size: minibatch_size=None
""")


def room_error(room: str, name: str, names: Collection[str]) -> AttributeError:
    """Return the error for a name that a room of CNTK has, or that nobody has.

    Parameters
    ----------
    names : collection of str
        Those that exist in the room.
    """
    import sweephand

    if name in IN_ROOMS:
        hint = f"; {IN_ROOMS[name]}"
    elif name in sweephand.__all__:
        hint = f"; it is sweephand.{name}"
    else:
        hint = hint_at(name, names)
    return AttributeError(f"module 'sweephand.{room}' has no attribute {name!r}{hint}")


def hint_at(name: str, names: Collection[str]) -> str:
    """Return the advice on a name that does not exist; "" if there is none.

    Parameters
    ----------
    names : collection of str
        Those that exist, one of which may have been misspelled.
    """
    for known in (ELSEWHERE, IN_OTHER_LIBRARIES):
        if name in known:
            return f"; {known[name]}"
    if name.startswith("_"):  # as imports ask for rooms
        return ""
    from difflib import get_close_matches  # only here, as it takes its time to import

    lower = {one.lower(): one for one in names}
    close = get_close_matches(name.lower(), lower, 1, 0.85)
    if not close:  # ImageFolderDeserializer for ImageFolder
        close = sorted((one for one in lower if name.lower().startswith(one)), key=len)[-1:]
    if not close:
        close = get_close_matches(name.lower(), lower, 1, 0.7)
    if not close:  # JSONL for JSONLDeserializer
        close = [one for one in lower if len(name) > 2 and one.startswith(name.lower())][:1]
    return f"; is it {lower[close[0]]!r}?" if close else ""
