# Programs on the hosts of an emulated cluster: `emulated-cluster run`, and what it is made of
# (source it).
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
    enter=("$self" rank "$(quota_prefix_on_hosts)")
  fi
  for ((i = 1; i <= hosts; i++)); do list+=${list:+,}$subnet.$i:$ranks; done
  if [ -z "${OMP_NUM_THREADS:-}" ]; then
    i=$(($(nproc) / (hosts * ranks)))
    export OMP_NUM_THREADS=$((i > 0 ? i : 1))
  fi
  mpirun_words "$byte_layers"
  "${limited[@]}" on_host "$name-h1" "${mpirun_words[@]}" \
    --mca plm rsh --mca plm_rsh_agent "$self agent --name $name" --mca plm_rsh_no_tree_spawn 1 \
    --host "$list" -n $((hosts * ranks)) "${options[@]}" "${enter[@]}" "$@"
}
# mpirun_words BYTE_LAYERS: sets mpirun_words, the start of every command of mpirun on the hosts.
mpirun_words() {
  # `ob1` over tcp: other layers of Open MPI would find ways around the emulated cards.
  mpirun_words=(mpirun --mca routed direct --mca oob_tcp_if_include "$subnet.0/24"
    --mca pml ob1 --mca btl "$1" --mca btl_tcp_if_include "$subnet.0/24"
    --mca btl_base_warn_component_unused 0 --bind-to none)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}
# launcher [--name NAME] [--cpu P[,P...]] OPTIONS PROGRAM...: mpirun for a program that runs on a
# host and starts ranks itself, such as `atoll launch`. OPTIONS are those that it gives.
launcher() {
  local ranks=1 options=() enter=() limited=(exec)
  while [ $# -gt 0 ]; do
    [[ $1 != -* ]] || value_of "$1" $#
    case $1 in
      --name) set_name "$2"; shift 2 ;;
      --cpu) set_cpu_shares "$2"; shift 2 ;;
      --mca) options+=("${@:1:3}"); shift 3 ;;
      --host | -x | --bind-to) options+=("${@:1:2}"); shift 2 ;;
      -n) set_number ranks "$1" 1 65536 "$2"; options+=(-n "$ranks"); shift 2 ;;
      -*) refuse "mpirun: unknown option '$1'; allowed are --name, --cpu, --mca, --host, -n, -x" ;;
      *) break ;;
    esac
  done
  [ $# -gt 0 ] || refuse "mpirun: no program is named"
  require_machine
  require_up
  if [ ${#cpu_shares[@]} -gt 0 ]; then
    spread_cpu_shares "$ranks"
    require_cpu_controller
    limited=(run_with_quotas)
    enter=("$self" rank "$(quota_prefix_on_hosts)")
  fi
  mpirun_words tcp,self
  "${limited[@]}" "${mpirun_words[@]}" "${options[@]}" "${enter[@]}" "$@"
}
