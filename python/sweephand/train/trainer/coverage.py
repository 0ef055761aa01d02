"""The check that every parameter of a model has exactly one learner."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

from sweephand.errors import some_of


def check_coverage(
    parameters: Mapping[str, Hashable],
    learned: Sequence[Hashable],
    frozen: Collection[Hashable] = (),
) -> None:
    """Raise ValueError unless learners cover a model, and name the parameters at fault.

    Each parameter of the model wants one learner; frozen ones may have one. They are compared
    by identity.
    """
    times = Counter(learned)
    uncovered = [name for name, identity in parameters.items() if not times[identity]]
    if uncovered:
        raise ValueError(f"no learner has the parameters {some_of(uncovered)}")
    repeated = [name for name, identity in parameters.items() if times[identity] > 1]
    if repeated:
        raise ValueError(f"more than one learner has the parameters {some_of(repeated)}")
    foreign = times.keys() - set(parameters.values()) - set(frozen)
    if foreign:
        raise ValueError(
            f"the learners have {len(foreign)} parameters that are not the model's; the model "
            f"has {some_of(list(parameters))}"
        )
