"""Numbers as people read them."""


def in_bytes(number: float) -> str:
    """Return a number of bytes with a binary unit.

    Examples
    --------
    >>> in_bytes(512), in_bytes(1536), in_bytes(5 << 30)
    ('512 B', '1.5 KiB', '5.0 GiB')
    """
    if number < 1024:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"


def in_count(number: float) -> str:
    """Return a count with commas; a fraction keeps one digit.

    Examples
    --------
    >>> in_count(1234567), in_count(33.25), in_count(4.0)
    ('1,234,567', '33.2', '4')
    """
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def in_rate(number: float) -> str:
    """Return a rate with a decimal unit.

    Examples
    --------
    >>> in_rate(950), in_rate(2.5e6)
    ('950', '2.50 M')
    """
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.2f} {unit}"
    return f"{number:.0f}"


def in_percent(share: float) -> str:
    """Return a share as per cent.

    Examples
    --------
    >>> in_percent(0.5), in_percent(0.00123)
    ('50.0 %', '0.1 %')
    """
    return f"{share * 100:.1f} %"
