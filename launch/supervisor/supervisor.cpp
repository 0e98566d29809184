#include "launch/supervisor/supervisor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/host.hpp"
#include "base/json_lines.hpp"
#include "base/log.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "engine/comm/epoch_questions.hpp"
#include "engine/comm/supervisor_link.hpp"
#include "engine/training/run_folder.hpp"
#include "engine/training/snapshot.hpp"
#include "launch/run_end.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

using std::chrono::milliseconds;

// Exit code of a rank that found something that only its user can mend.
const int kBadInput = Error(ErrorKind::kInput, "").exit_code();
// Exit code of a run that went out of bounds, or ended far above its first loss.
const int kDiverged = Error(ErrorKind::kDiverged, "").exit_code();
constexpr milliseconds kLook{50};
constexpr milliseconds kStartLook{1000};
// Within this a launcher ends by itself once a rank is lost.
constexpr milliseconds kLauncherEnds{1500};
// The same where all ranks are gone before a first epoch: they may have refused what was asked for.
// Open MPI's takes more than two seconds to say so of its only rank, and crashes if it is
// disturbed.
constexpr milliseconds kLauncherReports{10000};
// Within this the last words of ranks arrive whose launcher has ended.
constexpr milliseconds kLastWords{500};
// Within this it ends once all ranks have; one that doesn't waits for a host that is lost.
constexpr milliseconds kLauncherLingers{10000};
// From the wish to end to the end by force. A job that has failed can end nothing in good order.
constexpr milliseconds kTerminates{1000};
// For the first host that answers, and then for each next one: they start at the same time.
constexpr milliseconds kProbe{5000};
constexpr milliseconds kNextProbe{2000};
// A start that goes on and on is none.
constexpr int kMostStartTimeouts = 10;
// Seconds after which a start says whom it waits for; then after twice as long, and so on.
constexpr double kFirstWait = 20;

double seconds_between(RankSigns::Clock::time_point from, RankSigns::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// When a run was configured last; the same time for all that have checkpoints alone.
fs::file_time_type configured_at(const fs::path& run_dir) {
  std::error_code ignored;
  return fs::last_write_time(run_dir / kConfigName, ignored);
}

// SupervisedJob::events, open and locked; none if it is empty.
Descriptor open_events(const fs::path& path) {
  if (path.empty()) return {};
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) fail_option("--events {}: can't be written: {}", path.string(), std::strerror(errno));
  if (try_lock(file.get()) == LockResult::kHeld) {
    fail_option("--events {}: another atoll launch writes there; wait for its end", path.string());
  }
  return file;
}

}  // namespace

namespace {

// The processes of this host that have one of `keys` in their environment, but for this one.
std::vector<int> processes_with(const std::vector<std::string>& keys) {
  std::vector<int> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    const auto process = parse_number<int>(name);
    if (!process || *process == ::getpid()) continue;
    // Other users' can't be read.
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment((std::istreambuf_iterator<char>(file)), {});
    const bool ours = std::ranges::any_of(keys, [&](const std::string& key) {
      return environment.find(fmt::format("{}={}", SupervisorLink::kKey, key)) != std::string::npos;
    });
    if (ours) found.push_back(*process);
  }
  return found;
}

// The segments that `processes` have mapped; other users' can't be read.
std::vector<std::string> mapped_segments(const std::vector<int>& processes) {
  std::vector<std::string> files;
  for (const int process : processes) {
    std::ifstream maps(fmt::format("/proc/{}/maps", process));
    for (std::string line; std::getline(maps, line);) {
      const std::size_t path = line.find('/');
      if (path == std::string::npos || !SupervisorLink::is_segment(line.substr(path))) continue;
      if (std::ranges::count(files, line.substr(path)) == 0) files.push_back(line.substr(path));
    }
  }
  return files;
}

// Time that a process has computed, in ticks of the clock; 0 once it has ended.
std::int64_t computed_ticks(int process) {
  // State, ten numbers, user's time, system's time.
  const std::vector<std::string> stat = process_stat(process);
  if (stat.size() < 13) return 0;
  return std::atoll(stat[11].c_str()) + std::atoll(stat[12].c_str());
}

}  // namespace

void clear_host(const std::vector<std::string>& keys, const std::vector<std::string>& memory) {
  std::error_code ignored;
  for (const int process : processes_with(keys)) ::kill(process, SIGKILL);
  for (const std::string& file : memory) {
    if (SupervisorLink::is_segment(file)) fs::remove(file, ignored);
    remove_snapshot_folder(file);
  }
}

