#!/usr/bin/env bash
# Makes a folder that CMake takes for a CUDA 12.9 toolkit, on a machine that has nvcc 13: headers,
# libraries and the assembler (ptxas) of CUDA 12.9 from pip, around nvcc's own front end. What is built
# with it runs on drivers of CUDA 12. Where a CUDA 12 toolkit is installed, use that.
#
#   launch/tools/cuda12-toolkit.sh FOLDER [--libraries]
#
# --libraries  also cuBLAS, cuSPARSE and NCCL themselves (1.3 GB); without them their headers alone, with
#              empty libraries to link: programs load the true ones where they run
#
# Then: cmake --preset release -B build-cuda12 -DCMAKE_CUDA_COMPILER=FOLDER/bin/nvcc
# nvcc 13 writes PTX of version 9.0, which the assembler of 12.9 knows as 8.8: the number is changed,
# and what of 9.0 it does not know would be an error. Needs pip, c++ and nvcc 13 (NVCC, PATH or
# /usr/local/cuda).
set -euo pipefail
refuse() { echo "cuda12-toolkit.sh: $*" >&2; exit 2; }
folder="" with_libraries=no
while [ $# -gt 0 ]; do
  case $1 in
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --libraries) with_libraries=yes; shift ;;
    -*) refuse "unknown option '$1'; allowed is --libraries" ;;
    *) [ -z "$folder" ] || refuse "one folder at a time, not '$folder' and '$1'"; folder=$1; shift ;;
  esac
done
[ -n "$folder" ] || refuse "name the folder to make"
[ ! -e "$folder" ] || refuse "$folder is there already"
folder=$(realpath -m "$folder")
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$nvcc" ] || refuse "nvcc is not installed"
"$nvcc" --version | grep -q 'release 13\.' || refuse "$nvcc is not of CUDA 13"
newer=$(dirname "$(dirname "$(realpath "$nvcc")")")
cd "$(dirname "$0")/../.."
. launch/script_steps.sh

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
pip=$work/pip
# Versions that the kernels' table of machine code was compared with; other versions may do as well.
packages=(nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86
  nvidia-cuda-cccl-cu12==12.9.27 nvidia-nvtx-cu12==12.9.79 nvidia-cublas-cu12==12.9.1.4
  nvidia-cusparse-cu12==12.5.10.65 nvidia-nvjitlink-cu12==12.9.86 nvidia-nccl-cu12==2.28.9)
download() {
  python3 -m pip install --no-deps --no-compile --target "$pip" "${packages[@]}"
}
assemble() {
  local part file name
  mkdir -p "$work"/cuda/{bin,include,lib64,nvvm/bin}
  for part in "$pip"/nvidia/*/; do
    [ ! -d "$part/include" ] || cp -r "$part/include/." "$work/cuda/include/"
  done
  cp -r "$pip"/nvidia/cuda_nvcc/nvvm/libdevice "$work/cuda/nvvm/"
  cp "$pip"/nvidia/cuda_runtime/lib/* "$work/cuda/lib64/"
  ln -s libcudart.so.12 "$work/cuda/lib64/libcudart.so"
  for file in "$pip"/nvidia/{cublas,cusparse,nvjitlink,nccl}/lib/*.so.*; do
    name=$(basename "$file")
    if [ $with_libraries = yes ]; then
      mv "$file" "$work/cuda/lib64/"
    else
      c++ -shared -Wl,-soname,"$name" -o "$work/cuda/lib64/$name" -x c /dev/null
    fi
    ln -s "$name" "$work/cuda/lib64/${name%%.so.*}.so"
  done
  cp -r "$newer"/bin/{fatbinary,nvlink,cudafe++,bin2c,crt,nvcc.profile} "$work/cuda/bin/"
  cp "$newer/bin/nvcc" "$work/cuda/bin/nvcc-13"
  cp "$newer/nvvm/bin/cicc" "$work/cuda/nvvm/bin/"
  cp "$pip"/nvidia/cuda_nvcc/bin/ptxas "$work/cuda/bin/ptxas-12"
  # It calls functions of the runtime by a macro with one argument more, and is the same otherwise.
  cp "$newer/include/crt/host_runtime.h" "$work/cuda/include/crt/"
  cat >"$work/cuda/bin/nvcc" <<'NVCC'
#!/usr/bin/env bash
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
if [[ " $* " == *" --version "* ]]; then
  echo "nvcc: NVIDIA (R) Cuda compiler driver"  # CMake knows it by this line
  echo "The front end of CUDA 13 with headers, libraries and assembler of CUDA 12"
  echo "Cuda compilation tools, release 12.9, V12.9.86"
  exit
fi
# Drivers older than 12.4 know no other compression.
exec "$here/nvcc-13" -compress-mode=speed "$@"
NVCC
  cat >"$work/cuda/bin/ptxas" <<'PTXAS'
#!/usr/bin/env bash
for word in "$@"; do
  case $word in *.ptx) sed -i '1,20s/^\.version 9\..*/.version 8.8/' "$word" ;; esac
done
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/ptxas-12" "$@"
PTXAS
  chmod +x "$work"/cuda/bin/{nvcc,nvcc-13,ptxas,ptxas-12} "$work/cuda/nvvm/bin/cicc"
}
# Its output is an archive for A100 and H100 as much as what CMake compiles.
try() {
  printf '#include <cuda_bf16.h>\n__global__ void halve(__nv_bfloat16* x) { *x = __hmul(*x, __nv_bfloat16(.5f)); }\nint main() { halve<<<1, 1>>>(nullptr); }\n' >"$work/try.cu"
  "$work/cuda/bin/nvcc" -std=c++20 -gencode arch=compute_80,code=sm_80 \
    -gencode 'arch=compute_90,code=[sm_90,compute_90]' "$work/try.cu" -o "$work/try"
}
logs=$work/logs
step "Downloading" "$logs/download.log" download
step "Assembling" "$logs/assemble.log" assemble
step "Compiling a kernel" "$logs/try.log" try
mv "$work/cuda" "$folder"
echo "$folder: $(du -sm "$folder" | cut -f1) MiB"
