#!/usr/bin/env bash
# Everything that only a GPU can show, on the host it is started on: tests with a GPU required,
# compute-sanitizer, kernel benchmarks beside measured ceilings, epochs on graphs of published
# shapes, several ranks on one device, NCCL, and PyTorch Geometric on the same tasks where it can be
# imported. Writes OUT/gpu-check.json and a table; every step's output is kept in OUT/logs.
# Changes no clock, power or MIG setting.
#
#   launch/gpu-check.sh [--out DIR] [--build DIR] [--data DIR] [--scale X] [--stages LIST]
#
# --stages is a comma list of: tests,sanitizer,kernels,epochs,ranks,peers (default: all of them), so
# that a host lent for minutes can run them in several calls; --scale shrinks the graphs (1 = the
# published sizes). A build of another machine is used as it is, else the release is built here.
set -euo pipefail
cd "$(dirname "$0")/.."

out=gpu-check build=build data="" scale=1 stages=tests,sanitizer,kernels,epochs,ranks,peers
usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
  case $1 in --out | --build | --data | --scale | --stages)
    [ $# -ge 2 ] || { echo "gpu-check.sh: $1 needs a value" >&2; exit 2; } ;;
  esac
  case $1 in
    --out) out=$2 ;;
    --build) build=$2 ;;
    --data) data=$2 ;;
    --scale) scale=$2 ;;
    --stages) stages=$2 ;;
    --help) usage; exit 0 ;;
    *) echo "gpu-check.sh: unknown option '$1'; allowed are --out, --build, --data, --scale, --stages" >&2
       exit 2 ;;
  esac
  shift 2
done
for stage in ${stages//,/ }; do
  case $stage in
    tests | sanitizer | kernels | epochs | ranks | peers) ;;
    *) echo "gpu-check.sh: unknown stage '$stage'; allowed are tests, sanitizer, kernels, epochs, ranks, peers" >&2
       exit 2 ;;
  esac
done
data=${data:-$out/data}
mkdir -p "$out/logs" "$out/results" "$data"
wants() { [[ ",$stages," == *",$1,"* ]]; }

. launch/script_steps.sh
prepare_mpi
python=$(command -v python3 || true)
[ -n "$python" ] || { echo "gpu-check.sh: python3 is needed to collect the results" >&2; exit 1; }
if [ ! -x "$build/atoll" ]; then
  use_ccache
  step "Configuring" "$out/logs/configure.log" cmake --preset release -B "$build"
  step "Building" "$out/logs/build.log" cmake --build "$build" -j "$(nproc)"
fi
"$build/atoll" doctor --json >"$out/results/machine.json" || true
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv,noheader \
  >"$out/results/gpu.txt" 2>/dev/null || echo "no nvidia-smi" >"$out/results/gpu.txt"
echo "GPU: $(cat "$out/results/gpu.txt")"

failures=0
# check NAME COMMAND...: runs it with its output in a log; a failure is counted, the rest goes on.
check() {
  local name=$1 start=$SECONDS code=0
  shift
  rm -f "$out/results/$name".*
  printf '%q ' "$@" >"$out/results/$name.command"
  "$@" >"$out/logs/$name.log" 2>&1 || code=$?
  echo "$code $((SECONDS - start))" >"$out/results/$name.exit"
  if [ $code -eq 0 ]; then
    echo "  ok    $name ($((SECONDS - start)) s)"
  else
    echo "  FAIL  $name: exit code $code; end of $out/logs/$name.log:"
    tail -n 8 "$out/logs/$name.log" | sed 's/^/        /'
    failures=$((failures + 1))
  fi
}
skip() {
  rm -f "$out/results/$1".*
  echo "$2" >"$out/results/$1.skipped"
  echo "  skip  $1: $2"
}

export ATOLL_REQUIRE_GPU=1
if wants tests; then
  echo "Tests that need a GPU"
  for name in kernels comm exchange training; do
    [ -x "$build/test_$name" ] || { skip "test_$name" "not built"; continue; }
    check "test_$name" "$build/test_$name" --gtest_filter='*cuda*:*Cuda*:*Device*:*Nccl*'
    if grep -q 'Running 0 tests' "$out/logs/test_$name.log"; then
      echo "  FAIL  test_$name: no test has this name"
      failures=$((failures + 1))
    fi
  done
fi

