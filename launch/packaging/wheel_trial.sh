#!/usr/bin/env bash
# Tries the wheels of folder $1 on a system without compilers and without MPI: launch/packaging/wheels
# runs it inside a bare one, as root. Prints what it sees, and ends with a line of results.
set -euo pipefail
wheels=$1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PIP_ROOT_USER_ACTION=ignore
export DEBIAN_FRONTEND=noninteractive
fail() { echo "wheel_trial.sh: $*" >&2; exit 1; }
now() { date +%s.%N; }
between() { awk "BEGIN { printf \"%.1f\", $2 - $1 }"; }

install_packages() {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  no_compiler
}
no_compiler() {
  local name
  for name in cc gcc g++ c++ clang nvcc; do
    ! command -v "$name" >/dev/null || fail "there is a compiler, $name: this shows nothing"
  done
}

# refused CODE TEXT COMMAND...: it ends with CODE and says TEXT.
refused() {
  local code=$1 text=$2 found=0
  shift 2
  "$@" >refused.log 2>&1 || found=$?
  [ "$found" = "$code" ] || { cat refused.log; fail "exit code $found instead of $code: $*"; }
  grep -q "$text" refused.log || { cat refused.log; fail "'$text' is not said by: $*"; }
  echo "  refused as it should: $*"
  sed 's/^/    /' refused.log
}

# loss RUN: of its last epoch, by which the same training is known again.
loss() { python3 -c "import json, sys; print(json.loads(list(open(sys.argv[1]))[-1])['loss'])" "$1/metrics.jsonl"; }

# by_processes NAME LAUNCHER...: the training once more, by two processes, with the same result.
by_processes() {
  local name=$1
  shift
  "$@" -n 2 atoll train cora --hidden 16 --epochs 60 --run-dir "$name" >"$name.log" 2>&1 ||
    { cat "$name.log"; fail "$name: failed"; }
  [ "$(loss "$name")" = "$(loss threads)" ] || fail "$name: loss $(loss "$name"), by threads $(loss threads)"
  echo "  $name: the same result by $* -n 2"
}

install_packages python3 python3-venv
for name in mpirun mpiexec srun; do
  ! command -v "$name" >/dev/null || fail "there is $name already"
done
cd "$(mktemp -d)"
minor=$(python3 -c 'import sys; print(sys.version_info.minor)')
[ "$minor" -ge 12 ] && kind=cp312-abi3 || kind=cp3$minor-cp3$minor
wheel=$(ls "$wheels"/*"-$kind"-*.whl)
python3 -m venv env
PATH=$PWD/env/bin:$PATH

echo "pip install $(basename "$wheel")"
start=$(now)
pip install --quiet "$wheel"
installed=$(now)
# In everything that has a size it is as large as Cora.
python - <<'END'
import atoll

dataset = atoll.Dataset.generate("sbm", nodes=2708, classes=7, features=1433, degree=4,
                                 split="per-class:20,500,1000", path="cora")
run = atoll.train(dataset, "gcn", hidden=16, epochs=60, ranks=2, run_dir="threads", progress=None)
print(f"  two threads as ranks: test {run.summary['test']:.3f}")
END
trained=$(now)
[[ $wheel != *+cu* ]] || python "$wheels/cuda_trial.py"

atoll --version
grep -q 'MPI: none' <(atoll --version) || fail "--version has found an MPI library"
atoll doctor | sed -n '/^MPI/,/^$/p'
refused 2 'libmpich.so.12' atoll launch --ranks-per-host 2 -- train cora --run-dir never
refused 2 "Open MPI's mpirun started this process" \
  env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 atoll train cora --run-dir never
refused 2 "MPICH's mpiexec started this process" \
  env PMI_SIZE=2 PMI_RANK=0 atoll train cora --run-dir never
refused 2 'allowed are openmpi, mpich' env ATOLL_MPI=other PMI_SIZE=2 PMI_RANK=0 \
  atoll train cora --run-dir never

install_packages openmpi-bin
open_mpi=$(atoll --version | sed -n 's/^MPI: //p')
by_processes open-mpi mpirun
atoll launch --ranks-per-host 2 -- train cora --hidden 16 --epochs 60 --run-dir launched >launched.log 2>&1 ||
  { cat launched.log; fail "atoll launch: failed"; }
[ "$(loss launched)" = "$(loss threads)" ] || fail "atoll launch: another result"
echo "  launched: the same result by atoll launch"

# Beside Open MPI: each launcher gets its own library.
install_packages mpich
mpich=$(ATOLL_MPI=mpich atoll --version | sed -n 's/^MPI: //p')
by_processes mpich mpiexec.mpich
by_processes open-mpi-again mpirun.openmpi
refused 1 'MPI sees 1' env ATOLL_MPI=openmpi mpiexec.mpich -n 2 atoll train cora --run-dir never

. /etc/os-release
printf 'RESULT\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$PRETTY_NAME" "$(ldd --version | sed -n '1s/.* //p')" \
  "$(python3 -c 'import platform; print(platform.python_version())')" \
  "$(between "$start" "$installed")" "$(between "$start" "$trained")" "$open_mpi" "$mpich"