void answer_probe(const std::string& address, const std::string& key, const std::string& label) {
  SupervisorLink::send_once(address, fmt::format("probe {} {} {}", key, label, machine_word()));
}

Supervisor::Supervisor(const SupervisedJob& job)
    : job_(job),
      events_(job.events, open_events(job.events)),
      is_local_(job.spares.empty() && std::ranges::all_of(job.launcher.hosts, is_here)),
      port_(is_local_),
      stop_request_(acknowledge_stop),
      policy_(job.restarts),
      story_(job.run_dir / kEventsName) {
  if (holds_run(job.run_dir)) old_run_ = configured_at(job.run_dir);
  const std::string found = is_local_ ? "127.0.0.1" : host_name();
  address_ = fmt::format("{}:{}", job.address.empty() ? found : job.address, port_.port());
}

int Supervisor::run() {
  for (attempt_ = 1;; ++attempt_) {
    switch (attempt(attempt_)) {
      case End::kDone:
        tell("done", fmt::format("done after epoch {}", epoch_),
             {{"failures", policy_.failures()}});
        clear_left_hosts();
        return 0;
      case End::kBadInput:
        return kBadInput;
      case End::kAsked:
        if (holds_run(job_.run_dir)) print("  go on with\n    {}\n", resume_launch_command());
        return 128 + (stop_request_.signal() != 0 ? stop_request_.signal() : SIGINT);
      case End::kDiverged:
      case End::kGivenUp:
        return 1;
      case End::kRegrown:
        break;
      case End::kFailed: {
        if (const int signal = stop_request_.signal(); signal != 0) return 128 + signal;
        const std::string why_not = any_started_ ? policy_.failed(epoch_) : "it could not start";
        if (!why_not.empty()) {
          if (reachable_) tell_lost(hosts_, *reachable_);
          tell("gave_up",
               fmt::format("given up: {}; go on by hand with --resume behind train", why_not),
               {{"started", any_started_}, {"why", why_not}});
          return 1;
        }
      }
    }
  }
}

Supervisor::End Supervisor::attempt(int number) {
  const auto begin = Clock::now();
  key_ = make_snapshot_id();
  start_signs_ = 0;
  next_wait_s_ = std::min(kFirstWait, job_.start_seconds / 2);
  last_start_sign_ = begin;
  ranks_left_ = begin;
  probe_key_ = make_snapshot_id();
  port_.begin(key_, probe_key_);
  choose_hosts();
  // Hosts had no time to answer.
  if (stop_request_.signal() != 0) return End::kAsked;
  const int ranks = static_cast<int>(hosts_.size()) * job_.launcher.ranks_per_host;
  if (ranks < job_.min_ranks || ranks == 0) {
    tell("gave_up", fmt::format("given up: hosts for {} ranks are left, and --min-ranks wants {}",
                                ranks, job_.min_ranks));
    return End::kGivenUp;
  }
  LauncherWords launcher = job_.launcher;
  launcher.hosts = hosts_;
  launcher.exported = {SupervisorLink::kAddress, SupervisorLink::kKey};
  if (std::getenv(EpochQuestions::kAddress) != nullptr) {
    launcher.exported.emplace_back(EpochQuestions::kAddress);
  }
  const std::vector<std::string> words =
      words_of_attempt(job_.words, number, run_there(), job_.snapshot_every);
  ChildProcess job(launcher_command(launcher, job_.program, words),
                   {.environment = {fmt::format("{}={}", SupervisorLink::kAddress, address_),
                                    fmt::format("{}={}", SupervisorLink::kKey, key_)}});
  std::string why;
  last_look_ = begin;
  const End end = watch(job, why);
  look_.clear();
  port_.forget_probes();
  ended_keys_.push_back(key_);
  for (const RankSigns& rank : port_.ranks()) {
    for (const std::string& file : rank.segments) {
      if (std::ranges::count(segments_, file) == 0) segments_.push_back(file);
    }
  }
  if (end == End::kFailed) {
    failed_at_ = Clock::now();
    Probes probes = ask(all_hosts());  // they answer while the job ends
    stop(job);
    tell("failed", why, {{"after_s", seconds_between(begin, Clock::now())}});
    reachable_ = answers(all_hosts(), probes);
  }
  if (end == End::kRegrown) tell("regrown", "hosts are back: starting with them");
  return end;
}

