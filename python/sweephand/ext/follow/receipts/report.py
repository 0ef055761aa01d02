"""Findings of an audit of receipts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ReceiptMismatch:
    """First mismatch of an audit.

    Attributes
    ----------
    step : int or None
        The first bad step; None for the header, the seal and the head.
    part : str
        Its part: "header", "chain", "step", "begin", "request", "ids", "content", "events",
        "control", "parameters", "seal" or "head"; the first of them that differs.
    expected, found : str
        The derived value, and that of the receipt.
    parts : tuple of str
        All differing parts of this step.
    ids : list of str
        The first sequences that the step should have, if known.
    worker : int
        The worker of the file.

    Examples
    --------
    >>> import sweephand as sh
    >>> str(sh.train.ReceiptMismatch(7, "ids", "0a", "0b"))
    'step 7: ids should be 0a, and are 0b in the receipt'
    """

    step: int | None
    part: str
    expected: str
    found: str
    parts: tuple[str, ...] = ()
    ids: list[str] = field(default_factory=list)
    worker: int = 0

    def __str__(self) -> str:
        if self.part == "header":
            return f"{self.expected}: {self.found}"
        where = "" if self.step is None else f"step {self.step}: "
        whose = f" of worker {self.worker}" if self.worker else ""
        verb = "are" if self.part in ("ids", "events", "parameters") else "is"
        return (
            f"{where}{self.part} should be {self.expected}, and {verb} {self.found} in the "
            f"receipt{whose}"
        )


@dataclass(frozen=True)
class ReceiptAudit:
    """Findings of an audit.

    Attributes
    ----------
    mismatch : ReceiptMismatch or None
        The first mismatch; later steps were not checked.
    num_steps, num_sequences, num_samples : int
        Number of derived and matching ones.
    first_step, last_step : int or None
        Of them.
    jumps : list of (int, int, int)
        Steps whose minibatch does not begin where the one before ended: the step, where it
        should begin, and where it does. Only if they are allowed.
    head : str
        The last link of the chain.
    is_sealed : bool
        True if the file was closed.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.train.ReceiptAudit(None, 3, 12, 12, 1, 3, [], "00", True).ok
    True
    """

    mismatch: ReceiptMismatch | None
    num_steps: int
    num_sequences: int
    num_samples: int
    first_step: int | None
    last_step: int | None
    jumps: list[tuple[int, int, int]]
    head: str
    is_sealed: bool

    @property
    def ok(self) -> bool:
        """True if all is well."""
        return self.mismatch is None


def wrong(
    step: int | None,
    part: str,
    expected: Any,
    found: Any,
    parts: tuple[str, ...] = (),
    ids: list[str] | None = None,
    worker: int = 0,
) -> ReceiptMismatch:
    """Return a mismatch of numbers or bytes."""
    expected, found = (
        one.hex() if isinstance(one, bytes) else str(one) for one in (expected, found)
    )
    return ReceiptMismatch(step, part, expected, found, parts or (part,), ids or [], worker)
