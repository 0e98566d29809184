#!/usr/bin/env bash
# Everything that only a GPU can show, on the host it is started on: tests with a GPU required,
# compute-sanitizer, kernel benchmarks beside measured ceilings, epochs on graphs of published
# shapes, several ranks on one device, NCCL, and PyTorch Geometric on the same tasks where it can be
# imported. Writes OUT/gpu-check.json and a table; every step's output is kept in OUT/logs.
# Changes no clock, power or MIG setting.
#
#   launch/gpu-check.sh [--out DIR] [--build DIR] [--data DIR] [--scale X] [--stages LIST]
#                       [--tools LIST] [--datasets LIST] [--epochs N] [--limit SECONDS]
#
# --stages   comma list of tests,sanitizer,kernels,epochs,ranks,peers (default: all of them)
# --tools    of the sanitizer stage: memcheck,racecheck,initcheck,synccheck (default: all of them)
# --datasets of epochs and peers: ogbn-arxiv,reddit,ogbn-products (default: all, in this order)
# --scale    shrinks the graphs (1 = the published sizes)
# --epochs   measured per configuration (default 20)
# --limit    of every single check (default 240 s)
#
# A host lent for minutes can run stages, tools and data sets in several calls with the same OUT;
# what was done before a call is ended stays. A build of another machine (--build) is used as it is,
# else the release is built here. PYTHON names the interpreter (default python3).
set -euo pipefail
cd "$(dirname "$0")/.."

out=gpu-check build=build data="" scale=1 epochs=20 limit=240
all_stages=tests,sanitizer,kernels,epochs,ranks,peers
all_tools=memcheck,racecheck,initcheck,synccheck
all_datasets=ogbn-arxiv,reddit,ogbn-products
stages=$all_stages tools=$all_tools datasets=$all_datasets
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
refuse() { echo "gpu-check.sh: $*" >&2; exit 2; }
# only_of WHAT ALLOWED LIST: refuses an entry of the comma list that is not allowed.
only_of() {
  [ -n "$3" ] || refuse "no $1 given; allowed are ${2//,/, }"
  for entry in ${3//,/ }; do
    [[ ",$2," == *",$entry,"* ]] || refuse "unknown $1 '$entry'; allowed are ${2//,/, }"
  done
}
while [ $# -gt 0 ]; do
  case $1 in
    --help) usage; exit 0 ;;
    --out | --build | --data | --scale | --stages | --tools | --datasets | --epochs | --limit)
      [ $# -ge 2 ] || refuse "$1 needs a value" ;;
  esac
  case $1 in
    --out) out=$2 ;;
    --build) build=$2 ;;
    --data) data=$2 ;;
    --scale) scale=$2 ;;
    --stages) only_of stage "$all_stages" "$2"; stages=$2 ;;
    --tools) only_of tool "$all_tools" "$2"; tools=$2 ;;
    --datasets) only_of dataset "$all_datasets" "$2"; datasets=$2 ;;
    --epochs) epochs=$2 ;;
    --limit) limit=$2 ;;
    *) refuse "unknown option '$1'; allowed are --out, --build, --data, --scale, --stages," \
              "--tools, --datasets, --epochs, --limit" ;;
  esac
  shift 2
done
for number in "$epochs" "$limit"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] ||
    refuse "--epochs and --limit are whole numbers from 1, not '$number'"
done
data=${data:-$out/data}
mkdir -p "$out/logs" "$out/results" "$data"
wants() { [[ ",$stages," == *",$1,"* ]]; }

. launch/script_steps.sh
prepare_mpi
python=$(command -v "${PYTHON:-python3}" || true)
[ -n "$python" ] || { echo "gpu-check.sh: python3 is needed to collect the results" >&2; exit 1; }
if [ ! -x "$build/atoll" ]; then
  use_ccache
  step "Configuring" "$out/logs/configure.log" cmake --preset release -B "$build"
  step "Building" "$out/logs/build.log" cmake --build "$build" -j "$(nproc)"
