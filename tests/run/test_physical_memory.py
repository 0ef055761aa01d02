"""The memory that a container leaves to a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweephand import _core

NO_LIMIT = 2**64 - 1
V1 = "memory/{}/memory.limit_in_bytes"
V2 = "{}/memory.max"


@pytest.mark.parametrize(
    ("groups", "limits", "wanted"),
    [
        ("0::/a/b", {V2.format("a/b"): "300", V2.format("a"): "200"}, 200),  # of an outer group
        ("0::/a/b", {V2.format("a/b"): "max", V2.format("a"): "400"}, 400),
        ("0::/a/b", {V2.format("a/b"): "max"}, NO_LIMIT),
        ("0::/a/b", {V2.format("."): "600"}, 600),  # groups that it is not shown
        ("0::/a", {V2.format("b"): "1"}, NO_LIMIT),  # another group's
        ("4:memory:/a/b", {V1.format("a/b"): "9223372036854771712", V1.format("a"): "8"}, 8),
        ("3:cpu:/a", {V1.format("a"): "1"}, NO_LIMIT),
        ("4:memory:/a\n0::/a", {V1.format("a"): "700", V2.format("a"): "30"}, 30),
        ("0::/a", {V2.format("a"): "nonsense"}, NO_LIMIT),
        ("nonsense", {V2.format("."): "1"}, NO_LIMIT),
    ],
)
def test_the_least_limit_of_the_groups_around_a_process_holds(
    groups: str, limits: dict[str, str], wanted: int, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for name, limit in limits.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit + "\n")
    assert _core.testing.container_memory(tmp_path) == wanted


def test_a_machine_without_groups_has_no_such_limit(tmp_path: Path) -> None:
    assert _core.testing.container_memory(tmp_path) == NO_LIMIT
