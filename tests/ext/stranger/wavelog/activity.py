"""The highest wave that a model was trained on."""

from __future__ import annotations

from typing import Any

from sweephand.extend import Activity, Data


class HighestWave(Activity):
    """Remembers the highest wave of a run, also of the part before a restart."""

    name = "highest wave"
    height = 0.0

    def note_minibatch(self, size: int, minibatch: Data, num_samples: int) -> None:
        """Look at the minibatch of the next step."""
        self.height = max(self.height, float(minibatch["height"].values.max()))

    def state_dict(self) -> dict[str, Any]:
        """Return what checkpoints hold of it."""
        return super().state_dict() | {"height": self.height}

    def load_state_dict(self, state: Any) -> None:
        """Go on from a checkpoint."""
        super().load_state_dict(state)
        self.height = state["height"]
