"""The tensors in a file of a checkpoint, and the check that they fit a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from sweephand.dataclass import dataclass
from sweephand.errors import StateError
from sweephand.train.checkpoint.safetensors_file import (
    Sink,
    TensorBytes,
    read_tensors,
    write_tensors,
)


@dataclass(frozen=True)
class SavedTensors:
    """The content of a safetensors file, held in main memory."""

    tensors: Mapping[str, TensorBytes]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file."""
        return cls(read_tensors(path))

    def write(self, sink: Sink) -> None:
        """Write the file."""
        write_tensors(self.tensors, sink)

    def check(self, what: str, wanted: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        """Raise StateError if names, dtypes or shapes are not the wanted ones.

        Parameters
        ----------
        what : str
            What they are, for the error.
        wanted : mapping from name to (dtype, shape)
        """
        found = {name: (tensor.dtype, tensor.shape) for name, tensor in self.tensors.items()}
        differing = [
            f"{name} is {_text(wanted.get(name))} here and {_text(found.get(name))} there"
            for name in sorted(wanted.keys() | found.keys())
            if wanted.get(name) != found.get(name)
        ]
        if differing:
            more = f"; and {len(differing) - 5} more" if len(differing) > 5 else ""
            raise StateError(
                f"the checkpoint is of another {what}: {'; '.join(differing[:5])}{more}"
            )


def _text(kind: tuple[str, tuple[int, ...]] | None) -> str:
    return "absent" if kind is None else f"{kind[0]} {list(kind[1])}"
