"""Plan of forgetting sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweephand.events.event import Ban
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore
from sweephand.train.checkpoint.folder_lock import FolderLock
from sweephand.train.forgetting.saved_moment import SavedMoment


@dataclass(frozen=True)
class Forgetting:
    """Plan to forget sequences: when they were seen, and where a replay begins.

    Attributes
    ----------
    first_seen : dict of int or None
        The first nominal time of each id, before the newest checkpoint that fits the events of
        the source; None if it has not come there.
    replay_from : SavedMoment or None
        The newest checkpoint without any of them; None: the beginning.
    newest : SavedMoment or None
        The newest checkpoint that fits the events of the source, to which the run has come.
    ban : Ban or None
        The event that leaves out from there on those not yet banned; None if there are none.
    holding : list of SavedMoment
        All checkpoints of the folder that have seen any of the sequences, with any events.
    unread : dict of str
        Reason for each checkpoint that cannot be judged, by its folder.

    Examples
    --------
    `plan_forgetting` makes it. For sequences that never came there is nothing to replay:

    >>> import sweephand as sh
    >>> found = sh.train.Forgetting({"web__7": None}, None, None, None, holding=[], unread={})
    >>> found.position, found.num_minibatches, found.share, found.delete_holding()
    (0, 0, 0.0, [])
    """

    first_seen: Mapping[str, int | None]
    replay_from: SavedMoment | None
    newest: SavedMoment | None
    ban: Ban | None
    holding: Sequence[SavedMoment]
    unread: Mapping[Path, str]

    @property
    def position(self) -> int:
        """Nominal time from which is replayed."""
        return 0 if self.replay_from is None else self.replay_from.position

    @property
    def num_minibatches(self) -> int:
        """Minibatches from there to the newest checkpoint."""
        return self._between("steps")

    @property
    def num_samples(self) -> int:
        """Label samples from there to the newest checkpoint."""
        return self._between("samples")

    @property
    def seconds(self) -> float | None:
        """Seconds that these have taken; None if they are not known."""
        if self.newest is None or self.newest.seconds is None:
            return None
        begin = 0 if self.replay_from is None else self.replay_from.seconds
        return None if begin is None else max(0.0, self.newest.seconds - begin)

    @property
    def share(self) -> float:
        """Share of the run up to the newest checkpoint that is replayed, in [0, 1]."""
        whole = 0 if self.newest is None else self.newest.position
        return max(0.0, 1 - self.position / whole) if whole else 0.0

    def delete_holding(self) -> list[Path]:
        """Delete the checkpoints that hold any of the sequences, and the leftovers of kills.

        Returns
        -------
        list of Path
            The folders that are gone.

        Raises
        ------
        OSError
            If a run saves there meanwhile, or one cannot be deleted.
        """
        if not self.holding:
            return []
        store = CheckpointStore(self.holding[0].folder.parent)
        with FolderLock(store.folder):
            store.remove([moment.number for moment in self.holding])
        return [moment.folder for moment in self.holding]

    def _between(self, name: str) -> int:
        end = 0 if self.newest is None else getattr(self.newest, name)
        begin = 0 if self.replay_from is None else getattr(self.replay_from, name)
        return max(0, int(end - begin))
