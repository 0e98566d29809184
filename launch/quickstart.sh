#!/usr/bin/env bash
# From a fresh checkout to a trained model: installs packages, builds the release, generates a graph
# with communities, cuts it into four parts and trains a GCN on four MPI ranks. May be run again.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/script_steps.sh
logs=build/logs
ranks=4
data=data/quickstart
run=runs/quickstart

echo "Atoll quick start; full output in $logs"
step "Installing packages" $logs/packages.log bash launch/install-packages.sh
use_ccache
step "Configuring" $logs/configure.log configure_release -DATOLL_TESTS=OFF
step "Building" $logs/build.log cmake --build build --target atoll -j "$(nproc)"
rm -rf "$data" "$run"
step "Generating a graph" $logs/generate.log build/atoll generate sbm --out "$data"
step "Cutting it into $ranks parts" $logs/partition.log \
  build/atoll partition "$data" --parts $ranks

prepare_mpi
export OMP_NUM_THREADS=$((($(nproc) + ranks - 1) / ranks))
echo "Training a GCN on $ranks ranks with $OMP_NUM_THREADS thread(s) each:"
mpirun --bind-to none -n $ranks build/atoll train "$data" --model gcn --layers 2 --hidden 64 \
  --dropout 0.5 --lr 0.01 --epochs 50 --run-dir "$run"
build/atoll report "$run" --out "$run/report.html"

next() { printf '  %s\n      %s\n' "$1" "$2"; }
echo
echo "Finished in $(format_seconds $((SECONDS - script_start))) minutes. Next:"
next "build/atoll info $data" "what was generated"
next "build/atoll train --help" "models and options; train again and compare the runs"
next "build/atoll report runs/*" "curves and times of all runs on one page; this run's: $run/report.html"
next "build/atoll predict $run $data --out labels.npy" "the class of every node"
next "README.md" "a first run on your own graph"
