// Starts a training on hosts, watches it from outside of MPI, and starts it again when a process, a
// host or the launcher is lost (docs/launch.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/interrupt.hpp"
#include "base/json.hpp"
#include "launch/supervisor/child_process.hpp"
#include "launch/supervisor/event_file.hpp"
#include "launch/supervisor/host_question.hpp"
#include "launch/supervisor/restart_policy.hpp"
#include "launch/supervisor/supervisor_port.hpp"

namespace atl {

struct SupervisedJob {
  std::vector<std::string> words;  // of `atoll train`, "train" first
  std::filesystem::path run_dir;
  std::filesystem::path snapshot_dir;  // on every host
  std::string program;                 // path of this one
  LauncherWords launcher;              // `hosts`: those that are wanted
  std::vector<std::string> spares;     // hosts that take the place of lost ones
  std::string agent = "ssh";           // starts a command on a host, unless launcher.rsh is given
  std::string address;                 // where ranks reach this process; empty: found by itself
  int restarts = 10;
  int min_ranks = 1;
  int snapshot_every = 1;
  double silence_seconds = 5;  // after which a rank is taken for lost
  double start_seconds = 120;  // without progress, until every rank is ready
  double regrow_seconds = 0;   // between looks for hosts that are back; 0: never
  // Gets what RUN/events.jsonl gets, also what happens before there is a run; empty: no such file.
  // Locked (base/file_lock.hpp) as long as the supervisor lives.
  std::filesystem::path events;
  // Numbers of ranks that the graph is cut for beforehand, and the command that cuts it, to be
  // followed by a number.
  std::vector<int> spare_partitions;
  std::vector<std::string> partition_words;
};

class Supervisor {
 public:
  // Throws Error{kOption} if job.events can't be written, or another supervisor writes there.
  explicit Supervisor(const SupervisedJob& job);

  // Until the training is done or given up; its exit code.
  int run();

 private:
  // How an attempt has ended.
  enum class End { kDone, kBadInput, kDiverged, kGivenUp, kAsked, kRegrown, kFailed };
  using Clock = RankSigns::Clock;

  End attempt(int number);
  void note_start();
  // Says whom a start waits for that takes long.
  void tell_wait(Clock::time_point started);
  // Watches the job until it ends; `why` becomes what is wrong if something is.
  End watch(ChildProcess& job, std::string& why);
  End end_of(int exit_code, std::string& why) const;
  void hear_last_words();
  bool has_goodbye() const;  // some rank has ended in good order
  bool has_result() const;   // the training has ended as such, whatever a launcher says
  // All ranks of the attempt are gone, and no epoch is done yet: the launcher may know that what
  // was asked for is wrong.
  bool may_be_refused() const;
  // Whether all ranks have ended in good order some time ago, and the launcher goes on.
  bool is_left_behind();
  // How they have ended, by what they have left.
  End end_of_ranks() const;
  struct Fault {
    std::string text;  // what is wrong with the ranks; empty: nothing
    // The launcher will notice it, too, and may know more.
    bool is_seen_by_launcher = false;
  };
  Fault fault(Clock::time_point started) const;
  // How far the start has come, as a number that grows with every sign of it.
  std::int64_t start_signs() const;
  std::int64_t ready_ranks() const;
  bool has_begun() const;  // the run of these words is there, and not only one to be overwritten
  RunThere run_there() const;
  bool is_starting() const;  // some rank has not met the others yet
  void note_progress();
  void stop(ChildProcess& job);
  // Ends a job whose ranks have nothing to keep yet, and removes what they leave on this host.
  void end_start(ChildProcess& job);
  // Out of those that can take part, once what earlier attempts have left on them has ended.
  void choose_hosts();
  std::vector<std::string> all_hosts() const;
  // Asks these hosts whether they can be reached, and ends there what earlier attempts have left.
  using Probes = std::vector<HostQuestion>;
  Probes ask(const std::vector<std::string>& hosts) const;
  // Tells which of `hosts` are not `there`.
  void tell_lost(const std::vector<std::string>& hosts, const std::vector<std::string>& there);
  // Those of `hosts` that are this one or answer.
  std::vector<std::string> answers(const std::vector<std::string>& hosts, Probes& probes);
  void warn_of_one_machine();
  // Hosts of failed attempts, also of earlier starts, that the last one did without.
  std::vector<std::string> left_hosts() const;
  // Removes the snapshots of the run that is done from these hosts, as far as they can be reached.
  void clear_left_hosts();
  // True once a host that was lost is back.
  bool wants_to_regrow();
  // Starts the next of the cuts that are made beforehand once the one before it is done.
  void advance_cuts();
  void write_events();
  void tell(const char* event, const std::string& text, Json more = Json::object());

  const SupervisedJob& job_;
  EventFile events_;
  bool is_local_;  // all hosts are this machine
  SupervisorPort port_;
  std::string address_;  // with the port
  const StopRequest stop_request_;
  RestartPolicy policy_;
  std::string key_;                      // of this attempt
  std::vector<std::string> ended_keys_;  // of the attempts before
  std::vector<std::string> segments_;    // of the attempts before
  // Another one for probes: words of a command can be read by all users of a host.
  std::string probe_key_;
  std::vector<std::string> hosts_;  // of this attempt
  // That can be reached, where that was found out while the attempt before was ended.
  std::optional<std::vector<std::string>> reachable_;
  std::map<std::string, std::string> why_silent_;  // of hosts that did not answer the last time
  bool has_one_machine_ = false;                   // under two names, which was said
  std::optional<std::filesystem::file_time_type> old_run_;  // when one before was configured
  EventFile story_;  // RUN/events.jsonl, whose lines wait until there is a run
  const Clock::time_point begin_ = Clock::now();
  int attempt_ = 0;
  int epoch_ = 0;  // the last one that is done
  bool any_started_ = false;
  bool regrows_ = false;
  std::int64_t start_signs_ = 0;  // of this attempt
  Clock::time_point ranks_left_;  // until when some rank of it had not said goodbye
  Clock::time_point last_start_sign_ = Clock::now();
  Clock::time_point last_start_look_;
  double next_wait_s_ = 0;  // since the start of this attempt, until tell_wait() says more
  Probes look_;             // under way, for hosts that are back
  Clock::time_point last_look_ = Clock::now();
  std::size_t cuts_begun_ = 0;
  std::unique_ptr<ChildProcess> cut_;
  // Time of the last failure, until an epoch follows it.
  std::optional<Clock::time_point> failed_at_;
};

// Ends the processes of this host that have one of `keys` in their environment, and were started by
// this user. Then removes those of `memory` that are here: segments that no process maps any more,
// and folders of snapshots.
void clear_host(const std::vector<std::string>& keys, const std::vector<std::string>& memory);

// Tells the supervisor at "ADDRESS:PORT" that this host can be reached: see SupervisorPort.
void answer_probe(const std::string& address, const std::string& key, const std::string& label);

}  // namespace atl
