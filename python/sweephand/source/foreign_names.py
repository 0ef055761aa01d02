"""Arguments that have another name in other libraries, and their names here."""

from __future__ import annotations

from sweephand.base.advice import advice_by_name

_EVERYWHERE = advice_by_name("""
shuffle randomise
    shuffling is the source's: MinibatchSource(..., randomize=True), the default, or False
seed random_seed random_state shuffle_seed generator
    it is MinibatchSource(..., randomization_seed=...)
window window_size shuffle_window shuffle_buffer buffer_size
    it is MinibatchSource(..., randomization_window_in_chunks=...) or
    randomization_window_in_samples=...
world_size num_replicas num_shards rank shard_id process_index
    workers share minibatches by num_data_partitions=K and partition_index=rank
drop_last drop_remainder
    leave it out: nothing is dropped; in source.minibatches(size) a minibatch goes on into the
    next sweep, in source.sweep(size) the last one is smaller
epochs num_epochs n_epochs max_epochs repeat
    a source ends by MinibatchSource(..., max_sweeps=n); or loop `for epoch in range(n): for
    minibatch in source.sweep(size)`
collate_fn collator pad padding pad_value
    it is MinibatchSource(..., layout=sh.Padded()), or another layout
pin_memory non_blocking
    tensors come by minibatch.torch(device, non_blocking=True)
transform transforms preprocess
    it is StreamDef(transforms=(function,)), or a dataset of your own in MapDeserializer
""")
SOURCE = _EVERYWHERE | advice_by_name("""
batch_size minibatch_size mini_batch_size batchsize mb_size size minibatch_size_in_samples
    a size, in samples, is asked for with every loop: source.sweep(size),
    source.minibatches(size) or source.next_minibatch(size)
num_workers workers n_workers num_processes threads n_jobs
    threads that prepare minibatches are num_threads=...; ranks that share them ask by
    num_data_partitions and partition_index
prefetch_factor prefetch_size
    it is prefetch=..., in minibatches
num_data_partitions partition_index
    a share is asked for with every minibatch: source.next_minibatch(size,
    num_data_partitions=K, partition_index=rank), source.sweep(...) too
device
    tensors come by minibatch.torch(device, non_blocking=True)
streams columns features
    streams are the deserializer's
dataset data corpus
    it is the first argument, deserializers
""")
SIZED = _EVERYWHERE | advice_by_name("""
batch_size minibatch_size mini_batch_size batchsize mb_size
    it is the first argument, size, in samples
minibatch_size_in_samples
    here it is the first argument, size
num_workers workers n_workers num_processes threads n_jobs
    workers share minibatches by num_data_partitions=K and partition_index=rank; threads are
    MinibatchSource(..., num_threads=...)
prefetch
    it is MinibatchSource(..., prefetch=...)
layout
    it is MinibatchSource(..., layout=sh.Padded()), or another layout
device
    tensors come by minibatch.torch(device, non_blocking=True)
max_sweeps max_samples
    limits are the source's: MinibatchSource(...)
""")
NEXT = SIZED | advice_by_name("""
batch_size minibatch_size mini_batch_size batchsize mb_size size
    it is the first argument, minibatch_size_in_samples
""")
DATASET = SIZED | advice_by_name("""
collate_fn transform transforms
    it is to_item=...
pin_memory num_workers prefetch_factor persistent_workers
    give it to the loader, sh.torch.DataLoader(dataset, ...)
workers n_workers
    workers share minibatches by num_data_partitions=K and partition_index=rank
""")
TRAINER = _EVERYWHERE | advice_by_name("""
epochs num_epochs n_epochs max_epochs
    it is training_session(..., max_samples=n * source.num_samples_per_sweep)
batch_size minibatch_size mini_batch_size batchsize mb_size size
    a minibatch has its size when it comes: training_session(..., mb_size=...), or
    source.sweep(size)
loss loss_fn loss_function
    it is criterion(model, minibatch)
optimizer optimizers optim
    it is learners=sh.torch.Learner(optimizer, lr)
lr learning_rate
    the rate is the learner's schedule
device
    the model's device is taken
callbacks logger
    it is progress_writers=...
train_dataset dataset train_loader data
    data come by train_minibatch(minibatch), or by training_session
gradient_accumulation_steps accumulate_grad_batches
    it is sub_minibatches=...
num_workers workers n_workers num_processes threads n_jobs
    workers share minibatches by num_data_partitions=K and partition_index=rank
""")
SESSION = TRAINER | advice_by_name("""
epochs num_epochs n_epochs max_epochs max_sweeps
    it is max_samples=n * source.num_samples_per_sweep
batch_size minibatch_size mini_batch_size batchsize size minibatch_size_in_samples
    it is mb_size=..., in samples
train_dataset dataset train_loader data source loader
    it is mb_source=..., a MinibatchSource
max_steps steps num_steps
    it is max_samples=..., in samples
save_every checkpoint checkpoint_dir output_dir
    it is checkpoint_config=sh.CheckpointConfig(filename, frequency)
eval_dataset validation_data val_loader validation
    it is cv_config=sh.CrossValidationConfig(source, frequency, size)
""")
