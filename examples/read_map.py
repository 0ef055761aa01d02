"""Read any map-style dataset: what has __len__ and __getitem__."""

import numpy as np

import sweephand as sh


class Digits:
    """Images that are made when they are asked for."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> dict[str, object]:
        return {"image": np.full((28, 28), number, np.uint8), "label": number}

    def __getitems__(self, numbers: list[int]) -> list[dict[str, object]]:
        return [self[number] for number in numbers]


def main() -> None:
    """Deliver the items in the source's own order; each is read when it is delivered."""
    streams = sh.StreamDefs(image=sh.StreamDef(shape=(28, 28)), label=sh.StreamDef())
    with sh.MinibatchSource(sh.MapDeserializer(Digits(), streams), max_sweeps=1) as source:
        for minibatch in source.minibatches(4):
            print(minibatch["image"].values.shape, minibatch["label"].values)


if __name__ == "__main__":
    main()
