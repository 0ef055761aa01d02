"""Arguments that have another name in other libraries, and their names here."""

from __future__ import annotations

_SHUFFLE = (
    "shuffling is the source's: MinibatchSource(..., randomize=True), the default, or False"
)
_SEED = "it is MinibatchSource(..., randomization_seed=...)"
_WINDOW = (
    "it is MinibatchSource(..., randomization_window_in_chunks=...) or "
    "randomization_window_in_samples=..."
)
_RANKS = "workers share minibatches by num_data_partitions=K and partition_index=rank"
_DROP_LAST = (
    "leave it out: nothing is dropped; in source.minibatches(size) a minibatch goes on into "
    "the next sweep, in source.sweep(size) the last one is smaller"
)
_EPOCHS = (
    "a source ends by MinibatchSource(..., max_sweeps=n); or loop `for epoch in range(n): for "
    "minibatch in source.sweep(size)`"
)
_LAYOUT = "it is MinibatchSource(..., layout=sh.Padded()), or another layout"
_TENSORS = "tensors come by minibatch.torch(device, non_blocking=True)"
_TRANSFORM = (
    "it is StreamDef(transforms=(function,)), or a dataset of your own in MapDeserializer"
)

_EVERYWHERE = (
    dict.fromkeys(["shuffle", "randomise"], _SHUFFLE)
    | dict.fromkeys(["seed", "random_seed", "random_state", "shuffle_seed", "generator"], _SEED)
    | dict.fromkeys(
        ["window", "window_size", "shuffle_window", "shuffle_buffer", "buffer_size"], _WINDOW
    )
    | dict.fromkeys(["world_size", "num_replicas", "num_shards"], _RANKS)
    | dict.fromkeys(["rank", "shard_id", "process_index"], _RANKS)
    | dict.fromkeys(["drop_last", "drop_remainder"], _DROP_LAST)
    | dict.fromkeys(["epochs", "num_epochs", "n_epochs", "max_epochs", "repeat"], _EPOCHS)
    | dict.fromkeys(["collate_fn", "collator", "pad", "padding", "pad_value"], _LAYOUT)
    | dict.fromkeys(["pin_memory", "non_blocking"], _TENSORS)
    | dict.fromkeys(["transform", "transforms", "preprocess"], _TRANSFORM)
)
_BATCH_SIZES = ["batch_size", "minibatch_size", "mini_batch_size", "batchsize", "mb_size"]
_PROCESSES = ["num_workers", "workers", "n_workers", "num_processes", "threads", "n_jobs"]

SOURCE: dict[str, str] = (
    _EVERYWHERE
    | dict.fromkeys(
        [*_BATCH_SIZES, "size", "minibatch_size_in_samples"],
        "a size, in samples, is asked for with every loop: source.sweep(size), "
        "source.minibatches(size) or source.next_minibatch(size)",
    )
    | dict.fromkeys(
        _PROCESSES,
        "threads that prepare minibatches are num_threads=...; ranks that share them ask by "
        "num_data_partitions and partition_index",
    )
    | dict.fromkeys(["prefetch_factor", "prefetch_size"], "it is prefetch=..., in minibatches")
    | dict.fromkeys(["num_data_partitions", "partition_index"],
                    "a share is asked for with every minibatch: source.next_minibatch(size, "
                    "num_data_partitions=K, partition_index=rank), source.sweep(...) too")
    | dict.fromkeys(["device"], _TENSORS)
    | dict.fromkeys(["streams", "columns", "features"], "streams are the deserializer's")
    | dict.fromkeys(["dataset", "data", "corpus"], "it is the first argument, deserializers")
)  # fmt: skip
SIZED: dict[str, str] = (
    _EVERYWHERE
    | dict.fromkeys(_BATCH_SIZES, "it is the first argument, size, in samples")
    | {"minibatch_size_in_samples": "here it is the first argument, size"}
    | dict.fromkeys(_PROCESSES, f"{_RANKS}; threads are MinibatchSource(..., num_threads=...)")
    | {"prefetch": "it is MinibatchSource(..., prefetch=...)"}
    | {"layout": _LAYOUT, "device": _TENSORS}
    | dict.fromkeys(
        ["max_sweeps", "max_samples"], "limits are the source's: MinibatchSource(...)"
    )
)
NEXT: dict[str, str] = SIZED | dict.fromkeys(
    [*_BATCH_SIZES, "size"], "it is the first argument, minibatch_size_in_samples"
)
DATASET: dict[str, str] = (
    SIZED
    | dict.fromkeys(
        ["num_workers", "prefetch_factor", "persistent_workers", "pin_memory"],
        "give it to the loader, sh.torch.DataLoader(dataset, ...)",
    )
    | dict.fromkeys(["workers", "n_workers"], _RANKS)
    | dict.fromkeys(["collate_fn", "transform", "transforms"], "it is to_item=...")
)
TRAINER: dict[str, str] = (
    _EVERYWHERE
    | dict.fromkeys(
        [*_BATCH_SIZES, "size"],
        "a minibatch has its size when it comes: training_session(..., mb_size=...), or "
        "source.sweep(size)",
    )
    | dict.fromkeys(["loss", "loss_fn", "loss_function"], "it is criterion(model, minibatch)")
    | dict.fromkeys(
        ["optimizer", "optimizers", "optim"], "it is learners=sh.torch.Learner(optimizer, lr)"
    )
    | dict.fromkeys(["lr", "learning_rate"], "the rate is the learner's schedule")
    | dict.fromkeys(["device"], "the model's device is taken")
    | dict.fromkeys(["callbacks", "logger"], "it is progress_writers=...")
    | dict.fromkeys(["train_dataset", "dataset", "train_loader", "data"],
                    "data come by train_minibatch(minibatch), or by training_session")
    | dict.fromkeys(["gradient_accumulation_steps", "accumulate_grad_batches"],
                    "it is sub_minibatches=...")
    | dict.fromkeys(_PROCESSES, _RANKS)
    | dict.fromkeys(["epochs", "num_epochs", "n_epochs", "max_epochs"],
                    "it is training_session(..., max_samples=n * source.num_samples_per_sweep)")
)  # fmt: skip
SESSION: dict[str, str] = (
    TRAINER
    | dict.fromkeys([*_BATCH_SIZES[:-1], "size", "minibatch_size_in_samples"],
                    "it is mb_size=..., in samples")
    | dict.fromkeys(["epochs", "num_epochs", "n_epochs", "max_epochs", "max_sweeps"],
                    "it is max_samples=n * source.num_samples_per_sweep")
    | dict.fromkeys(["source", "train_dataset", "dataset", "train_loader", "data", "loader"],
                    "it is mb_source=..., a MinibatchSource")
    | dict.fromkeys(["max_steps", "steps", "num_steps"], "it is max_samples=..., in samples")
    | dict.fromkeys(["save_every", "checkpoint", "checkpoint_dir", "output_dir"],
                    "it is checkpoint_config=sh.CheckpointConfig(filename, frequency)")
    | dict.fromkeys(["eval_dataset", "validation_data", "val_loader", "validation"],
                    "it is cv_config=sh.CrossValidationConfig(source, frequency, size)")
)  # fmt: skip
