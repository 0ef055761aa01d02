"""One contender: `python -m benchmarks.suite.contender MODULE ROW CONTENDER`.

Makes itself ready and says so, and takes a turn for every line that it reads: so many seconds.
It answers by a line: a turn, or null if a package is not installed.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from .memory import Growth
from .turn import Clock, Steps, Turn


def take_turn(steps: Steps, seconds: float) -> Turn:
    """Take steps for so long, one at least."""
    growth = Growth()
    whole, told = Clock(), Turn(0, 0, 0)
    count = 0
    with whole.running():
        until = whole.now() + seconds
        while True:
            step = next(steps)
            if isinstance(step, Turn):
                told = Turn(*(a + b for a, b in zip(told, step, strict=True)))
            else:
                count += step
            if whole.now() >= until:
                break
    grown = told.grown or growth.most()
    return told._replace(grown=grown) if told.count else whole.turn(count, grown)


def main() -> None:
    module, row, name = sys.argv[1:]
    made = getattr(import_module(f"benchmarks.suite.{module}"), row)
    steps: Steps | None
    try:
        steps = made.contenders[name]()
        next(steps)
        if not made.fresh:
            next(steps)
    except ModuleNotFoundError:
        steps = None
    print("ready", flush=True)
    for seconds in sys.stdin:
        print(json.dumps(steps and take_turn(steps, float(seconds))), flush=True)


if __name__ == "__main__":
    main()
