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
step "Configuring" $logs/configure.log cmake --preset release -DATOLL_TESTS=OFF
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

cat <<END

Finished in $(format_seconds $((SECONDS - script_start))) minutes. Next:
  build/atoll info $data                 what was generated
  build/atoll train --help               models and options
  build/atoll predict $run $data --out $run/labels.npy
  open $run/report.html in a browser; train again with other options and compare the runs
  README.md                              a first run on your own graph
END
