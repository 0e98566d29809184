#!/usr/bin/env bash
# The project's whole test: installs packages, builds the release with tests, runs ctest (unit,
# program and structure tests) and says what passed, failed and was skipped. Exit code 0 only if
# nothing failed. Arguments are handed to ctest (-R exchange).
# test.sh --slow [ARGUMENT...]: the tests of label `slow` instead, which take minutes each.
set -euo pipefail
chosen=(-LE '^slow$' --timeout 600)
if [ "${1:-}" = --slow ]; then
  shift
  chosen=(-L '^slow$' --timeout 7200)
fi
cd "$(dirname "$0")/.."
. launch/script_steps.sh
logs=build/logs

echo "Atoll tests; full output in $logs"
step "Installing packages" $logs/packages.log bash launch/install-packages.sh --tests
# Tools that read the machine code of kernels; their test is skipped where they can't be had.
if { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null &&
  ! python3 tests/kernels/gpu_code.py --tools build/disassembler >/dev/null; then
  python3 -m pip install --quiet --timeout 5 --retries 1 --target build/disassembler nvidia-cuda-cuobjdump \
    nvidia-cuda-nvdisasm >$logs/disassembler.log 2>&1 || true
fi
use_ccache
step "Configuring" $logs/configure.log configure_release -DATOLL_TESTS=ON
step "Building" $logs/build.log cmake --build build -j "$(nproc)"

prepare_mpi
# Tests write many small files, and wait until a disk has them. Where memory serves as one, that takes
# no time; containers often have little of it, or may run no programs there.
in_memory=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || true
if [ -z "${TMPDIR:-}" ] && [ "${in_memory:-0}" -gt 4000000 ] &&
  folder=$(mktemp -d /dev/shm/atoll-tests-XXXXXX 2>/dev/null); then
  trap 'rm -rf "$folder" || true' EXIT
  chmod 755 "$folder"  # for tests that are another user for a while
  if (install -m 755 /bin/true "$folder/runs" && "$folder/runs") 2>/dev/null; then export TMPDIR=$folder; fi
fi
# One more than cores: with as many, entries wait for a third of their time, for time limits and for
# each other's ranks.
entries=$(($(nproc) + 1))
step_count=$((step_count + 1))
watch_command "$step_count. Testing (the longest first)" $logs/ctest.log \
  ctest --test-dir build --verbose "${chosen[@]}" --no-tests=error -j "$entries" "$@"
failed=$watched_code
grep -E '^ *[0-9]+/[0-9]+ Test ' $logs/ctest.log || true

echo
skipped=$(skipped_tests $logs/ctest.log)
if [ -n "$skipped" ]; then
  echo "Skipped (tests per suite; reasons in $logs/ctest.log):"
  sed -E 's/^\[  SKIPPED \] ([^.]*)\..*/\1/; s/^SKIPPED: //; s/^(test_[a-z_]*) .*skipped /\1: /' \
    <<<"$skipped" | uniq -c | sed -E 's/^ *([0-9]+) (.*)/  \2 (\1)/'
fi
if [ $failed -ne 0 ]; then
  echo "Failed:"
  failed_tests $logs/ctest.log
  echo "Some tests failed; see $logs/ctest.log"
  exit 1
fi
grep -E 'tests passed' $logs/ctest.log
echo "All tests passed in $(format_seconds $((SECONDS - script_start))) minutes."
