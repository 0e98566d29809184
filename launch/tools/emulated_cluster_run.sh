# Programs on the hosts of an emulated cluster: `emulated-cluster run` (source it).
# shellcheck shell=bash
# shellcheck disable=SC2015  # A && B || refuse: refuse is meant for either, and never returns
# shellcheck disable=SC2154  # self, name, hosts and subnet are the script's

# on_host HOST COMMAND...: instead of this shell, in the namespace and with the name of HOST.
on_host() {
  # shellcheck disable=SC2016
  exec ip netns exec "$1" unshare --uts \
    sh -c 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"' "$@"
}
# The command with which mpirun starts its daemon on another host: [options] ADDRESS COMMAND...
agent() {
  while [[ ${1:-} == -* ]]; do shift; done
  local host=$name-h${1##*.}
  shift
  on_host "$host" sh -c "$*"
}
run() {
  local ranks=1 byte_layers=tcp,self options=() limited=() enter=() list="" i
  while [ $# -gt 0 ]; do
    case $1 in --ranks-per-host | --cpu | --name) value_of "$1" $# ;; esac
    case $1 in
      --cpu) set_cpu_shares "$2"; shift ;;
      --ranks-per-host) set_number ranks "$1" 1 1024 "$2"; shift ;;
      --name) set_name "$2"; shift ;;
      --shared-memory) byte_layers=vader,tcp,self ;;
      *) break ;;
    esac
    shift
  done
  if [[ ${1:-} == -* ]]; then
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
      case $1 in
        -n | -np | --n | --np | -c | -N | -H | -host | --host | -hostfile | --hostfile | \
          -machinefile | --machinefile)
          refuse "run: mpirun's $1 is set by emulated-cluster; use up HOSTS and --ranks-per-host" ;;
      esac
      options+=("$1")
      shift
    done
    [ $# -gt 0 ] ||
      refuse "run: '${options[0]}' is no option of run; allowed are --ranks-per-host," \
        "--cpu, --shared-memory, --name; options of mpirun must end with -- before the program"
    shift
  fi
  [ $# -gt 0 ] || refuse "run: no program is named"
  i=$(type -P -- "$1") && [ -x "$i" ] && [ ! -d "$i" ] ||
    refuse "run: '$1' is no program (no such file, not executable or not on the PATH)"
  require_machine
  require_up
  [[ $(mpirun --version 2>&1) =~ Open\ MPI\)\ 4\. ]] ||
    refuse "run needs mpirun of Open MPI 4 (Debian package openmpi-bin)"
  [[ $self != *[[:space:]]* ]] ||
    refuse "run: mpirun cannot start hosts through a path with blanks: $self"
  if [ ${#cpu_shares[@]} -gt 0 ]; then
    [[ " $* " != *" : "* ]] || refuse "run: --cpu takes one program, not several with ':' between"
    spread_cpu_shares $((hosts * ranks))
    require_cpu_controller
    limited=(run_with_quotas)
    # /sys is another one on the hosts: the groups are reached through this process.
    enter=("$self" rank "/proc/$$/root$(quota_prefix)")
  fi
  for ((i = 1; i <= hosts; i++)); do list+=${list:+,}$subnet.$i:$ranks; done
  if [ -z "${OMP_NUM_THREADS:-}" ]; then
    i=$(($(nproc) / (hosts * ranks)))
    export OMP_NUM_THREADS=$((i > 0 ? i : 1))
  fi
  # `ob1` over tcp: other layers of Open MPI would find ways around the emulated cards.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  "${limited[@]}" on_host "$name-h1" mpirun \
    --mca plm rsh --mca plm_rsh_agent "$self agent --name $name" --mca plm_rsh_no_tree_spawn 1 \
    --mca routed direct --mca oob_tcp_if_include "$subnet.0/24" \
    --mca pml ob1 --mca btl "$byte_layers" --mca btl_tcp_if_include "$subnet.0/24" \
    --mca btl_base_warn_component_unused 0 --bind-to none --host "$list" -n $((hosts * ranks)) \
    "${options[@]}" "${enter[@]}" "$@"
}