Supervisor::End Supervisor::watch(ChildProcess& job, std::string& why) {
  const auto started = Clock::now();
  bool faulty = false;
  auto faulty_since = started;
  bool asked = false;
  bool told = false;
  regrows_ = false;
  while (true) {
    port_.poll(kLook);
    note_progress();
    advance_cuts();
    write_events();
    if (const auto code = job.exit_code()) {
      if (*code == 0) hear_last_words();
      return end_of(*code, why);
    }
    if (is_left_behind()) {
      stop(job);
      return end_of_ranks();
    }
    if (!told) note_start();
    if (!told) tell_wait(started);
    if (!told && !port_.ranks().empty() && ready_ranks() == port_.ranks().front().size) {
      told = any_started_ = true;
      const std::size_t ranks = port_.ranks().size();
      tell("started",
           fmt::format("{} rank{} on {}", ranks, ranks == 1 ? "" : "s", fmt::join(hosts_, ", ")));
    }
    if (stop_request_.signal() != 0 && !asked) {
      if (is_starting()) {  // nothing is lost with it
        end_start(job);
        return End::kAsked;
      }
      asked = true;
      job.signal(SIGUSR1);  // launchers hand it on and kill nobody
    }
    if (!asked && !regrows_ && wants_to_regrow()) {
      regrows_ = true;
      job.signal(SIGUSR1);
    }
    const Fault wrong = fault(started);
    if (wrong.text.empty()) {
      faulty = false;
      continue;
    }
    why = wrong.text;
    if (!faulty) faulty_since = Clock::now();
    faulty = true;
    const milliseconds most = may_be_refused() ? kLauncherReports : kLauncherEnds;
    if (!wrong.is_seen_by_launcher || Clock::now() - faulty_since > most) {
      return End::kFailed;
    }
  }
}

Supervisor::End Supervisor::end_of(int exit_code, std::string& why) const {
  if (exit_code == 0) {
    if (stop_request_.signal() != 0 || regrows_) return end_of_ranks();
    if (has_result()) return End::kDone;
    why = "the launcher has ended with exit code 0, but no rank has said that its training is done";
    return End::kFailed;
  }
  // Words that have trained before are not at fault: a machine has changed (a device or a disk is
  // gone). Once this attempt trains, it is what the user can mend, such as a full disk.
  const bool has_trained = std::ranges::any_of(port_.ranks(), [](auto& r) { return r.epoch > 0; });
  if (exit_code == kBadInput && (has_trained || epoch_ == 0)) return End::kBadInput;
  const bool by_signal = exit_code == 128 + SIGUSR1;
  if (by_signal && stop_request_.signal() != 0) return End::kAsked;
  if (by_signal && regrows_) return End::kRegrown;
  if (stop_request_.signal() != 0) return End::kAsked;
  // Whoever is asked after each epoch has ended the run (EpochQuestions).
  const bool in_good_order = has_goodbye();
  if (exit_code == 128 + SIGINT && in_good_order) return End::kAsked;
  // Another attempt would compute the same.
  if (exit_code == kDiverged && in_good_order) return End::kDiverged;
  const std::string how = fmt::format("the job has ended with exit code {}", exit_code);
  why = why.empty() ? how : fmt::format("{}; {}", why, how);
  return End::kFailed;
}

void Supervisor::hear_last_words() {
  const auto begin = Clock::now();
  while (!has_goodbye() && Clock::now() - begin < kLastWords) port_.poll(kLook);
  note_progress();
}

bool Supervisor::has_goodbye() const {
  return std::ranges::any_of(port_.ranks(), &RankSigns::said_goodbye);
}

bool Supervisor::has_result() const {
  // Ranks that can't reach the supervisor train nevertheless.
  return has_goodbye() || (has_begun() && is_there(job_.run_dir / kSummaryName));
}

bool Supervisor::may_be_refused() const {
  return epoch_ == 0 && std::ranges::none_of(port_.ranks(), &RankSigns::connected);
}

bool Supervisor::is_left_behind() {
  const bool have_left = !is_starting() && std::ranges::all_of(port_.ranks(), [](auto& rank) {
    return rank.said_goodbye;
  });
  const auto now = Clock::now();
  if (!have_left) ranks_left_ = now;
  return now - ranks_left_ > kLauncherLingers;
}

