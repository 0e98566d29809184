// Ranks as threads of one process: a send copies its bytes into the receiver's mailbox at once, so
// sends are complete when posted and nobody ever reads a peer's memory.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "engine/comm/watchdog.hpp"
#include "engine/comm/world_of_one.hpp"

namespace atl {

namespace {

// The all_to_all_v's of one transport: that of the job is 0, every group has its own.
using Channel = int;

// An all_to_all_v of the job.
struct TransferId {
  Channel channel = 0;
  std::int64_t sequence = 0;
  bool operator==(const TransferId&) const = default;
};

struct Message {
  int source = 0;  // rank in the transport
  TransferId transfer;
  OperationLabel label;  // as the sender calls it
  std::vector<std::byte> bytes;
  Watchdog::Clock::time_point delivered{};
};

// The state that the ranks of one run_local_ranks share. Ranks are those of the job.
class LocalJob {
 public:
  explicit LocalJob(int ranks) : mailboxes_(ranks) {}

  int size() const { return static_cast<int>(mailboxes_.size()); }

  // The channel of a group: the same for all its members, who name it by what it was split from,
  // the how manieth split that was, and its number.
  Channel channel_of_group(Channel parent, int split, int number) {
    const std::lock_guard lock(mutex_);
    const auto next = static_cast<Channel>(channels_.size()) + 1;
    return channels_.try_emplace({parent, split, number}, next).first->second;
  }

  void deliver(int destination, Message message) {
    Mailbox& mailbox = mailboxes_[destination];
    message.delivered = Watchdog::Clock::now();
    {
      const std::lock_guard lock(mutex_);
      mailbox.messages.push_back(std::move(message));
    }
    mailbox.arrived.notify_one();
  }

  // Takes the earliest message of this transfer out of the rank's mailbox. Throws
  // Error{kCommunication} once a rank has failed, and Error{kTimeout} once some of `peers` (ranks
  // of the group), which are waited for, have been silent for the timeout.
  Message take(int rank, TransferId transfer, const std::vector<int>& peers, double timeout_seconds,
               const RankGroup& group, const OperationLabel& label) {
    Mailbox& mailbox = mailboxes_[rank];
    Watchdog watchdog(timeout_seconds);
    std::unique_lock lock(mutex_);
    const Waiting waiting(mailbox, group, peers);
    for (;;) {
      throw_if_failed(rank);
      const auto found = std::ranges::find(mailbox.messages, transfer, &Message::transfer);
      if (found != mailbox.messages.end()) {
        Message message = std::move(*found);
        mailbox.messages.erase(found);
        return message;
      }
      if (watchdog.endless()) {
        mailbox.arrived.wait(lock);
      } else if (watchdog.expired()) {
        const std::vector<int> silent = silent_peers(group.in_job(peers), watchdog);
        if (!silent.empty()) fail_silent(rank, silent, timeout_seconds, group.describe(label));
      } else {
        mailbox.arrived.wait_until(lock, watchdog.next_look());
      }
    }
  }

  // In one HeartbeatScope more, or less.
  void add_scopes(int rank, int count) {
    const std::lock_guard lock(mutex_);
    mailboxes_[rank].scopes += count;
    mailboxes_[rank].last_worked = Watchdog::Clock::now();
  }

  // Records the error of the first rank that fails and wakes all others.
  void fail_rank(int rank, std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_rank_ >= 0) return;
      failed_rank_ = rank;
      first_error_ = std::move(error);
    }
    for (Mailbox& mailbox : mailboxes_) mailbox.arrived.notify_all();
  }

  void throw_if_failed_now(int rank) {
    const std::lock_guard lock(mutex_);
    throw_if_failed(rank);
  }

  void rethrow_first_error() {
    if (first_error_) std::rethrow_exception(first_error_);
  }

 private:
  struct Mailbox {
    std::list<Message> messages;  // in order of arrival
    std::condition_variable arrived;
    // Whether its rank works in HeartbeatScopes, of the job and of groups, or waits for messages of
    // `peers` of a group.
    int scopes = 0;
    const RankGroup* group = nullptr;
    const std::vector<int>* peers = nullptr;  // null: it does not wait
    Watchdog::Clock::time_point last_worked{};
  };

  struct Waiting {
    Waiting(Mailbox& own, const RankGroup& group, const std::vector<int>& peers) : mailbox(own) {
      mailbox.group = &group;
      mailbox.peers = &peers;
      if (mailbox.scopes > 0) mailbox.last_worked = Watchdog::Clock::now();
    }
    ~Waiting() { mailbox.peers = nullptr; }
    Mailbox& mailbox;
  };