fi

# Folders in which pip keeps CUDA's libraries, for hosts that have a driver but no toolkit.
pip_cuda_folders() {
  "$python" - <<'END'
import importlib.util
import pathlib

spec = importlib.util.find_spec("nvidia")
folders = []
for root in (spec.submodule_search_locations or []) if spec else []:
    for name in ("libcublas.so.13", "libcusparse.so.12", "libnvJitLink.so.13", "libnccl.so.2"):
        folders += [str(path.parent) for path in sorted(pathlib.Path(root).glob(f"*/lib/{name}"))]
print(":".join(dict.fromkeys(folders)))
END
}
folders=$(pip_cuda_folders)
if [ -n "$folders" ]; then
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders
  echo "CUDA libraries of pip, used where no others come first: $folders"
fi
if ! message=$("$build/atoll" --version 2>&1); then
  echo "gpu-check.sh: $build/atoll does not start: $message" >&2
  exit 1
fi
if ! "$build/atoll" doctor --json >"$out/results/machine.json" 2>"$out/logs/doctor.log"; then
  echo "atoll doctor finds faults: see $out/results/machine.json and $out/logs/doctor.log"
fi
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv,noheader \
  >"$out/results/gpu.txt" 2>/dev/null || echo "no nvidia-smi" >"$out/results/gpu.txt"
echo "GPU: $(cat "$out/results/gpu.txt")"

failures=0 child=""
# After every check, because a host that is taken back may leave no time at the end.
record() { "$python" launch/gpu_check_table.py "$out" >"$out/table.txt"; }
finish() {
  local code=$?
  trap - EXIT
  record || code=1
  cat "$out/table.txt"
  if [ $failures -gt 0 ]; then
    echo "$failures checks failed; see $out/logs"
    code=1
  elif [ $code -ne 0 ]; then
    echo "Ended early with exit code $code; results so far are in $out/gpu-check.json"
  else
    echo "All checks of this call passed; results in $out/gpu-check.json"
  fi
  exit $code
}
# A signal ends the check that runs, too.
stop() {
  [ -z "$child" ] || kill "$child" 2>/dev/null || true
  exit 143
}
trap finish EXIT
trap stop TERM INT HUP

# limited LOG COMMAND...: the command's exit code; 124 or 137 if it reached the limit. It runs
# beside the shell, which would otherwise hear of a signal only after it.
limited() {
  local log=$1 code=0
  shift
  timeout -k 10 "$limit" "$@" >"$log" 2>&1 &
  child=$!
  wait "$child" || code=$?
  child=""
  return $code
}
# what_of CODE: in words.
what_of() {
  case $1 in
    124 | 137) echo "ended at the limit of $limit s or killed" ;;
    *) echo "exit code $1" ;;
  esac
}
# begin NAME COMMAND...: forgets earlier results of this name.
begin() {
  local name=$1
  shift
  rm -f "$out/results/$name".*
  printf '%q ' "$@" >"$out/results/$name.command"
}
fail() {
  echo "  FAIL  $1: $2; end of $out/logs/$1.log:"
  tail -n 8 "$out/logs/$1.log" | sed 's/^/        /'
  failures=$((failures + 1))
}
# run NAME COMMAND...: with its output in a log; sets `code` and `seconds`.
run() {
  local name=$1 start=$SECONDS
  begin "$@"
  shift
  code=0
  limited "$out/logs/$name.log" "$@" || code=$?
  seconds=$((SECONDS - start))
}
# report NAME CODE SECONDS WORDS: a failure is counted, the rest goes on.
report() {
  echo "$2 $3" >"$out/results/$1.exit"
  if [ "$2" -eq 0 ]; then echo "  ok    $1 ($4)"; else fail "$1" "$4"; fi
  record
}
check() {
  local code seconds words
  run "$@"
  words="$seconds s"
  [ $code -eq 0 ] || words=$(what_of $code)
  report "$1" $code $seconds "$words"
}
# check_tests NAME COMMAND...: a GoogleTest program, which ends well even if no test ran.
check_tests() {
  local log=$out/logs/$1.log code seconds ran skipped words
  run "$@"
  ran=$(grep -cE '^\[ +(OK|FAILED) +\] .*\([0-9]+ ms\)$' "$log" || true)
  skipped=$(grep -cE '^\[ +SKIPPED +\] .*\([0-9]+ ms\)$' "$log" || true)
  echo "$ran $skipped" >"$out/results/$1.tests"
  words="$ran tests, $skipped skipped, $seconds s"
  if [ $code -ne 0 ]; then
    words="$(what_of $code) after $words"
  elif [ "$ran" -eq 0 ]; then
    code=1 words="no test ran"
  fi
  report "$1" $code $seconds "$words"
}
skip() {
  rm -f "$out/results/$1".*
  echo "$2" >"$out/results/$1.skipped"
  echo "  skip  $1: $2"
  record
}