Supervisor::End Supervisor::end_of_ranks() const {
  // A run that begins or goes on removes an older one.
  const fs::path summary = job_.run_dir / kSummaryName;
  if (!is_there(summary)) return regrows_ ? End::kRegrown : End::kAsked;
  return read_json(summary).value("diverged", Json(false)) == true ? End::kDiverged : End::kDone;
}

Supervisor::Fault Supervisor::fault(Clock::time_point started) const {
  const auto now = Clock::now();
  for (const RankSigns& rank : port_.ranks()) {
    if (rank.said_goodbye) continue;
    if (!rank.connected) return {fmt::format("rank {} on {} is gone", rank.rank, rank.host), true};
    const double silent = seconds_between(rank.last_sign, now);
    if (silent > job_.silence_seconds) {
      return {
          fmt::format("rank {} on {} has been silent for {:.1f} s", rank.rank, rank.host, silent)};
    }
  }
  if (!is_starting()) return {};
  const auto wanted = std::ssize(hosts_) * job_.launcher.ranks_per_host;
  if (seconds_between(last_start_sign_, now) > job_.start_seconds) {
    return {fmt::format("{} of {} ranks have started, and there was no sign of others for {} s",
                        ready_ranks(), wanted, job_.start_seconds)};
  }
  if (seconds_between(started, now) > kMostStartTimeouts * job_.start_seconds) {
    return {fmt::format("{} of {} ranks have started within {} s", ready_ranks(), wanted,
                        kMostStartTimeouts * job_.start_seconds)};
  }
  return {};
}

bool Supervisor::has_begun() const {
  return holds_run(job_.run_dir) && configured_at(job_.run_dir) != old_run_;
}

RunThere Supervisor::run_there() const {
  if (epoch_ > 0 || has_begun()) return RunThere::kOwn;
  return old_run_ ? RunThere::kOld : RunThere::kNone;
}

bool Supervisor::is_starting() const {
  return ready_ranks() < std::ssize(hosts_) * job_.launcher.ranks_per_host;
}

std::int64_t Supervisor::ready_ranks() const {
  return std::ranges::count(port_.ranks(), true, &RankSigns::ready);
}

std::int64_t Supervisor::start_signs() const {
  const std::int64_t signs = std::ssize(port_.ranks()) + ready_ranks();
  if (signs > 0) return signs;
  // Nothing was heard yet: on a busy machine a process takes long to load its libraries.
  std::int64_t ticks = 0;
  for (const int process : processes_with({key_})) ticks += computed_ticks(process);
  return std::numeric_limits<std::int64_t>::min() + ticks;
}

void Supervisor::note_start() {
  const auto now = Clock::now();
  if (port_.ranks().empty() && now - last_start_look_ < kStartLook) return;
  last_start_look_ = now;
  const std::int64_t signs = start_signs();
  if (signs == start_signs_) return;
  start_signs_ = signs;
  last_start_sign_ = now;
}

void Supervisor::tell_wait(Clock::time_point started) {
  const double waited = seconds_between(started, Clock::now());
  if (waited < next_wait_s_) return;
  next_wait_s_ *= 2;
  // By default Open MPI fills one host after the other.
  const bool fills = std::ranges::none_of(job_.launcher.mpirun, [](const std::string& word) {
    return word.find("map-by") != std::string::npos || word.find("rank-by") != std::string::npos ||
           word.find("bynode") != std::string::npos || word.find("rankfile") != std::string::npos;
  });
  const int per_host = job_.launcher.ranks_per_host;
  log::info("launch: attempt {}: waiting: {} after {:.0f} s", attempt_,
            awaited_ranks(port_.ranks(), static_cast<int>(hosts_.size()) * per_host,
                          fills ? hosts_ : std::vector<std::string>(), per_host),
            waited);
}

void Supervisor::note_progress() {
  for (const RankSigns& rank : port_.ranks()) {
    if (rank.epoch == 0) continue;
    if (failed_at_) {
      tell("recovered",
           fmt::format("epoch {} is done {:.1f} s after the failure was noticed", rank.epoch,
                       seconds_between(*failed_at_, rank.last_sign)),
           {{"seconds", seconds_between(*failed_at_, rank.last_sign)}});
      failed_at_.reset();
    }
    epoch_ = std::max(epoch_, rank.epoch);
  }
}

void Supervisor::stop(ChildProcess& job) {
  const auto wait = [&](milliseconds most) {
    const auto begin = Clock::now();
    while (!job.exit_code() && Clock::now() - begin < most) port_.poll(kLook);
  };
  job.signal_group(SIGTERM);
  wait(kTerminates);
  job.signal_group(SIGKILL);
  wait(kTerminates);
}

