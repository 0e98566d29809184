# Shared by the scripts of this folder and of tools/ (source it): runs steps with their output in a
# log, shows one line per step, how far it is while it runs and, when it fails, the end of its log.

step_count=0
script_start=$SECONDS

format_seconds() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# How far a command is, by the end of its log: "12/80" as Ninja and CTest say it, "15%" as make does.
progress_in() {
  tail -c 100000 "$1" 2>/dev/null | tr '\r' '\n' |
    grep -oE '^(\[ *[0-9]+(/[0-9]+|%)\]| *[0-9]+/[0-9]+ Test )' | tail -n 1 | tr -cd '0-9/%' || true
}

# Seconds between the lines about a command whose output is no terminal.
progress_seconds=60

# Shows how far process $1 is while it runs: on a terminal in a line that is overwritten, elsewhere in
# a line from time to time.
follow_log() {
  local pid=$1 log=$2 title=$3 start=$SECONDS due=$progress_seconds passed progress
  [ -t 1 ] || echo "$title ..."
  while kill -0 "$pid" 2>/dev/null; do
    passed=$((SECONDS - start))
    if [ -t 1 ] || [ $passed -ge "$due" ]; then
      progress=$(progress_in "$log")
      progress="$title ... $(format_seconds $passed)${progress:+, $progress}"
      if [ -t 1 ]; then printf '\r\033[K%s' "$progress"; else echo "$progress"; fi
      due=$((passed + progress_seconds))
    fi
    if [ $passed -lt 3 ]; then sleep 0.1; else sleep 1; fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}

# watch_command TITLE LOGFILE COMMAND...: runs it with its output in the log, and leaves its exit code in
# `watched_code`. Ctrl-C reaches the command, although it runs in the background.
watch_command() {
  local title=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  (
    trap - INT
    "$@"
  ) >"$log" 2>&1 &
  local pid=$!
  follow_log "$pid" "$log" "$title"
  watched_code=0
  wait "$pid" || watched_code=$?
}

# step TITLE LOGFILE COMMAND...: exits with the command's code if it fails.
step() {
  local log=$2 start=$SECONDS
  step_count=$((step_count + 1))
  local title="$step_count. $1"
  shift 2
  watch_command "$title" "$log" "$@"
  if [ "$watched_code" -ne 0 ]; then
    echo "$title: FAILED with exit code $watched_code after $(format_seconds $((SECONDS - start)))"
    echo "---- end of $log ----"
    tail -n 40 "$log"
    exit "$watched_code"
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