if wants sanitizer; then
  echo "compute-sanitizer"
  # The smallest sizes of every operation: the tools slow a kernel down a hundredfold.
  small='*/cuda*:-*257*'
  for tool in memcheck racecheck initcheck synccheck; do
    if ! command -v compute-sanitizer >/dev/null; then
      skip "sanitizer_$tool" "compute-sanitizer is not installed"
      continue
    fi
    ATOLL_TEST_SMALL=1 check "sanitizer_$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$build/test_kernels" --gtest_filter="$small"
  done
fi

if wants kernels; then
  echo "Kernels beside the ceilings of the same run"
  check kernels "$build/bench_kernels" --backends=cuda --scale="$scale" --benchmark_repetitions=3 \
    --benchmark_report_aggregates_only=true --benchmark_out_format=json \
    --benchmark_out="$out/results/kernels.json"
fi

# shape NAME: sets `folder` to a generated graph of this shape; false if it can't be made.
shape() {
  folder=$data/$1-$scale
  [ -f "$folder/dataset.json" ] ||
    check "generate_$1" "$build/atoll" generate "like:$1" --scale "$scale" --out "$folder"
  [ -f "$folder/dataset.json" ]
}
# bench NAME DATASET OPTION...: epoch times of one configuration.
bench() {
  local name=$1 dataset=$2
  shift 2
  check "bench_$name" "$build/atoll" bench "$dataset" --backend cuda --warmup 5 --epochs 20 \
    --profile 5 --json "$out/results/bench_$name.json" "$@"
}
if wants epochs; then
  echo "Epochs"
  for dataset in ogbn-arxiv ogbn-products reddit; do
    shape $dataset || continue
    for model in gcn sage; do
      bench "${dataset}_${model}_f32" "$folder" --model $model
      bench "${dataset}_${model}_tf32" "$folder" --model $model --tf32 on
      bench "${dataset}_${model}_bf16" "$folder" --model $model --dtype bf16
    done
  done
  if shape ogbn-arxiv; then
    bench ogbn-arxiv_gcn_batch "$folder" --norm batch
    bench ogbn-arxiv_gcn_nograph "$folder" --cuda-graph off
  fi
fi

if wants ranks && shape ogbn-arxiv; then
  echo "Several ranks on one device"
  for ranks in 2 4; do
    bench "arxiv_local_$ranks" "$folder" --transport local --ranks $ranks --norm batch
    if command -v mpirun >/dev/null; then
      check "bench_arxiv_mpi_$ranks" mpirun --bind-to none -n $ranks "$build/atoll" bench "$folder" \
        --backend cuda --warmup 5 --epochs 20 --norm batch \
        --json "$out/results/bench_arxiv_mpi_$ranks.json"
    else
      skip "bench_arxiv_mpi_$ranks" "mpirun is not installed"
    fi
  done
  check train_mixed "$build/atoll" train "$folder" --transport local --ranks 2 --backend cuda,cpu \
    --epochs 5 --eval-every 0
fi

# peer NAME DATASET OPTION...: what the peer can't do (memory, a missing kernel) is no failure of ours.
peer() {
  local name=$1 log=$out/logs/$1.log
  shift
  rm -f "$out/results/$name".*
  printf '%q ' tests/peers/pyg_epoch.py "$@" >"$out/results/$name.command"
  local start=$SECONDS
  if "$python" tests/peers/pyg_epoch.py "$@" >"$log" 2>&1; then
    tail -n 1 "$log" >"$out/results/$name.json"
    echo "0 $((SECONDS - start))" >"$out/results/$name.exit"
    echo "  ok    $name ($((SECONDS - start)) s)"
  else
    skip "$name" "$(tail -n 1 "$log")"
  fi
}
if wants peers; then
  echo "PyTorch Geometric"
  if "$python" -c "import torch, torch_geometric; assert torch.cuda.is_available()" 2>/dev/null; then
    for dataset in ogbn-arxiv ogbn-products reddit; do
      shape $dataset || continue
      for model in gcn sage; do
        for precision in f32 tf32 bf16; do
          for adjacency in csr edge_index; do
            name=peer_${dataset}_${model}_${precision}_$adjacency
            peer "$name" "$folder" --model $model --precision $precision --adjacency $adjacency
          done
        done
      done
    done
  else
    skip peers "torch with a GPU and torch_geometric can't be imported by $python"
  fi
fi

"$python" launch/gpu_check_table.py "$out" | tee "$out/table.txt"
if [ $failures -gt 0 ]; then
  echo "$failures checks failed; see $out/logs"
  exit 1
fi
echo "All checks passed; results in $out/gpu-check.json"
