# CPU quotas of ranks, one control group per rank, for emulated-cluster (source it). The names of
# the groups say whose they are: emulated-cluster.CLUSTER.PROCESS.RANK, PROCESS being the `run`.
# shellcheck shell=bash
# shellcheck disable=SC2154  # name is the script's

readonly cgroup_mounts=${cgroup_mounts:-/proc/self/mounts}
# Microseconds. A rank that has used up its quota waits for the next period, so short periods let
# ranks advance evenly; the kernel has no quota below 1 ms.
readonly cpu_period=10000 least_quota=1000
cpu_shares=()                  # percent of one core: of every rank, or one per rank
cpu_version="" cpu_folder=""   # 1 or 2, and the top of its hierarchy

# set_cpu_shares TEXT
set_cpu_shares() {
  local cores share words
  cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  IFS=, read -r -a words <<<"$1,"
  cpu_shares=()
  for share in "${words[@]}"; do
    [[ $share =~ ^[0-9]{1,6}$ ]] && [ "$((10#$share))" -ge 1 ] &&
      [ "$((10#$share))" -le $((100 * cores)) ] ||
      refuse "--cpu '$share': percent of one core, a whole number from 1 to $((100 * cores)), is" \
        "needed (cores here: $cores), one for all ranks or one per rank: 40 or 40,40,40,20"
    cpu_shares+=("$((10#$share))")
  done
}
# spread_cpu_shares RANKS: one share per rank.
spread_cpu_shares() {
  local cores sum=0 share
  [ ${#cpu_shares[@]} = 1 ] || [ ${#cpu_shares[@]} = "$1" ] ||
    refuse "--cpu has ${#cpu_shares[@]} shares for $1 ranks; give one, or one per rank"
  while [ ${#cpu_shares[@]} -lt "$1" ]; do cpu_shares+=("${cpu_shares[0]}"); done
  for share in "${cpu_shares[@]}"; do sum=$((sum + share)); done
  cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  [ $sum -le $((100 * cores)) ] ||
    echo "emulated-cluster: warning: --cpu gives the ranks $sum % together, and the cores here" \
      "have $((100 * cores)) %; ranks will not reach their shares" >&2
}

# find_cpu_controller: sets cpu_version and cpu_folder; false if there is none.
find_cpu_controller() {
  find_mounted_controller "$cgroup_mounts" "" && return
  [ "$cgroup_mounts" = /proc/self/mounts ] || return 1
  # On an emulated host /sys is another one: it is reached through a process that began this one
  # from outside, and of those through the one that will be there longest.
  local process=$PPID folder="" version=""
  while [ "${process:-0}" -gt 0 ]; do
    if [ -r "/proc/$process/mounts" ] &&
      find_mounted_controller "/proc/$process/mounts" "/proc/$process/root" && [ -w "$cpu_folder" ]; then
      folder=$cpu_folder version=$cpu_version
    fi
    process=$(awk '$1 == "PPid:" { print $2 }' "/proc/$process/status" 2>/dev/null)
  done
  cpu_folder=$folder cpu_version=$version
  [ -n "$folder" ]
}
# find_mounted_controller MOUNTS ROOT
find_mounted_controller() {
  local mount type options
  while read -r _ mount type options _; do
    mount=$2$mount
    case $type in
      cgroup) [[ ,$options, == *,cpu,* ]] || continue; cpu_version=1 ;;
      cgroup2)
        [[ " $(cat "$mount/cgroup.controllers" 2>/dev/null) " == *" cpu "* ]] || continue
        cpu_version=2 ;;
      *) continue ;;
    esac
    cpu_folder=$mount
    return 0
  done <"$1"
  return 1
}
# quota_prefix: path of the groups of this process, without the rank.
quota_prefix() { echo "$cpu_folder/emulated-cluster.$name.$$"; }
# The same as hosts reach it, where /sys is another one.
quota_prefix_on_hosts() {
  [[ $cpu_folder == /proc/[0-9]*/root/* ]] || echo -n "/proc/$$/root"
  quota_prefix
}
# set_quota FOLDER SHARE
set_quota() {
  local period=$cpu_period
  [ $((period * $2 / 100)) -ge $least_quota ] || period=$((least_quota * 100 / $2))
  local quota=$((period * $2 / 100))
  [ $quota -ge $least_quota ] || quota=$least_quota  # what division lost
  if [ $cpu_version = 2 ]; then
    echo "$quota $period" >"$1/cpu.max"
  else
    echo $period >"$1/cpu.cfs_period_us" && echo $quota >"$1/cpu.cfs_quota_us"
  fi
}
allow_cpu_quotas() {
  [[ " $(<"$cpu_folder/cgroup.subtree_control") " == *" cpu "* ]] ||
    echo +cpu >"$cpu_folder/cgroup.subtree_control"
}
require_cpu_controller() {
  find_cpu_controller ||
    refuse "run: --cpu needs control groups with the cpu controller: a kernel with" \
      "CONFIG_CFS_BANDWIDTH and a mounted cgroup file system, version 1 or 2 (see /proc/mounts)"
}
# make_quotas: a group per rank, of this process.
make_quotas() {
  local rank folder needs
  needs="a writable $cpu_folder (a container: its own cgroup file system, mounted rw)"
  [ $cpu_version = 1 ] || attempt "the cpu controller available to control groups" "$needs" \
    allow_cpu_quotas
  remove_quotas stale
  for rank in "${!cpu_shares[@]}"; do
    folder=$(quota_prefix).$rank
    attempt "the control group $folder" "$needs" mkdir "$folder"
    attempt "a quota of ${cpu_shares[rank]} % in $folder" "CONFIG_CFS_BANDWIDTH, and groups above \
it without a smaller quota" set_quota "$folder" "${cpu_shares[rank]}"
  done
}
# list_quotas own | stale | all: folders of this cluster; stale are those whose `run` is gone, all
# of whose processes have ended.
list_quotas() {
  local folder owner
  for folder in "$cpu_folder/emulated-cluster.$name."*.*; do
    [[ $folder =~ \.([0-9]+)\.[0-9]+$ ]] && [ -d "$folder" ] || continue
    owner=${BASH_REMATCH[1]}
    case $1 in
      own) [ "$owner" = $$ ] || continue ;;
      stale) [ ! -d "/proc/$owner" ] && [ -z "$(processes_in_groups "$folder")" ] || continue ;;
    esac
    echo "$folder"
  done
}
processes_in_groups() {
  local folder
  for folder in "$@"; do cat "$folder/cgroup.procs" 2>/dev/null || true; done
}
# remove_quotas own | stale | all: with the processes inside.
remove_quotas() {
  local folders left
  [ -n "$cpu_folder" ] || find_cpu_controller || return 0
  mapfile -t folders < <(list_quotas "$1")
  [ ${#folders[@]} -gt 0 ] || return 0
  end_processes processes_in_groups "${folders[@]}"
  for ((wait = 0; wait < 50; wait++)); do  # a process that has just ended still counts
    left=""
    for folder in "${folders[@]}"; do
      rmdir "$folder" 2>/dev/null || [ ! -d "$folder" ] || left=$folder
    done
    [ -n "$left" ] || return 0
    sleep 0.1
  done
  echo "emulated-cluster: cannot remove the control group $left" >&2
  return 1
}

# enter_quota GROUPS COMMAND...: what mpirun starts as a rank. GROUPS is a path without the rank.
enter_quota() {
  local folder=$1.${OMPI_COMM_WORLD_RANK:-none}
  shift
  echo $$ >"$folder/cgroup.procs" ||
    refuse "rank ${OMPI_COMM_WORLD_RANK:-none} has no CPU quota: cannot enter $folder"
  exec -- "$@"
}
interrupted=no child=""
pass_on() {
  interrupted=yes
  [ -z "$child" ] || kill -"$1" "$child" 2>/dev/null || true
}
# Ends `run --cpu` in every case.
finish_quotas() {
  local code=$?
  trap - EXIT
  trap '' INT TERM HUP USR1
  remove_quotas own || code=1
  exit $code
}
# run_with_quotas COMMAND...: then exits with its code; the groups exist as long as this shell.
run_with_quotas() {
  local code
  trap finish_quotas EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  trap 'exit 138' USR1
  make_quotas
  trap 'pass_on INT' INT
  trap 'pass_on TERM' TERM HUP
  trap 'pass_on USR1' USR1
  set -m  # a process group of its own: a Ctrl-C must reach it once, through this shell
  "$@" <&0 &
  child=$!
  set +m
  while interrupted=no; wait "$child" && code=0 || code=$?; [ $interrupted = yes ]; do :; done
  exit "$code"
}
