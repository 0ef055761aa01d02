"""A user's program over the public face: it runs, and is clean for strict type checkers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sweephand as sh


def make_arrays() -> sh.ArrayDeserializer:
    """Arrays, ragged lists and labels."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 9, 200)
    return sh.ArrayDeserializer(
        {
            "x": [rng.standard_normal((n, 2)).astype(np.float32) for n in lengths],
            "label": rng.integers(0, 3, 200),
        },
        sh.StreamDefs(x=sh.StreamDef(defines_mb_size=True)),
    )


def read_files(folder: Path) -> list[sh.Deserializer]:
    """Write files and open them, by their format and by themselves."""
    records = folder / "train.tfrecord"
    sh.tfrecord.write(records, [{"tokens": [1, 2, 3], "label": 0}, {"tokens": [4], "label": 1}])
    text = folder / "train.ctf"
    text.write_text("0 |x 1 2 |y 1\n1 |x 3 4 |y 0\n")
    np.save(folder / "x.npy", np.zeros((4, 2), np.float32))
    streams = sh.StreamDefs(
        tokens=sh.StreamDef(dtype="int32", defines_mb_size=True), label=sh.StreamDef()
    )
    return [
        sh.TFRecordDeserializer(records, streams),
        sh.CTFDeserializer(
            text,
            sh.StreamDefs(
                x=sh.StreamDef(field="x", shape=2), y=sh.StreamDef(field="y", shape=1)
            ),
        ),
        sh.NpyDeserializer({"x": folder / "x.npy"}),
        sh.open(records),
    ]


class Items:
    """A map-style data set."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, NDArray[np.float32]]:
        return {"x": np.full((index + 1, 2), index, np.float32)}


def read_others(folder: Path) -> list[sh.Deserializer]:
    """Lines of JSON, bare tokens, items of a data set."""
    lines = folder / "train.jsonl"
    lines.write_text('{"x": [1, 2]}\n{"x": [3]}\n')
    tokens = folder / "tokens.bin"
    np.arange(100, dtype=np.uint16).tofile(tokens)
    return [
        sh.JSONLDeserializer(lines, sh.StreamDefs(x=sh.StreamDef(dtype="int64"))),
        sh.RawTokensDeserializer(tokens, "uint16", 10),
        sh.MapDeserializer(Items(), sh.StreamDefs(x=sh.StreamDef(defines_mb_size=True))),
    ]


def read_formats(folder: Path) -> list[sh.Deserializer]:
    return [
        sh.WebDatasetDeserializer(folder / "train-*.tar", ["jpg", "cls"], ids="__key__"),
        sh.HTKFeatureDeserializer(
            {"x": sh.io.StreamDef(scp="a.scp", context=(5, 5))}, root=folder
        ),
        sh.HTKMLFDeserializer("states", {"y": sh.io.StreamDef(mlf=["a.mlf"], shape=132)}, True),
        sh.MDSDeserializer(folder, {"tokens": sh.StreamDef(dtype="int64")}),
        sh.HDF5Deserializer(folder / "train.h5", ["x"], offsets={"x": "x/bounds"}),
        sh.ZarrDeserializer([folder / "train.zarr"], ids="name"),
        sh.ArrayRecordDeserializer(folder / "train.array_record", payload="example"),
        sh.LanceDeserializer(folder / "train.lance", ["tokens"], version=3),
        sh.LeRobotDeserializer(folder / "pusht", ["action", "observation.image"]),
        sh.TextDeserializer(folder / "train.txt", sample_by="document"),
        sh.CSVDeserializer(folder / "train.csv", delimiter=";"),
        sh.RawTokensDeserializer(folder / "train.ds", offsets=".index"),
    ]


def read_large(table: Any, parquet: Path, megatron: Path) -> sh.MinibatchSource:
    """What needs pyarrow, or files of other systems."""
    corpora: list[sh.Deserializer] = [
        sh.ArrowDeserializer(table, sh.StreamDefs(x=sh.StreamDef())),
        sh.ParquetDeserializer(str(parquet), sh.StreamDefs(y=sh.StreamDef(dtype="float32"))),
        sh.MegatronDeserializer(megatron),
    ]
    return sh.MinibatchSource(corpora, max_samples=sh.FULL_DATA_SWEEP, missing="drop")


class Squares(sh.UserDeserializer):
    """Chunks of a user's own."""

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef(dtype="float32", shape=(1,)))

    def num_chunks(self) -> int:
        return 3

    def get_chunk(self, chunk_id: int) -> dict[str, NDArray[np.float32]]:
        return {"x": np.full((4, 1), chunk_id**2, np.float32)}


