# Networks that change while programs run: `emulated-cluster vary` and `traffic` (source it). Their
# processes are those of emulated_cluster_background.py.
# shellcheck shell=bash
# shellcheck disable=SC2015  # A && B || refuse: refuse is meant for either, and never returns
# shellcheck disable=SC2154  # self, here, command, name and hosts are the script's

readonly least_phase=100 least_pause=10 most_time=3600000  # milliseconds

# set_time VARIABLE WHAT LEAST TEXT: in milliseconds.
set_time() {
  local digits time
  if [[ $4 =~ ^([0-9]{1,7})ms$ ]]; then
    time=$((10#${BASH_REMATCH[1]}))
  elif [[ $4 =~ ^([0-9]{1,4})(\.[0-9]{1,3})?s$ ]]; then
    digits=${BASH_REMATCH[2]#.}000
    time=$((10#${BASH_REMATCH[1]} * 1000 + 10#${digits:0:3}))
  else
    refuse "$2 '$4': write a time as 500ms, 4s or 2.5s"
  fi
  [ $time -ge "$3" ] && [ $time -le $most_time ] ||
    refuse "$2 '$4': allowed are ${3}ms to $((most_time / 1000))s"
  printf -v "$1" %d $time
}
# require_host_word WHAT WORD [outside]: a word for a host, or outside where it is allowed.
require_host_word() {
  [[ $2 =~ ^h[1-9][0-9]?$ ]] || [ "$2" = "${3:-h}" ] ||
    refuse "$1 '$2': allowed are the hosts, h1, h2, ...${3:+, and $3}"
}
require_host() {
  [ "$2" = outside ] || [ "${2#h}" -le "$hosts" ] ||
    refuse "$1 '$2': cluster '$name' has the hosts h1 to h$hosts"
}
# in_background WORD...: one at a time, so that no two can vary a card at once.
in_background() {
  exec 9<"$self"
  flock 9
  exec python3 "$here/emulated_cluster_background.py" "$@"
}

# set_phases TEXT: to `phases`, as BITS:MILLISECONDS,...
set_phases() {
  local words word rates=() length
  IFS=, read -r -a words <<<"$1,"
  [ ${#words[@]} -ge 2 ] ||
    refuse "--rates '$1': two rates or more are needed, each with its time: 50mbit:4s,5mbit:1s"
  phases=""
  for word in "${words[@]}"; do
    [[ $word == *:* ]] ||
      refuse "--rates '$word': a rate needs the time that it lasts: 50mbit:4s,5mbit:1s"
    add_rate --rates "${word%%:*}"
    set_time length "--rates '$word': time" $least_phase "${word#*:}"
    phases+=${phases:+,}${rates[-1]}:$length
  done
}
vary() {
  local host="" phases="" stop=no
  while [ $# -gt 0 ]; do
    case $1 in --rates | --name) value_of "$1" $# ;; esac
    case $1 in
      --rates) set_phases "$2"; shift ;;
      --stop) stop=yes ;;
      --name) set_name "$2"; shift ;;
      *)
        [ -z "$host" ] && [[ $1 != --* ]] || unknown_option "$1" "HOST, --rates, --stop, --name"
        require_host_word "vary: host" "$1"
        host=$1 ;;
    esac
    shift
  done
  [ -n "$host" ] || refuse "vary: the host is missing, h1, h2, ..."
  [ -n "$phases" ] || [ $stop = yes ] || refuse "vary: --rates or --stop is missing"
  [ -z "$phases" ] || [ $stop = no ] || refuse "vary: --stop takes only --name beside it"
  require_machine
  require_python
  require_up
  require_host "vary: host" "$host"
  [ $stop = no ] || in_background stop-vary "$name" "$host"
  in_background vary "$name" "$host" "$phases"
}

traffic() {
  local from="" to="" rates=() on="" off="" stop=no
  while [ $# -gt 0 ]; do
    case $1 in --to | --rate | --on | --off | --name) value_of "$1" $# ;; esac
    case $1 in
      --to) require_host_word --to "$2" outside; to=$2; shift ;;
      --rate) rates=(); add_rate --rate "$2"; shift ;;
      --on) set_time on --on $least_pause "$2"; shift ;;
      --off) set_time off --off $least_pause "$2"; shift ;;
      --stop) stop=yes ;;
      --name) set_name "$2"; shift ;;
      *)
        [ -z "$from" ] && [[ $1 != --* ]] ||
          unknown_option "$1" "FROM, --to, --rate, --on, --off, --stop, --name"
        require_host_word "traffic: FROM" "$1" outside
        from=$1 ;;
    esac
    shift
  done
  [ -n "$from" ] || refuse "traffic: who sends is missing: h1, h2, ... or outside"
  if [ $stop = yes ]; then
    [ -z "${rates[*]}$on$off" ] || refuse "traffic: --stop takes only --to and --name beside it"
  else
    [ -n "$to" ] || refuse "traffic: --to is missing: h1, h2, ... or outside"
    [ ${#rates[@]} -gt 0 ] || refuse "traffic: --rate is missing, for example 30mbit"
    [ "${on:+x}" = "${off:+x}" ] || refuse "traffic: --on and --off go together"
  fi
  [ "$from" != "$to" ] || refuse "--to '$to': traffic from $from needs another place to go"
  require_machine
  require_python
  require_up
  require_host "traffic: FROM" "$from"
  require_host --to "${to:-outside}"
  [ $stop = no ] || in_background stop-traffic "$name" "$from" ${to:+"$to"}
  in_background traffic "$name" "$from" "$to" "${rates[0]}" "${on:-0}" "${off:-0}"
}
