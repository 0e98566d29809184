# The help texts of emulated-cluster (source it).
# shellcheck shell=bash

# help_of COMMAND, or all
help_of() {
  case $1 in
    up) cat <<'END'
emulated-cluster up HOSTS [options]: makes 2 to 64 hosts, NAME-h1, NAME-h2 ...
  --rate R[,R...]  of every network card, or one per host: 500kbit, 200mbit, 2.5gbit (default 1gbit)
  --mtu BYTES      largest packet, 576 to 9000 (default 1500)
  --burst SIZE     what passes at once after a pause: 64kb, 1mb (default 128kb)
  --queue SIZE     what waits at each end of a cable, 4 packets to 64mb; more is dropped (default
                   1mb). Below 128kb single frames are dropped; rates above 200mbit then need idle
                   cores
  --net A.B.C.0/24 addresses of the hosts (default 10.77.0.0/24)
  --replace        takes a cluster of this name down first
Examples:
  emulated-cluster up 2 --rate 200mbit
  emulated-cluster up 3 --rate 200mbit,200mbit,50mbit --replace
  emulated-cluster up 2 --rate 50mbit --burst 16kb --queue 64kb
END
      ;;
    run) cat <<'END'
emulated-cluster run [options] [mpirun options --] PROGRAM ARGUMENTS...: runs an MPI program on all
hosts, with the exit code of the program
  --ranks-per-host K  ranks on each host (default 1)
  --cpu P[,P...]      CPU time of every rank, or one per rank, all its threads together: percent of
                      one core, 1 to 100 * cores (default: no limit). 40 or 40,40,40,20
  --shared-memory     ranks of one host exchange through memory instead of sockets
OMP_NUM_THREADS is set to cores / ranks unless it is set: the hosts share the cores of the machine.
Examples:
  emulated-cluster run build/atoll bench data/arxiv --norm batch --threads 1
  emulated-cluster run --cpu 40,20 build/atoll bench data/arxiv --threads 1
  emulated-cluster run --ranks-per-host 2 --tag-output -- build/atoll train data/arxiv
END
      ;;
    vary) cat <<'END'
emulated-cluster vary HOST --rates R:T,R:T[,...] | --stop: changes the rate of a host's card in both
directions, over and over, while programs run. Goes on in the background until --stop or `down`
  --rates R:T,R:T[,...]  rates, each with the time that it lasts: 500ms, 4s or 2.5s, at least 100ms
  --stop                 ends it; the card has the rate of `up` again
Hosts are h1, h2, ... After each change the --burst of `up` passes at once.
Examples:
  emulated-cluster vary h1 --rates 50mbit:4s,5mbit:1s
  emulated-cluster vary h1 --stop
END
      ;;
    traffic) cat <<'END'
emulated-cluster traffic FROM --to TO --rate R [options] | --stop: sends packets that take their
share of the cards in between, whatever is lost. Goes on in the background until --stop or `down`
  --to TO             FROM and TO are h1, h2, ..., or `outside`: other hosts on the same switch
  --rate R            of all bytes of its frames: 500kbit, 200mbit, 2.5gbit
  --on T --off T      sends for the one time, pauses for the other: 10ms or more (default: always)
  --stop              ends what FROM sends, with --to only that to one
Traffic from outside makes TCP lose packets if the queue is short: up --queue 64kb. That from a host
itself slows its programs down, too, but a kernel doesn't drop its own TCP packets.
Examples:
  emulated-cluster traffic outside --to h2 --rate 30mbit
  emulated-cluster traffic h1 --to h2 --rate 30mbit --on 1s --off 4s
  emulated-cluster traffic outside --stop
END
      ;;
    status) cat <<'END'
emulated-cluster status [--json]: rate, bytes, frames and drops of every host since `up`; the
payload is an estimate, bytes less 66 per frame for the headers of Ethernet, IP and TCP. Also cards
that vary and traffic
Examples:
  emulated-cluster status
  emulated-cluster status --json
END
      ;;
    measure) cat <<'END'
emulated-cluster measure [options]: payload rates that plain sockets reach, two hosts at a time
(ping-pong) and all at once (all-to-all), and the time of a tiny message
  --size SIZE  to each peer, 64kb or 4mb (default: half a second of the slowest rate, 1mb to 16mb)
  --repeats N  measured exchanges, 1 to 1000; medians are shown (default 5)
  --json
Examples:
  emulated-cluster measure
  emulated-cluster measure --size 4mb --repeats 9
END
      ;;
    down) cat <<'END'
emulated-cluster down: ends what still runs on the hosts and removes them
Examples:
  emulated-cluster down
END
      ;;
    *)
      cat <<'END'
Emulates hosts with network cards of a chosen rate on this machine. As root.

END
      for command in up run vary traffic status measure down; do help_of $command; echo; done
      cat <<'END'
Every command also takes
  --name NAME  of the cluster, so that several can be up at once (default atoll)
  --help
Exit code 2: the words, the machine or the state of the cluster don't allow it.
docs/emulated-cluster.md says what is emulated and what is not.
END
      ;;
  esac
}
