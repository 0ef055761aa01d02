"""Rules that more than this page's model must follow when they change: each in one place."""

from __future__ import annotations

# A minibatch ends at the time of a ban.
BANS_END_MINIBATCHES = True

# `global_num_label_samples` is the number of labels that count.
LABELS_THAT_COUNT = False

# A skip beyond the end of finite data ends them.
SKIPS_REACH_BEYOND_THE_END = False

# Rows over sequences of one sample each are refused when the source is made.
ONE_SAMPLE_ROWS_ARE_REFUSED = False

# The model says who gets the sequences that are moved to make numbers even.
IT_IS_KNOWN_WHO_IS_MOVED = True

# A part of a mixture has up to 2^20 sequences, so that small corpora in chunks take long.
PARTS_OF_MIXTURES_ARE_LONG = True
