"""Methods of sources of other libraries, and their counterparts here."""

from __future__ import annotations

from sweephand.base.advice import advice_by_name

ON_SOURCE = advice_by_name("""
map apply transform with_transform
    it is the corpus', before the source: sh.MinibatchSource(corpus.map(function))
filter select where
    it is the corpus', before the source: sh.MinibatchSource(corpus.filter(function))
shuffle set_epoch reshuffle
    sweeps are shuffled already, by randomize=True and randomization_seed=;
    MinibatchSource(..., randomize=False) keeps the order
batch iter iterate dataloader iter_batches batch_size epochs
    write `for minibatch in source.sweep(size)`, a size in samples
next get_next get_batch next_batch get_minibatch
    it is source.next_minibatch(minibatch_size_in_samples)
steps_per_epoch num_batches num_minibatches num_steps
    it is len(source.sweep(size)), which ends with the sweep
num_samples num_sequences num_rows size
    it is source.num_samples_per_sweep or source.num_sequences_per_sweep
split train_test_split random_split
    split the corpus, train, validation = sh.split(corpus, validation=0.1), and make a source
    of each part
shard split_dataset_by_node
    write source.sweep(size, num_data_partitions=K, partition_index=rank)
repeat take
    a source goes on for ever, until MinibatchSource(..., max_sweeps=n) or max_samples=n
skip seek
    set source.current_position = samples, or source.events.skip(start, stop)
prefetch
    it is MinibatchSource(..., prefetch=n), in minibatches
concatenate interleave zip
    corpora are joined by sh.MinibatchSource([words, labels]) and mixed by sh.Mixture
reset reset_state rewind restart
    set source.current_position = 0 to begin anew
save_state save state get_state checkpoint
    it is source.get_checkpoint_state(), or state_dict(): a dict for JSON
load load_state set_state restore resume
    it is source.restore_from_checkpoint(state), or load_state_dict(state)
fit train
    write a loop over source.sweep(size), or sh.training_session(trainer, source, size)
columns column_names features fields keys schema
    it is source.streams
classes class_names
    it is source['label'].classes
deserializers dataset corpus data
    keep the corpus that the source was made of; its streams are source.streams
collate_fn pad pack
    it is MinibatchSource(..., layout=sh.Padded())
head sample peek first
    source.show(size) makes a page of the next minibatch, and leaves the source as it is
to_torch torch to_tf with_format set_format
    tensors come by minibatch.torch(device); a loader is
    sh.torch.DataLoader(sh.torch.IterableDataset(source, size))
""")
