#!/bin/sh
# run_mpi.sh RANKS CODE TEXT PROGRAM [ARGUMENTS]: runs PROGRAM on RANKS ranks of this machine, started
# by $MPIEXEC, and checks that it ends with exit code CODE ("any": not 0) and, unless TEXT is empty, that a line
# of the output matches the extended regular expression TEXT.
ranks=$1 code=$2 text=$3
shift 3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
# Open MPI leaves memory of its unloaded components behind; leaks of our own are looked for in the
# tests that run in one process.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
timeout 120 "${MPIEXEC:-mpirun}" --bind-to none -n "$ranks" "$@" >"$output" 2>&1
found=$?
cat "$output"
if [ "$code" = any ]; then
  [ $found -ne 0 ] && [ $found -ne 124 ] || { echo "exit code $found, expected an error"; exit 1; }
elif [ $found -ne "$code" ]; then
  echo "exit code $found, expected $code"
  exit 1
fi
if [ -n "$text" ] && ! grep -Eq "$text" "$output"; then
  echo "no line matches: $text"
  exit 1
fi
