"""How the examples of a TFDS folder are ordered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sweephand.ext.tfds.builder_info import FileInstruction
from sweephand.extend import check_int

InterleaveSort = Callable[[list[FileInstruction]], Sequence[FileInstruction]]


@dataclass(frozen=True, kw_only=True)
class ReadConfig:
    """The read options of TFDS that decide the order of examples.

    Attributes
    ----------
    interleave_cycle_length : int, optional
        Files that are open at a time. None is 16, or 1 for a data set that keeps its written
        order.
    interleave_block_length : int
        Examples that are read from a file before the next one.
    shuffle_seed : int, optional
        The seed of the shuffle of files. Without one `load` draws it.
    shuffle_reshuffle_each_iteration : bool
        Shuffle the files again in every pass.
    interleave_sort_fn, experimental_interleave_sort_fn : callable, optional
        Takes the list of `FileInstruction`, returns those to read in the order to open them:
        ``lambda rows: rows[1::4]`` is the second share of four, an ``input_context`` of TFDS.
    add_tfds_id : bool
        Add a stream ``tfds_id`` with the id of every example.
    enable_ordering_guard : bool
        Refuse to read a data set out of its written order.
    global_seed : int, optional
        The argument for ``tf.random.set_seed``; the shuffle depends on it.
    repeat_filenames : bool
        Only False: True would mix passes, which no order of sweeps can express.

    Raises
    ------
    ValueError
        If an option is out of range, or not supported.

    Examples
    --------
    >>> import sweephand as sh
    >>> read_config = sh.tfds.ReadConfig(interleave_cycle_length=2, interleave_block_length=1)
    >>> dataset = sh.tfds.load("mnist/3.0.1", "train", read_config=read_config)
    >>> [name[-1] for name in dataset.ids(0, 4)]  # from two files in turn
    ['0', '0', '1', '1']
    """

    interleave_cycle_length: int | None = None
    interleave_block_length: int = 16
    shuffle_seed: int | None = None
    shuffle_reshuffle_each_iteration: bool = True
    interleave_sort_fn: InterleaveSort | None = None
    experimental_interleave_sort_fn: InterleaveSort | None = None
    add_tfds_id: bool = False
    enable_ordering_guard: bool = True
    global_seed: int | None = None
    repeat_filenames: bool = False

    def __post_init__(self) -> None:
        if self.interleave_cycle_length is not None:
            check_int("interleave_cycle_length", self.interleave_cycle_length, 1, 2**31)
        check_int("interleave_block_length", self.interleave_block_length, 1, 2**31)
        if self.repeat_filenames:
            raise ValueError(
                "repeat_filenames mixes passes, which are sweeps here; leave it out and repeat "
                "sweeps by max_sweeps"
            )
        if self.interleave_sort_fn and self.experimental_interleave_sort_fn:
            raise ValueError("interleave_sort_fn was given twice, under both of its names")

    @property
    def sort(self) -> InterleaveSort | None:
        """The function that sorts the files, by either of its names."""
        return self.interleave_sort_fn or self.experimental_interleave_sort_fn
