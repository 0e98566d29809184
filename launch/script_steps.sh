# Shared by the scripts of this folder and of tools/ (source it): runs steps with their output in a
# log, shows one line per step and, when a step fails, the end of its log.

step_count=0
script_start=$SECONDS

format_seconds() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# Follows the log of process $1 on a terminal: "[12/80]" of the build, overwritten in place.
follow_log() {
  local pid=$1 log=$2 title=$3 start=$SECONDS
  while kill -0 "$pid" 2>/dev/null; do
    local progress
    progress=$(tail -c 400 "$log" 2>/dev/null | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -1)
    printf '\r\033[K%s ... %s %s' "$title" "$(format_seconds $((SECONDS - start)))" "$progress"
    sleep 1
  done
  printf '\r\033[K'
}

# step TITLE LOGFILE COMMAND...: exits with the command's code if it fails.
step() {
  local title=$1 log=$2 start=$SECONDS code=0
  shift 2
  step_count=$((step_count + 1))
  title="$step_count. $title"
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 &
  local pid=$!
  if [ -t 1 ]; then follow_log "$pid" "$log" "$title"; else echo "$title ..."; fi
  wait "$pid" || code=$?
  if [ "$code" -ne 0 ]; then
    echo "$title: FAILED with exit code $code after $(format_seconds $((SECONDS - start)))"
    echo "---- end of $log ----"
    tail -n 40 "$log"
    exit "$code"
  fi
  echo "$title: done in $(format_seconds $((SECONDS - start)))"
}

# Without this, OpenMPI refuses to start as root (containers) or with more ranks than cores.
prepare_mpi() {
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  export OMPI_MCA_rmaps_base_oversubscribe=1
}

# Where configure_release builds; scripts may set another folder.
build_folder=build

# configure_release OPTION...: a new build folder compiles several sources as one, which takes a
# fraction of the time; one that is there goes on as it was configured. The fewer cores, the larger
# the pieces: each parses the headers of others once. In a trial, precompiled headers saved only
# another ten seconds of two and a half minutes.
configure_release() {
  local unity=() batch=8
  [ "$(nproc)" -gt 4 ] || batch=32
  [ -f "$build_folder/CMakeCache.txt" ] ||
    unity=(-DCMAKE_UNITY_BUILD=ON "-DCMAKE_UNITY_BUILD_BATCH_SIZE=$batch")
  cmake --preset release -B "$build_folder" "${unity[@]}" "$@"
}

# skipped_tests LOG: the tests that `ctest --verbose` skipped, one a line. GoogleTest names them,
# unittest gives a reason, the structure checks say SKIPPED.
skipped_tests() {
  grep -oE "\[  SKIPPED \] [A-Za-z0-9_/]+\.[A-Za-z0-9_/]+|SKIPPED: .*|test_.* \.\.\. skipped .*" "$1" |
    sort -u || true
}
# failed_tests LOG: what failed, as far as the log names it.
failed_tests() {
  grep -E '\[  FAILED  \] [A-Za-z0-9_/]+\.[A-Za-z0-9_/]+|^ *[0-9]+: (FAIL|ERROR):|\*\*\*(Failed|Timeout|Exception|Not Run)' "$1" |
    sed -E 's/^ *[0-9]+: *//; s/^/  /' | sort -u | head -40 || true
}

# Depending on the compiler's own list of headers, ccache need not preprocess what it doesn't know.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DEPEND=1
  fi
}