export ATOLL_REQUIRE_GPU=1
if wants tests; then
  echo "Tests that need a GPU"
  for name in kernels comm exchange training; do
    [ -x "$build/test_$name" ] || { skip "test_$name" "not built"; continue; }
    check_tests "test_$name" "$build/test_$name" --gtest_filter='*cuda*:*Cuda*:*Device*:*Nccl*'
  done
fi

# sanitizer TOOL: all operations at their smallest sizes, since the tools slow a kernel down a
# hundredfold, and without the tests that repeat others or only refuse. Kernels of libraries are not
# checked.
sanitizer() {
  local tool=$1 name=sanitizer_$1 probe='*MemoryIsAligned/cuda' code=0 options=()
  local filter='*/cuda*:CudaBackendTest.*:-*RunsTwice*:*WhatARecordingMayNotDo*:*SpmmOfVeryWide*'
  if ! command -v compute-sanitizer >/dev/null; then
    skip "$name" "compute-sanitizer is not installed"
    return
  fi
  # A tool that doesn't know the device says so at the first test.
  limited "$out/logs/${name}_probe.log" compute-sanitizer --tool "$tool" --error-exitcode 9 \
    "$build/test_kernels" --gtest_filter="$probe" || code=$?
  if ! grep -q '^\[  PASSED  \] 1 test' "$out/logs/${name}_probe.log"; then
    skip "$name" "does not run here, $(what_of $code): $(tail -n 1 "$out/logs/${name}_probe.log")"
    return
  fi
  if [ "$tool" = memcheck ]; then
    case $(compute-sanitizer --help 2>&1) in
      *--track-stream-ordered-races*) options=(--track-stream-ordered-races all) ;;
    esac
  fi
  check_tests "$name" env ATOLL_TEST_SMALL=1 compute-sanitizer --tool "$tool" --error-exitcode 9 \
    --kernel-regex kns=_ZN3atl4cuda "${options[@]}" "$build/test_kernels" --gtest_filter="$filter"
}
if wants sanitizer; then
  echo "compute-sanitizer"
  listed=$("$build/test_kernels" --gtest_list_tests --gtest_filter='*MemoryIsAligned/cuda' || true)
  if [[ $listed == *MemoryIsAligned* ]]; then
    for tool in ${tools//,/ }; do sanitizer "$tool"; done
  else
    echo "  FAIL  sanitizer: $build/test_kernels has no test MemoryIsAligned/cuda"
    failures=$((failures + 1))
  fi
fi

if wants kernels; then
  echo "Kernels beside the ceilings of the same run"
  check kernels "$build/bench_kernels" --backends=cuda --scale="$scale" --benchmark_repetitions=3 \
    --benchmark_report_aggregates_only=true --benchmark_out_format=json \
    --benchmark_out="$out/results/kernels.json"
fi

# shape NAME: sets `folder` to a generated graph of this shape; false if it can't be made, which is
# tried once.
tried=""
shape() {
  folder=$data/$1-$scale
  if [ ! -f "$folder/dataset.json" ] && [[ " $tried " != *" $1 "* ]]; then
    tried+=" $1"
    check "generate_$1" "$build/atoll" generate "like:$1" --scale "$scale" --out "$folder"
  fi
  [ -f "$folder/dataset.json" ]
}
# bench NAME DATASET OPTION...: epoch times of one configuration.
bench() {
  local name=$1 dataset=$2
  shift 2
  check "bench_$name" "$build/atoll" bench "$dataset" --backend cuda --warmup 5 --epochs "$epochs" \
    --profile 5 --json "$out/results/bench_$name.json" "$@"
}
if wants epochs; then
  echo "Epochs"
  for dataset in ${datasets//,/ }; do
    shape "$dataset" || continue
    for model in gcn sage; do
      bench "${dataset}_${model}_f32" "$folder" --model $model
      bench "${dataset}_${model}_tf32" "$folder" --model $model --tf32 on
      bench "${dataset}_${model}_bf16" "$folder" --model $model --dtype bf16
    done
    [ "$dataset" = ogbn-arxiv ] || continue
    bench ogbn-arxiv_gcn_batch "$folder" --norm batch
    bench ogbn-arxiv_gcn_nograph "$folder" --cuda-graph off
  done
fi

if wants ranks && shape ogbn-arxiv; then
  echo "Several ranks on one device"
  for ranks in 2 4; do
    bench "arxiv_local_$ranks" "$folder" --transport local --ranks $ranks --norm batch
    if command -v mpirun >/dev/null; then
      check "bench_arxiv_mpi_$ranks" mpirun --bind-to none -n $ranks \
        "$build/atoll" bench "$folder" --backend cuda --warmup 5 --epochs "$epochs" --norm batch \
        --json "$out/results/bench_arxiv_mpi_$ranks.json"
    else
      skip "bench_arxiv_mpi_$ranks" "mpirun is not installed"
    fi
  done
  check train_mixed "$build/atoll" train "$folder" --transport local --ranks 2 --backend cuda,cpu \
    --epochs 5 --eval-every 0
fi

# peer NAME DATASET OPTION...: what the peer can't do (memory, a missing kernel, the limit) is no
# failure of ours.
peer() {
  local name=$1 log=$out/logs/$1.log start=$SECONDS code=0
  shift
  begin "$name" "$python" tests/peers/pyg_epoch.py "$@"
  limited "$log" "$python" tests/peers/pyg_epoch.py "$@" || code=$?
  if [ $code -eq 0 ]; then
    tail -n 1 "$log" >"$out/results/$name.json"
    echo "0 $((SECONDS - start))" >"$out/results/$name.exit"
    echo "  ok    $name ($((SECONDS - start)) s)"
    record
  else
    skip "$name" "$(what_of $code): $(tail -n 1 "$log")"
  fi
}
# The cheapest first, so that a short loan of the host has most of the table.
run_peers() {
  local adjacency dataset precision model
  for adjacency in csr edge_index; do
    for dataset in ${datasets//,/ }; do
      shape "$dataset" || continue
      for precision in bf16 tf32 f32; do
        for model in gcn sage; do
          peer "peer_${dataset}_${model}_${precision}_$adjacency" "$folder" --model $model \
            --precision $precision --adjacency $adjacency --epochs "$epochs"
        done
      done
    done
  done
}
if wants peers; then
  echo "PyTorch Geometric"
  importable="import torch, torch_geometric; assert torch.cuda.is_available()"
  if "$python" -c "$importable" 2>/dev/null; then
    run_peers
  else
    skip peers "torch with a GPU and torch_geometric can't be imported by $python"
  fi
fi
