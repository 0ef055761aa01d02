"""The table of benchmarks/RESULTS.md: what a user waits for, beside what could be."""

from __future__ import annotations

from typing import NamedTuple


class Goal(NamedTuple):
    """A bound for a figure: of its own unit, of MiB grown, or of that of another contender."""

    sign: str  # "≥" or "≤"
    value: float
    beside: str = ""  # speeds are compared, per processor second
    memory: bool = False


class Line(NamedTuple):
    """A contender of ours in a row of the suite, and those beside it."""

    workload: str
    row: str
    ours: str = "sweephand"
    limit: str = ""
    by_hand: str = ""
    peers: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()


def at_least(value: float, beside: str = "", **options: bool) -> Goal:
    return Goal("≥", value, beside, **options)


def at_most(value: float, **options: bool) -> Goal:
    return Goal("≤", value, **options)


def within(time: float, mebibytes: float) -> tuple[Goal, Goal]:
    return at_most(time), at_most(mebibytes, memory=True)


HAND = "NumPy by hand"
TORCH, GRAIN = "torch DataLoader, batched", "Grain MapDataset"
FROM_IMPORT = "bench_start.FromImport"
OF_USER = "a `UserDeserializer` of 10^6"
TEXT = "bench_start.FarPlaceOfText"
SCALER = "torch GradScaler, no norm"

