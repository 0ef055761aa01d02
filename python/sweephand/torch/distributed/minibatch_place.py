"""Place of a minibatch, for comparison between ranks."""


def place_of(minibatch: object) -> tuple[int, ...]:
    """Return the place of a minibatch in integers, which hash alike on all ranks."""
    plan = getattr(minibatch, "_plan", None)
    if plan is None:
        return ()
    if plan.end_of_data:
        return (plan.nominal_time,)
    return (plan.nominal_time, plan.num_samples, *plan.next.progress)


def words_of(place: tuple[int, ...]) -> str:
    """Return the same in words."""
    if not place:
        return "what is no minibatch of a source"
    time, *rest = place
    if not rest:
        return f"nothing, as its data end at nominal time {time}"
    progress = f", with progress {rest[1:]}" if rest[1:] else ""
    return f"{rest[0]} samples at nominal time {time}{progress}"


def share_of(minibatch: object) -> bytes:
    """Return which sequences a share has."""
    plan = getattr(minibatch, "_plan", None)
    return b"" if plan is None else plan.sequences().tobytes()
