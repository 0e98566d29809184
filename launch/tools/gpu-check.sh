#!/usr/bin/env bash
# Everything that only a GPU can show, on the host it is started on; see docs/gpu.md and
# `launch/tools/gpu-check.sh --help`. This prepares the environment, gpu_check.py runs the checks.
#
# Programs that are there are used as they are, also those that launch/tools/gpu-pack.sh brought
# from another machine; without --build the release is built in build/ where that has none.
set -euo pipefail
export ATOLL_GPU_CHECK_START=$EPOCHREALTIME
cd "$(dirname "$0")/../.."
. launch/script_steps.sh

refuse() { echo "gpu-check.sh: $*" >&2; exit 2; }

build=build minutes="" only_words=""
for ((k = 1; k <= $#; ++k)); do
  next=$((k + 1))
  case ${!k} in
    --build) build=${!next-} ;;
    --build=*) build=${!k#*=} ;;
    --minutes | --minutes=*) minutes=given ;;
    --help | -h) only_words=1 ;;
  esac
done

python=$(command -v "${PYTHON:-python3}" || true)
[ -n "$python" ] || refuse "python3 is needed; PYTHON names another interpreter"

# Folders that hold CUDA's libraries where the loader doesn't look: of a toolkit, and those in which
# pip keeps them, for hosts that have a driver but no toolkit.
library_folders() {
  "$python" - "${CUDA_HOME:-/usr/local/cuda}/lib64" <<'END'
import importlib.util
import pathlib
import sys

spec = importlib.util.find_spec("nvidia")
roots = [pathlib.Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
folders = [pathlib.Path(sys.argv[1])] + [folder for root in roots for folder in sorted(root.glob("*/lib"))]
names = ("libcublas.so.*", "libcusparse.so.*", "libnvJitLink.so.*", "libnccl.so.*")
print(":".join(str(folder) for folder in folders if any(any(folder.glob(name)) for name in names)))
END
}

build_release() {
  local why=""
  [ "$build" = build ] || why="without --build it would be built in build/"
  [ -z "$minutes" ] || why="a build does not fit into --minutes"
  command -v cmake >/dev/null || why="this host has no cmake"
  [ -z "$why" ] || refuse "$build/atoll is not there, and $why: build first, or bring the programs" \
    "(launch/tools/gpu-pack.sh)"
  use_ccache
  step "Configuring" build/logs/configure.log configure_release
  step "Building" build/logs/build.log cmake --build build -j "$(nproc)"
}

if [ -z "$only_words" ]; then
  [ -x "$build/atoll" ] || build_release
  prepare_mpi
  # Packed programs' environment: where their OpenMPI lies.
  if [ -f "$build/environment.sh" ]; then . "$build/environment.sh"; fi
  ATOLL_GPU_CHECK_LIBRARIES=${LD_LIBRARY_PATH:-}
  found=$(library_folders)
  [ -z "$found" ] ||
    ATOLL_GPU_CHECK_LIBRARIES=${ATOLL_GPU_CHECK_LIBRARIES:+$ATOLL_GPU_CHECK_LIBRARIES:}$found
  export ATOLL_GPU_CHECK_LIBRARIES
fi
exec "$python" -B launch/tools/gpu_check.py "$@"
