"""Read a WebDataset archive in place: pictures as bytes, labels and captions decoded."""

import io
import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import sweephand as sh


def write_shard(path: Path, first: int, count: int) -> None:
    """Write samples of three files each, as WebDataset's own writer lays them out."""
    with tarfile.open(path, "w") as archive:
        for number in range(first, first + count):
            files = {
                "jpg": b"\xff\xd8" + bytes([number]) * 20,
                "cls": str(number % 3).encode(),
                "json": json.dumps({"caption": f"picture {number}"}).encode(),
            }
            for extension, content in files.items():
                member = tarfile.TarInfo(f"{number:06}.{extension}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def main() -> None:
    """Shuffle two shards as one corpus, and find a sample by its key."""
    with TemporaryDirectory() as folder:
        for shard in range(2):
            write_shard(Path(folder) / f"train-{shard:06}.tar", shard * 4, 4)
        corpus = sh.WebDatasetDeserializer(
            f"{folder}/train-*.tar",
            {
                "image": sh.StreamDef(field="jpg"),
                "label": sh.StreamDef(field="cls"),
                "caption": sh.StreamDef(field="json.caption"),
            },
            ids="__key__",
        )
        with sh.MinibatchSource(corpus, max_sweeps=1, randomization_seed=1) as source:
            for minibatch in source.minibatches(4):
                images = minibatch["image"].values  # bytes, for a decoder of your choice
                print(minibatch.ids, minibatch["label"].values, [len(one) for one in images])
            print("000005 comes at", source.find("000005"))


if __name__ == "__main__":
    main()