  // Those of `peers` that have not worked for the timeout either; if there is none, the watchdog
  // goes on from when the first of them did.
  std::vector<int> silent_peers(const std::vector<int>& peers, Watchdog& watchdog) const {
    std::vector<int> silent;
    const auto now = Watchdog::Clock::now();
    auto first = now;
    for (const int peer : peers) {
      std::vector<bool> seen(mailboxes_.size());
      const auto last = last_work(peer, now, seen);
      if (now - last >= watchdog.timeout()) silent.push_back(peer);
      first = std::min(first, last);
    }
    if (silent.empty()) watchdog.sign_of_life(first);
    return silent;
  }

  // When the rank last worked in a scope, or one did that it waits for in a scope. Ranks that share
  // a process are alive while they work. `seen`: ranks that need no second look.
  Watchdog::Clock::time_point last_work(int rank, Watchdog::Clock::time_point now,
                                        std::vector<bool>& seen) const {
    const Mailbox& mailbox = mailboxes_[rank];
    if (mailbox.scopes == 0 || seen[rank]) return mailbox.last_worked;
    seen[rank] = true;
    if (mailbox.peers == nullptr) return now;
    auto last = mailbox.last_worked;
    for (const int peer : *mailbox.peers) {
      last = std::max(last, last_work(mailbox.group->job_rank(peer), now, seen));
    }
    return last;
  }

  void throw_if_failed(int rank) const {
    if (failed_rank_ < 0) return;
    fail(ErrorKind::kCommunication, "rank {} stops because rank {} failed", rank, failed_rank_);
  }

  std::mutex mutex_;  // of everything below; held for moves of messages only, never for a copy
  std::vector<Mailbox> mailboxes_;
  int failed_rank_ = -1;
  std::exception_ptr first_error_;
  std::map<std::tuple<Channel, int, int>, Channel> channels_;  // of groups
};

class LocalTransport;

class LocalPending final : public PendingTransfer {
 public:
  // sent: what this rank has sent already.
  LocalPending(LocalTransport& transport, TransferId transfer,
               std::vector<std::span<std::byte>> receives, const OperationLabel& label,
               std::vector<PacketTimes> sent, Watchdog::Clock::time_point posted);
  ~LocalPending() override;

  int wait_any() override;
  void wait_all() override {
    while (wait_any() >= 0) {
    }
  }
  void wait_pieces(int /*last*/) override { wait_all(); }  // a packet is there at once
  std::vector<PacketTimes> packet_times() const override { return packets_; }

 private:
  void accept(const Message& message);

  LocalTransport& transport_;
  TransferId transfer_;
  std::vector<std::span<std::byte>> receives_;
  OperationLabel label_;
  std::vector<PacketTimes> packets_;  // that are through
  Watchdog::Clock::time_point posted_;
  std::vector<int> waiting_for_;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

class LocalTransport : public Transport {
 public:
  LocalTransport(LocalJob& job, int rank, double timeout_seconds)
      : LocalTransport(job, RankGroup::whole_job(job.size()), rank, 0, timeout_seconds) {}

  std::string name() const override { return "local"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group()->job_ranks.size()); }
  void check_peers() override { job_.throw_if_failed_now(job_rank()); }
  void abort(int exit_code) noexcept override {
    fail_job(std::make_exception_ptr(
        Error(exit_code == 2 ? ErrorKind::kInput : ErrorKind::kCommunication,
              fmt::format("rank {} ended the run with exit code {}", job_rank(), exit_code))));
  }
  LocalJob& job() { return job_; }
  int job_rank() const { return group()->job_rank(rank_); }
  // Ends the job with this error.
  void fail_job(std::exception_ptr error) { job_.fail_rank(job_rank(), std::move(error)); }

 protected:
  LocalTransport(LocalJob& job, std::shared_ptr<const RankGroup> group, int rank, Channel channel,
                 double timeout_seconds)
      : job_(job), rank_(rank), channel_(channel) {
    set_group(std::move(group));
    set_timeout_seconds(timeout_seconds);
  }