void Supervisor::end_start(ChildProcess& job) {
  std::vector<std::string> segments;
  for (const RankSigns& rank : port_.ranks()) {
    segments.insert(segments.end(), rank.segments.begin(), rank.segments.end());
  }
  // The launcher lets ranks go on for a second, which they may train in, and may just be starting
  // some. Once it is asked to end it is silent about their end, and ends with them.
  job.signal_group(SIGTERM);
  const auto begin = Clock::now();
  while (!job.exit_code() && Clock::now() - begin < kTerminates) {
    std::vector<int> ranks = processes_with({key_});
    // The group of the launcher has its signal.
    std::erase_if(ranks, [&](int process) { return ::getpgid(process) == job.pid(); });
    std::ranges::copy(mapped_segments(ranks), std::back_inserter(segments));
    for (const int rank : ranks) ::kill(rank, SIGKILL);
    port_.poll(kLook);
  }
  job.signal_group(SIGKILL);
  clear_host({key_}, segments);
}

std::vector<std::string> Supervisor::all_hosts() const {
  std::vector<std::string> all = job_.launcher.hosts;
  all.insert(all.end(), job_.spares.begin(), job_.spares.end());
  return all;
}

void Supervisor::choose_hosts() {
  if (!ended_keys_.empty()) clear_host(ended_keys_, segments_);
  if (!reachable_) {
    Probes probes = ask(all_hosts());
    reachable_ = answers(all_hosts(), probes);
  }
  const std::vector<std::string> there = *std::exchange(reachable_, std::nullopt);
  const std::vector<std::string> before = hosts_;
  hosts_.clear();
  for (const std::string& host : all_hosts()) {
    if (std::ssize(hosts_) == std::ssize(job_.launcher.hosts)) break;
    if (std::ranges::find(there, host) != there.end()) hosts_.push_back(host);
  }
  if (stop_request_.signal() == 0) tell_lost(before.empty() ? job_.launcher.hosts : before, there);
}

void Supervisor::tell_lost(const std::vector<std::string>& hosts,
                           const std::vector<std::string>& there) {
  for (const std::string& host : hosts) {
    if (std::ranges::find(there, host) != there.end()) continue;
    const auto why = why_silent_.find(host);
    tell("lost",
         fmt::format("host {} can't be reached{}", host,
                     why == why_silent_.end() ? "" : ": " + why->second),
         {{"host", host}});
  }
}

Supervisor::Probes Supervisor::ask(const std::vector<std::string>& hosts) const {
  Probes probes;
  for (const std::string& host : hosts) {
    if (is_here(host)) continue;
    std::vector<std::string> words =
        words_of(job_.launcher.rsh.empty() ? job_.agent : job_.launcher.rsh);
    words.insert(words.end(), {host, job_.program, "launch-probe", address_, probe_key_, host});
    words.insert(words.end(), ended_keys_.begin(), ended_keys_.end());
    words.insert(words.end(), segments_.begin(), segments_.end());
    probes.emplace_back(host, words);
  }
  return probes;
}

std::vector<std::string> Supervisor::answers(const std::vector<std::string>& hosts,
                                             Probes& probes) {
  auto until = Clock::now() + kProbe;
  std::size_t answered = 0;
  while (answered < probes.size() && Clock::now() < until && stop_request_.signal() == 0) {
    if (port_.probes().size() > answered) until = Clock::now() + kNextProbe;
    answered = port_.probes().size();
    if (answered < probes.size()) port_.poll(kLook);
  }
  std::vector<std::string> there = port_.probes();
  why_silent_.clear();
  for (HostQuestion& probe : probes) {
    if (std::ranges::count(there, probe.host()) == 0) {
      why_silent_[probe.host()] = probe.why_silent();
    }
  }
  std::ranges::copy_if(hosts, std::back_inserter(there), is_here);
  port_.forget_probes();
  warn_of_one_machine();
  return there;
}

void Supervisor::warn_of_one_machine() {
  std::map<std::string, std::string> machines = port_.machines();
  for (const std::string& host : all_hosts()) {
    if (is_here(host)) machines[host] = machine_word();
  }
  const std::string names = names_of_one_machine(machines);
  if (names.empty() || std::exchange(has_one_machine_, true)) return;
  log::warn(
      "launch: {} are one machine, which gets the ranks of each of these names; name it once, and "
      "say by --ranks-per-host how many ranks it gets",
      names);
}