def loop(corpus: sh.Deserializer) -> float:
    """Loops with a number and with a schedule; what a minibatch and its streams have."""
    total = 0.0
    with sh.MinibatchSource(corpus, randomization_seed=1, max_sweeps=1) as source:
        schedule = sh.minibatch_size_schedule([16, 32], epoch_size=100)
        for minibatch in source.minibatches(schedule):
            x: NDArray[np.float32] = minibatch["x"].values
            offsets: NDArray[np.int64] = minibatch["x"].offsets
            total += float(x.sum()) + int(offsets[-1])
        state: dict[str, Any] = source.get_checkpoint_state()
        source.restore_from_checkpoint(state)
        source.current_position = 0
        at_end: bool = source.next_minibatch(32).end_of_sweep
        assert at_end in (False, True)
        source.current_position = 0
        first: sh.Minibatch = source.next_minibatch(32)
        info: sh.StreamInfo = source.stream_info("x")
        data: sh.MinibatchData = first[info]
        ids: list[str] = list(first.ids)
        time: int = source.find(ids[0])
        assert time >= 0
        assert data.num_samples == first.num_samples
        dense: NDArray[Any] = data.asarray()
        assert dense.shape[0] == data.num_sequences
        sequences = data.as_sequences()
        assert len(sequences) == first.num_sequences
        total += len(source.sequence_ids(0, 10))
    unshuffled = sh.MinibatchSourceFromData({"x": np.arange(6.0)})
    total += float(unshuffled.next_minibatch(6)["x"].values.sum())
    return total


def lay_out(corpus: sh.Deserializer) -> list[float]:
    """Every layout."""
    layouts: list[sh.Layout] = [
        sh.Ragged(),
        sh.Padded(pad_value=0, side="left", multiple_of=8),
        sh.Packed(16),
        sh.Bucketed([4, 8, 16]),
        sh.TruncatedBPTT(4),
        sh.Frames(),
    ]
    fills: list[float] = []
    for layout in layouts:
        source = sh.MinibatchSource(corpus, layout=layout, max_sweeps=1)
        minibatch = source.next_minibatch(64)
        if isinstance(layout, sh.Packed):
            segments: NDArray[np.int32] = minibatch.segment_ids
            positions: NDArray[np.int32] = minibatch.position_ids
            assert segments.shape == positions.shape
            fills.append(minibatch.fill_ratio)
    return fills


def error_of(
    model: dict[str, NDArray[np.float32]], minibatch: sh.Minibatch
) -> tuple[float, list[NDArray[Any]]]:
    """The sums of a squared error and of its gradients."""
    x, y = minibatch["x"].values, minibatch["y"].values
    error = x @ model["w"] - y
    return float((error**2).sum()), [2 * x.T @ error]


