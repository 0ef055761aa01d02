"""Memory that stored bytes ask for, against what there is."""

from sweephand import _core


def check_memory(what: str, needed: int, most: int | None) -> None:
    """Refuse to take more memory than there is.

    Parameters
    ----------
    what : str
        Takes it, for the error.
    needed : int
        In bytes.
    most : int or None
        How much there is; None: as much as the machine has.

    Raises
    ------
    ValueError
        If it is less.
    """
    most = _core.read.physical_memory() if most is None else most
    if needed > most:
        raise ValueError(f"{what} takes {needed} bytes of memory, there are {most}")