std::vector<std::string> Supervisor::left_hosts() const {
  std::vector<std::string> left;
  if (!is_there(job_.run_dir / kEventsName)) return left;
  for (const auto& [event, place] : read_json_lines(job_.run_dir / kEventsName).lines) {
    if (event.value("event", Json()) != "failed") continue;
    for (const auto& host : json_field<std::vector<std::string>>(event, "hosts", place)) {
      if (std::ranges::count(hosts_, host) + std::ranges::count(left, host) == 0) {
        left.push_back(host);
      }
    }
  }
  return left;
}

void Supervisor::clear_left_hosts() {
  std::vector<std::string> left;
  std::string id;
  try {
    left = left_hosts();
    id = snapshot_id_of(job_.run_dir);
  } catch (const Error&) {  // somebody has edited the files of a run that is done all the same
    return;
  }
  if (left.empty() || id.empty()) return;
  const fs::path folder = snapshot_folder(fs::absolute(job_.snapshot_dir), id);
  segments_.push_back(folder.string());
  Probes probes = ask(left);
  if (std::ranges::any_of(left, is_here)) clear_host({}, segments_);
  const std::vector<std::string> there = answers(left, probes);
  for (const std::string& host : left) {
    if (std::ranges::count(there, host) > 0) continue;
    log::info(
        "launch: host {} can't be reached; unless it was restarted, its memory still holds "
        "snapshots of this run: remove {} there",
        host, folder.string());
  }
}

void Supervisor::advance_cuts() {
  if (!any_started_) return;  // the job makes its own cut first
  if (cut_ != nullptr) {
    const auto code = cut_->exit_code();
    if (!code) return;
    const int parts = job_.spare_partitions[cuts_begun_ - 1];
    if (*code == 0) {
      tell("cut", fmt::format("the graph is cut for {} ranks, too", parts), {{"parts", parts}});
    } else {
      log::warn("launch: --spare-partitions: no cut for {} ranks: exit code {} of '{} {}'", parts,
                *code, fmt::join(job_.partition_words, " "), parts);
    }
    cut_.reset();
  }
  if (cuts_begun_ == job_.spare_partitions.size() || stop_request_.signal() != 0) return;
  std::vector<std::string> words{"nice", "-n", "19"};
  words.insert(words.end(), job_.partition_words.begin(), job_.partition_words.end());
  words.push_back(std::to_string(job_.spare_partitions[cuts_begun_++]));
  cut_ = std::make_unique<ChildProcess>(words, ChildSetting{.quiet = true});
}

bool Supervisor::wants_to_regrow() {
  if (job_.regrow_seconds <= 0 || hosts_.size() >= job_.launcher.hosts.size()) return false;
  const auto now = Clock::now();
  if (look_.empty()) {
    if (seconds_between(last_look_, now) < job_.regrow_seconds) return false;
    std::vector<std::string> away;
    for (const std::string& host : all_hosts()) {
      if (std::ranges::find(hosts_, host) == hosts_.end()) away.push_back(host);
    }
    look_ = ask(away);
    last_look_ = now;
    return false;
  }
  // Ranks are watched meanwhile: a host that is lost doesn't answer before kProbe has passed.
  if (!port_.probes().empty()) return true;
  if (now - last_look_ > kProbe) look_.clear();
  return false;
}

// A line for whoever watches, and one for RUN/events.jsonl once there is a run.
void Supervisor::tell(const char* event, const std::string& text, Json more) {
  log::info("launch: attempt {}: {}: {}", attempt_, event, text);
  Json line = {{"time", now_text()}, {"seconds", seconds_between(begin_, Clock::now())},
               {"event", event},     {"attempt", attempt_},
               {"epoch", epoch_},    {"hosts", hosts_},
               {"text", text},       {"ranks", std::ssize(hosts_) * job_.launcher.ranks_per_host}};
  line.update(more);
  const std::string whole = line.dump() + "\n";
  if (!job_.events.empty()) events_.add(whole);
  story_.add(whole);
  write_events();
}

void Supervisor::write_events() {
  events_.write();
  if (!story_.is_waiting()) return;
  // A run that is overwritten takes its events.jsonl with it.
  const bool overwrites = std::ranges::count(job_.words, "--overwrite") > 0;
  const bool is_ours = overwrites ? has_begun() : is_there(job_.run_dir / kConfigName);
  if (is_ours) story_.write();
}

}  // namespace atl
