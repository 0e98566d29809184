#!/usr/bin/env bash
# One archive with all that launch/tools/gpu-check.sh needs on a GPU host that can't build Atoll:
# programs, tests, benchmarks, the shared libraries they name (of CUDA none: those are the host's), OpenMPI,
# the sources, and what changing a kernel there takes (launch/tools/gpu-rebuild.sh).
#
#   launch/tools/gpu-pack.sh OUT.tar.xz [--build DIR] [--programs LIST]
#
# --build     programs that Ninja has built there (default: the release is built in build/). For hosts
#             with a driver of CUDA 12: a build for CUDA 12 (launch/tools/cuda12-toolkit.sh)
# --programs  comma list (default: all that gpu-check.sh runs)
#
# There: tar xf OUT.tar.xz && cd atoll-gpu && bash launch/tools/gpu-check.sh --minutes 8
# The host needs the same kind of processor, a C library and a C++ library that are not older than
# here, CUDA's libraries of this build's version (a toolkit, or those of PyTorch), python3 and xz.
set -euo pipefail
out="" build="" programs=atoll,bench_kernels,test_kernels,test_training,test_exchange,test_comm
refuse() { echo "gpu-pack.sh: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --build | --programs)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      if [ "$1" = --build ]; then build=$(realpath "$2"); else programs=$2; fi
      shift 2 ;;
    -*) refuse "unknown option '$1'; allowed are --build, --programs" ;;
    *) [ -z "$out" ] || refuse "one archive at a time, not '$out' and '$1'"; out=$(realpath "$1"); shift ;;
  esac
done
[ -n "$out" ] || refuse "name the archive to write, e.g. gpu.tar.xz"
[[ $out == *.tar.xz ]] || refuse "the archive's name must end in .tar.xz, not '$out'"
cd "$(dirname "$0")/../.."
. launch/script_steps.sh
. launch/tools/gpu_link.sh
IFS=, read -ra names <<<"$programs"
git rev-parse --git-dir >/dev/null 2>&1 || refuse "the sources are packed as git lists them, but $PWD is no clone"

if [ -z "$build" ]; then
  build=$PWD/build
  use_ccache
  step "Configuring" build/logs/configure.log configure_release
  step "Building" build/logs/build.log cmake --build build --target "${names[@]}"
fi
for name in "${names[@]}"; do
  [ -x "$build/$name" ] || refuse "$build has no program $name"
done
[ -f "$build/build.ninja" ] || refuse "$build was not built by Ninja"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=$work/atoll-gpu logs=$work/logs
mkdir "$top"
copy_sources() {
  git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$top"
}
# Twice the libraries' size would travel with what only debuggers read.
strip_all() {
  find "$top/build" -name '*.so*' -type f -exec strip --strip-unneeded {} +
  find "$top/build/link" -type f \( -name '*.a' -o -name '*.o' \) -exec strip --strip-debug {} +
}
link_all() {
  local name
  for name in "${names[@]}"; do
    link_packed "$top/build" "$name" "$top/build/$name"
    strip "$top/build/$name"
  done
}
# One block with a window over all programs: they share most of their contents.
compress() {
  tar -c --owner=0 --group=0 --sort=name -C "$work" atoll-gpu |
    xz -T1 --lzma2="preset=${ATOLL_PACK_PRESET:-6},dict=96MiB" >"$out.part"
  mv "$out.part" "$out"
}
step "Sources" "$logs/sources.log" copy_sources
step "Libraries" "$logs/libraries.log" \
  python3 -B launch/tools/gpu_pack.py "$build" "$top/build" "${names[@]}"
step "Stripping" "$logs/strip.log" strip_all
step "Linking" "$logs/link.log" link_all
step "Compressing" "$logs/compress.log" compress
echo "$out: $(du -m "$out" | cut -f1) MiB, of $(du -sm "$top" | cut -f1) MiB"
python3 - "$top/build/pack.json" <<'PYTHON'
import json, sys
pack = json.load(open(sys.argv[1], encoding="utf-8"))
print(f"CUDA {pack['cuda']}, code for {', '.join(pack['code'])}" if "cuda" in pack else "no CUDA kernels")
PYTHON
