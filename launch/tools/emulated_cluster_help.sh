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
  --queue SIZE     what waits at each end of a cable; more is dropped (default 1mb)
  --net A.B.C.0/24 addresses of the hosts (default 10.77.0.0/24)
  --replace        takes a cluster of this name down first
Examples:
  emulated-cluster up 2 --rate 200mbit
  emulated-cluster up 3 --rate 200mbit,200mbit,50mbit --replace
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
    status) cat <<'END'
emulated-cluster status [--json]: rate, bytes, frames and drops of every host since `up`; the
payload is an estimate, bytes less 66 per frame for the headers of Ethernet, IP and TCP
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
      for command in up run status measure down; do help_of $command; echo; done
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
