"""Run `python -m benchmarks.peers`: a process that it starts cannot import this file."""

from benchmarks.peers.runner import main

if __name__ == "__main__":
    main()