 private:
  void begin_work(const OperationLabel& /*label*/) override { job_.add_scopes(job_rank(), 1); }
  void end_work() override { job_.add_scopes(job_rank(), -1); }
  std::unique_ptr<PendingTransfer> do_all_to_all_v(std::vector<std::span<const std::byte>> sends,
                                                   std::vector<std::span<std::byte>> receives,
                                                   const OperationLabel& label,
                                                   std::shared_ptr<const void> /*keep_alive*/,
                                                   const PacketPieces& /*pieces*/) override {
    job_.throw_if_failed_now(job_rank());
    const TransferId transfer{channel_, next_sequence_++};
    const auto posted = Watchdog::Clock::now();
    std::vector<PacketTimes> sent;
    for (int r = 0; r < size(); ++r) {
      if (sends[r].empty()) continue;
      job_.deliver(group()->job_rank(r),
                   {rank_, transfer, label, {sends[r].begin(), sends[r].end()}});
      sent.push_back({r, false, std::ssize(sends[r]), posted, Watchdog::Clock::now()});
    }
    return std::make_unique<LocalPending>(*this, transfer, std::move(receives), label,
                                          std::move(sent), posted);
  }
  std::unique_ptr<Transport> do_split(int number, std::shared_ptr<const RankGroup> members,
                                      int rank) override;

  LocalJob& job_;
  int rank_;
  Channel channel_;
  std::int64_t next_sequence_ = 0;
  int splits_ = 0;
};

// Ends the job as what it was split from does.
class LocalSubgroup final : public LocalTransport {
 public:
  LocalSubgroup(LocalTransport& parent, std::shared_ptr<const RankGroup> members, int rank,
                Channel channel)
      : LocalTransport(parent.job(), std::move(members), rank, channel, parent.timeout_seconds()),
        origin_(parent) {}
  void abort(int exit_code) noexcept override { origin_.abort(exit_code); }

 private:
  LocalTransport& origin_;
};

std::unique_ptr<Transport> LocalTransport::do_split(int number,
                                                    std::shared_ptr<const RankGroup> members,
                                                    int rank) {
  const int split = splits_++;
  if (number == kNoGroup) return nullptr;
  const Channel channel = job_.channel_of_group(channel_, split, number);
  return std::make_unique<LocalSubgroup>(*this, std::move(members), rank, channel);
}

LocalPending::LocalPending(LocalTransport& transport, TransferId transfer,
                           std::vector<std::span<std::byte>> receives, const OperationLabel& label,
                           std::vector<PacketTimes> sent, Watchdog::Clock::time_point posted)
    : transport_(transport),
      transfer_(transfer),
      receives_(std::move(receives)),
      label_(label),
      packets_(std::move(sent)),
      posted_(posted) {
  for (int r = 0; r < transport_.size(); ++r) {
    if (!receives_[r].empty()) waiting_for_.push_back(r);
  }
}

LocalPending::~LocalPending() {
  if (waiting_for_.empty() || std::uncaught_exceptions() > exceptions_at_start_) return;
  try {
    wait_all();
  } catch (...) {
    transport_.fail_job(std::current_exception());
  }
}

int LocalPending::wait_any() {
  if (waiting_for_.empty()) return -1;
  const Message message =
      transport_.job().take(transport_.job_rank(), transfer_, waiting_for_,
                            transport_.timeout_seconds(), *transport_.group(), label_);
  accept(message);
  // A message that came before this rank asked for it has arrived when it was asked for.
  packets_.push_back({message.source, true, std::ssize(message.bytes), posted_,
                      std::max(posted_, message.delivered)});
  std::erase(waiting_for_, message.source);
  return message.source;
}

void LocalPending::accept(const Message& message) {
  const std::span<std::byte> target = receives_[message.source];
  if (message.bytes.size() != target.size()) {
    fail(ErrorKind::kCommunication,
         "rank {} expected {} bytes from rank {} in {}, but that rank sent {} in {}",
         transport_.job_rank(), target.size(), transport_.group()->job_rank(message.source),
         transport_.group()->describe(label_), message.bytes.size(), to_string(message.label));
  }
  std::memcpy(target.data(), message.bytes.data(), target.size());
}

struct JobOfOne {
  LocalJob job{1};
};

class WorldOfOne final : private JobOfOne, public LocalTransport {
 public:
  explicit WorldOfOne(double timeout_seconds) : LocalTransport(JobOfOne::job, 0, timeout_seconds) {}
  void abort(int exit_code) noexcept override { abort_job(exit_code); }
};

}  // namespace

std::unique_ptr<Transport> make_world_of_one(double timeout_seconds) {
  return std::make_unique<WorldOfOne>(timeout_seconds);
}

void run_local_ranks(int ranks, double timeout_seconds,
                     const std::function<void(Transport&)>& body) {
  ATOLL_ASSERT(ranks >= 1, "{} ranks", ranks);
  LocalJob job(ranks);
  const auto run_rank = [&](int rank) {
    try {
      LocalTransport transport(job, rank, timeout_seconds);
      body(transport);
    } catch (...) {
      job.fail_rank(rank, std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
    run_rank(0);
  }
  job.rethrow_first_error();
}

}  // namespace atl
