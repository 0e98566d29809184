#!/usr/bin/env bash
# In an unpacked archive of gpu-pack.sh, on a host that has nvcc and a C++ compiler: compiles the
# kernels (kernels/cuda/*.cu) that are newer than their objects, all at the first call, and links
# the programs with them. Nothing else can be changed there.
#
#   launch/tools/gpu-rebuild.sh [--build DIR] [--out DIR] [PROGRAM...]
#
# --build   the unpacked programs (default build); their objects are kept in DIR/link/changed
# --out     where the new programs go (default: over the unpacked ones); gpu-check.sh --build takes it
# PROGRAM   default: all of the archive
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/script_steps.sh
. launch/tools/gpu_link.sh

refuse() { echo "gpu-rebuild.sh: $*" >&2; exit 2; }
build=build out="" programs=()
while [ $# -gt 0 ]; do
  case $1 in
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --build | --out)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      if [ "$1" = --build ]; then build=$2; else out=$2; fi
      shift 2 ;;
    -*) refuse "unknown option '$1'; allowed are --build, --out" ;;
    *) programs+=("$1"); shift ;;
  esac
done
[ -f "$build/link/nvcc.words" ] || refuse "$build is no unpacked archive of gpu-pack.sh with kernels"
for tool in "${NVCC:-nvcc}" "${CXX:-c++}"; do
  command -v "$tool" >/dev/null || refuse "$tool is not installed"
done
# Code that was not compiled anew, and the runtime in the programs, is of the archive's CUDA.
packed=$(cat "$build/link/cuda.release")
found=$("${NVCC:-nvcc}" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
[ "${found%%.*}" = "${packed%%.*}" ] ||
  refuse "${NVCC:-nvcc} is of CUDA $found, the archive is of CUDA $packed; use nvcc of CUDA ${packed%%.*}"
out=${out:-$build}
if [ ${#programs[@]} = 0 ]; then
  for words in "$build"/link/*.words; do
    [ "$words" = "$build/link/nvcc.words" ] || programs+=("$(basename "$words" .words)")
  done
fi
for program in "${programs[@]}"; do
  [ -f "$build/link/$program.words" ] || refuse "$build has no $program"
done

objects=$build/link/changed
mkdir -p "$objects" "$out"
# A header that is newer than an object may be part of it.
outdated=()
for source in kernels/cuda/*.cu; do
  object=$objects/$(basename "$source").o
  if [ ! -f "$object" ] || [ "$source" -nt "$object" ] ||
    [ -n "$(find kernels base \( -name '*.hpp' -o -name '*.cuh' \) -newer "$object" -print -quit)" ]; then
    outdated+=("$source")
  fi
done
compile_kernels() {
  mapfile -t flags <"$build/link/nvcc.words"
  printf '%s\n' "${outdated[@]}" | xargs -P "$(nproc)" -I{} bash -c \
    'source=$1 object=$2/$(basename "$1").o; shift 2
     "$@" -c "$source" -o "$object.part" && mv "$object.part" "$object"' \
    compile {} "$objects" "${NVCC:-nvcc}" "${flags[@]}" -I. -isystem "$build/include"
}
if [ ${#outdated[@]} -gt 0 ]; then
  step "Compiling ${#outdated[@]} kernels" "$build/logs/kernels.log" compile_kernels
fi
# Elsewhere than in the archive the programs find their libraries by links.
if [ "$(realpath "$out")" != "$(realpath "$build")" ]; then
  ln -sfn "$(realpath "$build/lib")" "$out/lib"
  ln -sfn "$(realpath "$build/openmpi")" "$out/openmpi"
  cp "$build/environment.sh" "$out/environment.sh"
fi
for program in "${programs[@]}"; do
  step "Linking $program" "$build/logs/$program.log" \
    link_packed "$build" "$program" "$(realpath "$out")/$program" "$(realpath "$objects")"/*.cu.o
done
