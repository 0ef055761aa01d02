#!/usr/bin/env bash
# What a commit must pass, in an environment made by: python -m pip install -e ".[test,dev]"
#
#   ./check.sh                 formats, lint, types, size, tests, cpp
#   ./check.sh size            how large each part is, and whether it is within its limit
#   ./check.sh all             the same, with exhaustive tests, then site, tidy, asan, tsan, pyasan, ranks
#   ./check.sh exhaustive      the tests with every byte, draw and kill, of which `tests` takes samples
#   ./check.sh STEP...         only these steps
#   ./check.sh site            the pages and the reference into build/site; needs the extra `docs`
#   ./check.sh ranks           four ranks of torch.distributed, and 200 that are killed or stopped
#   ./check.sh frameworks      JAX, Keras, Lightning, ... train over a source, and two processes of
#                              some; needs the extra `frameworks`
#   ./check.sh fix             write the formats instead of checking them
#   ./check.sh stub            write python/sweephand/_core/*.pyi again
set -euo pipefail
cd "$(dirname "$0")"

cpp_files() { git ls-files --cached --others --exclude-standard -- 'cpp/*.[ch]pp' 'tests/cpp/*.[ch]pp' \
  'tests/fuzz/*.[ch]pp'; }

formats() {
  cpp_files | xargs clang-format --dry-run -Werror
  ruff format --check .
}
lint() { ruff check .; }
types() { mypy; }
size() { python -m tests.size; }
tests() { python -m pytest; }
exhaustive() { python -m pytest --exhaustive; }
cpp() { cmake --workflow --preset dev; }

# A warning is an error, a reference that is not found too; nothing is fetched.
site() {
  python -m sphinx -E -W --keep-going -q -b html docs build/site
  if grep -rlE '(src|href)="https?://[^"]*\.(js|css|woff2?)"' build/site --include='*.html'; then
    echo "check.sh: these pages load from elsewhere" >&2
    return 1
  fi
}

# Four ranks, ranks that come and go, and 200 that are killed.
ranks() { SWEEPHAND_DISTRIBUTED=200 python -m pytest tests/torch/test_many_ranks.py; }

frameworks() { SWEEPHAND_FRAMEWORKS=1 python -m pytest tests/frameworks; }

tidy() {
  pybind11_ROOT="$(python -m pybind11 --cmakedir)" cmake --workflow --preset tidy
}
asan() { cmake --workflow --preset asan; }
tsan() { cmake --workflow --preset tsan; }

# The Python tests over a core with ASan and UBSan, in an environment of its own that borrows the
# packages of this one: an editable install here would win over any path.
pyasan() {
  local venv=build/venv-asan
  test -x $venv/bin/python || python -m venv $venv
  python -c 'import sys; print(*[p for p in sys.path if p.endswith("-packages")], sep="\n")' \
    > "$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
  $venv/bin/python -m pip install --quiet --no-build-isolation --no-deps --force-reinstall . \
    -Cbuild-dir=build/python-asan -Ccmake.build-type=Debug \
    -Ccmake.define.SWEEPHAND_SANITIZE=address,undefined
  local preload=
  for library in libasan.so libubsan.so libstdc++.so; do
    preload+="$(g++ -print-file-name=$library) "
  done
  LD_PRELOAD="$preload" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
    $venv/bin/python -m pytest
}

fix() {
  cpp_files | xargs clang-format -i
  ruff format .
  ruff check --fix .
}
stub() {
  rm -rf python/sweephand/_core
  python -m pybind11_stubgen sweephand._core -o python
}

quick=(formats lint types size tests cpp)
case "${1-}" in
  "") steps=("${quick[@]}") ;;
  all) steps=("${quick[@]/#tests/exhaustive}" site tidy asan tsan pyasan ranks) ;;
  *) steps=("$@") ;;
esac
for step in "${steps[@]}"; do
  case "$step" in
    formats | lint | types | size | tests | exhaustive | cpp | frameworks | site | tidy | asan | tsan | pyasan | ranks | fix | stub) ;;
    *) echo "check.sh: unknown step '$step'" >&2; exit 2 ;;
  esac
  echo "== $step"
  "$step"
done
