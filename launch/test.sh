#!/usr/bin/env bash
# The project's whole test: installs packages, builds the release with tests, runs ctest (unit,
# program and structure tests) and says what passed, failed and was skipped. Exit code 0 only if
# nothing failed. Arguments are handed to ctest (-R exchange).
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/script_steps.sh
logs=build/logs

echo "Atoll tests; full output in $logs"
step "Installing packages" $logs/packages.log bash launch/install-packages.sh --tests
use_ccache
step "Configuring" $logs/configure.log cmake --preset release -DATOLL_TESTS=ON
step "Building" $logs/build.log cmake --build build -j "$(nproc)"

prepare_mpi
step_count=$((step_count + 1))
echo "$step_count. Testing ..."
failed=0
ctest --test-dir build --verbose --timeout 600 -j "$(nproc)" "$@" >$logs/ctest.log 2>&1 || failed=$?
grep -E '^ *[0-9]+/[0-9]+ Test ' $logs/ctest.log || true

echo
# GoogleTest names its skipped tests, unittest gives a reason, the structure checks say SKIPPED.
skipped=$(grep -oE "\[  SKIPPED \] [A-Za-z0-9_/]+\.[A-Za-z0-9_/]+|SKIPPED: .*|test_.* \.\.\. skipped .*" \
  $logs/ctest.log | sort -u || true)
if [ -n "$skipped" ]; then
  echo "Skipped (tests per suite; reasons in $logs/ctest.log):"
  sed -E 's/^\[  SKIPPED \] ([^.]*)\..*/\1/; s/^SKIPPED: //; s/^(test_[a-z_]*) .*skipped /\1: /' \
    <<<"$skipped" | uniq -c | sed -E 's/^ *([0-9]+) (.*)/  \2 (\1)/'
fi
if [ $failed -ne 0 ]; then
  echo "Failed:"
  grep -E '\[  FAILED  \] [A-Za-z0-9_/]+\.[A-Za-z0-9_/]+|^ *[0-9]+: (FAIL|ERROR):|\*\*\*' $logs/ctest.log |
    sed -E 's/^ *[0-9]+: *//; s/^/  /' | sort -u | head -40
  echo "Some tests failed; see $logs/ctest.log"
  exit 1
fi
grep -E 'tests passed' $logs/ctest.log
echo "All tests passed in $(format_seconds $((SECONDS - script_start))) minutes."