LINES = [
    Line(
        "rows: 64 float32 and a label, 256 at a time",
        "bench_arrays.Rows",
        limit="C gather",
        by_hand=HAND,
        peers=(TORCH, "StatefulDataLoader, batched", GRAIN),
        goals=(at_least(0.6, "C gather"), at_least(1.5, HAND)),
    ),
    Line(
        "the same from `.npy` files",
        "bench_arrays.NpyRows",
        limit="C gather",
        by_hand=HAND,
        goals=(at_least(0.5, "sweephand, arrays"),),
    ),
    Line(
        "ragged int32 tokens, 16,384 at a time",
        "bench_arrays.Ragged",
        limit="C gather",
        by_hand=HAND,
        peers=(TORCH, GRAIN),
        goals=(at_least(0.6, "C gather"),),
    ),
    Line(
        "ragged, stored as int64, served as int32",
        "bench_arrays.Narrowed",
        limit="C gather",
        by_hand=HAND,
        goals=(at_least(0.65, "C gather"),),
    ),
    Line(
        "padded, with the mask",
        "bench_arrays.Padded",
        limit="C gather",
        by_hand=HAND,
        peers=(TORCH, GRAIN),
        goals=(at_least(0.6, "C gather"),),
    ),
    Line(
        "padded int64, stored as int32, with the mask",
        "bench_arrays.Widened",
        limit="C gather",
        by_hand=HAND,
        goals=(at_least(0.6, "C gather"),),
    ),
    Line(
        "packed rows, tokens and ids",
        "bench_arrays.Packed",
        limit="C best fit",
        by_hand=HAND,
        peers=("Grain, first fit, 64 open rows",),
        goals=(at_least(0.6, "C best fit"),),
    ),
    Line(
        "sequences of 1 to 4 tokens",
        "bench_arrays.Short",
        limit="C gather",
        by_hand=HAND,
        goals=(at_least(2, HAND),),
    ),
    Line(
        "a mixture of 100 corpora, ragged",
        "bench_arrays.Mixed",
        goals=(at_least(0.8, "sweephand, one corpus"),),
    ),
    Line(
        "the same in packed rows",
        "bench_arrays.MixedRows",
        goals=(at_least(0.8, "sweephand, one corpus"),),
    ),
    Line(
        "CTF, sparse",
        "bench_formats.SparseText",
        limit="C digits",
        by_hand=HAND,
        peers=("pyarrow, a table",),
        goals=(at_least(0.5, "C digits"),),
    ),
    Line(
        "CTF, sparse, short lines with comments",
        "bench_formats.ShortText",
        limit="C digits",
        peers=("pyarrow, a table",),
        goals=(at_least(0.5, "C digits"),),
    ),
    Line(
        "CTF, dense",
        "bench_formats.DenseText",
        limit="C digits",
        by_hand=HAND,
        peers=("pyarrow, a table",),
        goals=(at_least(0.8, "C digits"),),
    ),
    Line(
        "TFRecord examples of 714 bytes",
        "bench_formats.Records",
        limit="C varints",
        peers=("tf.data, one thread", "the `tfrecord` package"),
        goals=(at_least(0.5, "C varints"),),
    ),
    Line(
        "the same, served as int32",
        "bench_formats.Records",
        "sweephand, int32",
        limit="C varints",
        goals=(at_least(0.5, "C varints"),),
    ),
    Line(
        "TFRecord examples of 64 ids of eight bytes, four features",
        "bench_formats.RecordsOfIds",
        limit="C varints",
        goals=(at_least(0.5, "C varints"),),
    ),
    Line(
        "Parquet, lists of tokens",
        "bench_formats.Parquet",
        peers=("pyarrow alone",),
        goals=(at_least(0.8, "pyarrow alone"),),
    ),
    Line(
        "JPEG, random crop, flip, 2 threads",
        "bench_images.Jpegs",
        by_hand=HAND,
        peers=("Pillow alone", "torch DataLoader, 2 workers"),
        goals=(at_least(0.9, "Pillow alone"),),
    ),
    *(
        Line(
            f"first minibatch of 50 M unequal sequences, {name}",
            "bench_start.FirstMinibatch",
            name,
            peers=(GRAIN,),
            goals=(at_most(10), at_most(20, memory=True)),
        )
        for name in ("arrays", "mapped arrays", "`.npy` files")
    ),
    *(
        Line(f"the same with imports, {name}", FROM_IMPORT, corpus, goals=(at_most(most),))
        for name, corpus, most in (
            ("arrays", "50 M sequences, arrays", 30),
            ("mapped arrays", "50 M sequences, mapped arrays", 40),
            ("`.npy` files", "50 M sequences, `.npy` files", 60),
            ("resume of 200,000 sequences", "200,000 sequences, of a state at 80 %", 30),
        )
    ),
    *(
        Line(
            f"10^8 unequal sequences: {name} of another sweep",
            "bench_start.Seek",
            name,
            goals=(at_most(10),),
        )
        for name in ("start", "80 %")
    ),
    Line(
        "resume in a new process, 200,000 sequences, with opening",
        "bench_start.Resume",
        "with opening",
        peers=("Grain MapDataset, with opening",),
        goals=(at_most(5),),
    ),
    Line(
        "the same, from restore to the first minibatch",
        "bench_start.Resume",
        "from restore",
        goals=(at_most(2),),
    ),
    Line(
        "a place at 90 % of 10^7 chunks",
        "bench_start.Place",
        goals=(at_most(50), at_most(200, memory=True)),
    ),
    *(
        Line(workload, "bench_start.FarPlace", ours, goals=within(*bounds))
        for workload, ours, bounds in (
            ("a place in 10^12 samples, 16,384 lanes, 10^6 chunks", "10^6 chunks", (100, 100)),
            ("the same, 10^7 chunks", "10^7 chunks", (500, 300)),
            (f"the same, {OF_USER} chunks", OF_USER, (300, 150)),
        )
    ),
    *(
        Line(f"10^6 chunks of text, 16,384 lanes, {name}", TEXT, name, goals=within(100, 100))
        for name in ("opening", "a third of a sweep")
    ),
    Line(
        "a ready call, two streams, after steps of 5 ms",
        "bench_loop.Call",
        "after a step of 5 ms",
        by_hand="NumPy by hand, after a step",
        goals=(at_most(40),),
    ),
    Line(
        "the same, in a tight loop",
        "bench_loop.Call",
        "after a wait",
        goals=(at_most(12),),
    ),
    Line(
        "waiting, padded, steps of 5 ms",
        "bench_loop.Waiting",
        peers=("torch DataLoader", "torch DataLoader, two workers"),
        goals=(at_most(1),),
    ),
    Line(
        "a ready call, 64 streams",
        "bench_loop.ManyStreams",
        "after a wait",
        by_hand="NumPy by hand, after a step",
        goals=(at_most(150),),
    ),
    *(
        Line(
            f"planning with {lanes} lanes",
            "bench_plan.Planning",
            lanes,
            goals=(at_least(wanted),),
        )
        for lanes, wanted in (("1,024", 15), ("16,384", 5))
    ),
    *(
        Line(
            f"planning a mixture of {corpora} corpora",
            "bench_plan.Mixtures",
            corpora,
            goals=(at_least(10),),
        )
        for corpora in ("3", "64", "64, annealing")
    ),
    Line(
        "4 M tokens for one of 1,024 workers, `balance`",
        "bench_plan.Balance",
        goals=(at_most(5),),
    ),
    *(
        Line(
            f"4 M tokens as micro-batches, {name}",
            "bench_plan.MicroBatches",
            name,
            goals=(at_most(5),),
        )
        for name in ("rows of 8,192, 128 workers", "rows of 131,072, 8 workers")
    ),
    Line(
        "10,000 token files",
        "bench_files.TokenFiles",
        "10,000 files",
        goals=(at_least(0.9, "one file"),),
    ),
    Line(
        "10,000 CTF files with their index, opening",
        "bench_files.TextFiles",
        "CTF, opening",
        goals=(at_most(0.3),),
    ),
    Line(
        "10,000 JSON lines files with their index, opening",
        "bench_files.TextFiles",
        "JSON lines, opening",
        goals=(at_most(0.3),),
    ),
    Line(
        "the same, first minibatch",
        "bench_files.TextFiles",
        "JSON lines, first minibatch",
        goals=(at_most(0.3), at_most(100, memory=True)),
    ),
    Line(
        "a store with 50 ms latency, waiting, steps of 5 ms",
        "bench_files.StoreWaits",
        goals=(at_most(1),),
    ),
    Line(
        "the same store, 13 MB used",
        "bench_files.StoreBytes",
        goals=(at_most(1.2),),
    ),
    Line(
        "index of CTF, while it is made",
        "bench_files.CtfIndex",
        "at the peak",
        goals=(at_most(24),),
    ),
    Line("the same, on disk", "bench_files.CtfIndex", "on disk", goals=(at_most(8),)),
    Line(
        "Packed over a `UserDeserializer` of 10^6 chunks, opening",
        "bench_start.OpenChunks",
        "Packed",
        goals=(at_most(1),),
    ),
    Line(
        "import beyond NumPy, and a first minibatch",
        "bench_start.Import",
        "and what a loop over arrays uses",
        goals=(at_most(25),),
    ),
    Line(
        "`unscale_`, 200 tensors, two threads",
        "bench_train.Unscale",
        peers=(SCALER,),
        goals=(at_least(1, SCALER),),
    ),
    Line(
        "a step over 200 small tensors, two threads",
        "bench_train.SmallStep",
        peers=(SCALER,),
        goals=(at_least(1, SCALER),),
    ),
    Line(
        "Adam of 10^7, two threads",
        "bench_train.Adam",
        "sweephand, two threads",
        by_hand=HAND,
        peers=("torch fused, two threads",),
        goals=(at_least(1, "torch fused, two threads"),),
    ),
    *(
        Line(
            f"a map that does nothing, {name}, a sequence",
            "bench_maps.Nothing",
            name,
            goals=(at_most(goal),),
        )
        for name, goal in (("batched", 3), ("one by one", 20), ("one by one, processes", 30))
    ),
    *(
        Line(
            f"a map of some microseconds, {name}",
            "bench_maps.Quick",
            name,
            limit="the function alone",
            peers=("torch DataLoader",),
            goals=(at_least(1, "torch DataLoader"),),
        )
        for name in ("default", "inline", "batched")
    ),
    Line(
        "a map of 0.6 ms that holds the GIL, two processes",
        "bench_maps.Held",
        "processes",
        peers=("torch DataLoader, two workers",),
        goals=(at_least(1, "torch DataLoader, two workers"),),
    ),
    Line(
        "one sequence in 50 takes 20 times as long",
        "bench_maps.Slow",
        "in order",
        goals=(at_least(0.95, "order given up"),),
    ),
]