def train(folder: Path) -> float:
    """A NumPy learner, a trainer, a session with everything, and a loss scale."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 3)).astype(np.float32)
    corpus = sh.ArrayDeserializer({"x": x, "y": x.sum(axis=1)})
    model = {"w": np.zeros(3, np.float32)}
    learner = sh.numpy.MomentumSGD(
        model,
        sh.learning_parameter_schedule([0.1, 0.05], minibatch_size=32, epoch_size=1000),
        sh.momentum_schedule(0.9),
    )
    writers: list[sh.train.ProgressWriter] = [sh.JSONLProgressWriter(folder / "log.jsonl")]
    trainer = sh.Trainer(model, error_of, learner, writers)
    applied: bool = trainer.train_minibatch(sh.MinibatchSource(corpus).next_minibatch(32))
    assert applied

    def after_validation(index: int, average: float, samples: int, minibatches: int) -> bool:
        return True

    sh.training_session(
        trainer,
        sh.MinibatchSource(corpus),
        mb_size=sh.minibatch_size_schedule("32 + 64", 500),
        max_samples=2000,
        epoch_size=500,
        checkpoint_config=sh.CheckpointConfig(folder / "checkpoint", frequency=1000),
        cv_config=sh.CrossValidationConfig(
            sh.MinibatchSource(corpus, max_sweeps=1), 1000, 100, after_validation
        ),
        lr_control=sh.LearningRateControl(reduce_if_improve_less_than=0.01),
        test_config=sh.TestConfig(sh.MinibatchSource(corpus, max_sweeps=1), 100),
    ).train()

    scaled = sh.LossScaleOptimizer(sh.numpy.SGD(model, 0.1), initial_scale=2.0**10)
    factor = float(scaled.get_scaled_loss(1.0))
    gradients = scaled.get_unscaled_gradients([np.full(3, factor, np.float32)])
    result: sh.StepResult = scaled.apply_gradients(zip(gradients, [model["w"]], strict=True))
    assert result.applied
    return trainer.previous_minibatch_loss_average


def train_torch(corpus: sh.Deserializer) -> float:
    """Tensors, a loader, a learner and a loss scale of torch."""
    import torch

    source = sh.MinibatchSource(corpus, max_sweeps=1)
    tensor: torch.Tensor = source.next_minibatch(32)["x"].torch()
    model = torch.nn.Linear(2, 1)
    optimizer = sh.LossScaleOptimizer(torch.optim.AdamW(model.parameters(), lr=0.01))
    loss = model(tensor).square().mean()
    optimizer.get_scaled_loss(loss).backward()
    result: sh.StepResult = optimizer.step()
    assert result.applied

    def criterion(model: torch.nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
        total: torch.Tensor = model(minibatch["x"].torch()).square().sum()
        return total

    learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), lr=0.1), 0.1)
    trainer = sh.Trainer(model, criterion, learner)
    trainer.train_minibatch(source.next_minibatch(32))
    dataset = sh.torch.IterableDataset(sh.MinibatchSource(corpus, max_sweeps=1), 32)
    for minibatch in sh.torch.DataLoader(dataset):
        assert minibatch is not None
    return trainer.previous_minibatch_loss_average


def read_tfds(folder: Path) -> int:
    """A prepared folder in the order of TFDS."""
    config = sh.tfds.ReadConfig(shuffle_seed=1)
    dataset = sh.tfds.load(folder, split="train[:75%]", shuffle_files=True, read_config=config)
    for minibatch in sh.MinibatchSource(dataset, randomize=False, max_sweeps=1).minibatches(8):
        assert minibatch.ids
    return len(dataset)


def damaged(folder: Path) -> str:
    """An error says where in the data."""
    path = folder / "damaged.ctf"
    path.write_text("0 |x 1 2\n1 |x one\n")
    try:
        with sh.MinibatchSource(
            sh.CTFDeserializer(path, sh.StreamDefs(x=sh.StreamDef("x", shape=2))), max_sweeps=1
        ) as source:
            source.next_minibatch(2)
    except sh.DataError as error:
        return f"{error.file} {error.line} {error.reason}"
    raise AssertionError


def main(folder: Path) -> None:
    """Do all of it that needs NumPy alone."""
    corpus = make_arrays()
    for one in read_files(folder) + read_others(folder):
        with sh.MinibatchSource(one, max_sweeps=1) as source:
            assert source.next_minibatch(2).num_sequences > 0
    assert loop(corpus) != 0
    assert loop(Squares()) != 0
    assert all(0 < fill <= 1 for fill in lay_out(sh.ArrayDeserializer({"x": [np.ones(9)] * 9})))
    assert train(folder) >= 0
    assert "damaged.ctf 2" in damaged(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
