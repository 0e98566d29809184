// Ranks as threads of one process: a send copies its bytes into the receiver's mailbox at once, so
// sends are complete when posted and nobody ever reads a peer's memory.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "engine/comm/watchdog.hpp"
#include "engine/comm/world_of_one.hpp"

namespace atl {

namespace {

struct Message {
  int source = 0;
  std::int64_t sequence = 0;  // number of the all_to_all_v
  OperationLabel label;       // as the sender calls it
  std::vector<std::byte> bytes;
  Watchdog::Clock::time_point delivered{};
};

// What the ranks of one run_local_ranks share.
class LocalGroup {
 public:
  explicit LocalGroup(int ranks) : mailboxes_(ranks) {}

  int size() const { return static_cast<int>(mailboxes_.size()); }

  void deliver(int destination, Message message) {
    Mailbox& mailbox = mailboxes_[destination];
    message.delivered = Watchdog::Clock::now();
    {
      const std::lock_guard lock(mutex_);
      mailbox.messages.push_back(std::move(message));
    }
    mailbox.arrived.notify_one();
  }

  // Takes the earliest message of this sequence out of the rank's mailbox. Throws
  // Error{kCommunication} once a rank has failed, and Error{kTimeout} once some of `peers`, which
  // are waited for, have been silent for the timeout.
  Message take(int rank, std::int64_t sequence, const std::vector<int>& peers,
               double timeout_seconds, const OperationLabel& label) {
    Mailbox& mailbox = mailboxes_[rank];
    Watchdog watchdog(timeout_seconds);
    std::unique_lock lock(mutex_);
    const Waiting waiting(mailbox);
    for (;;) {
      throw_if_failed(rank);
      const auto found = std::ranges::find(mailbox.messages, sequence, &Message::sequence);
      if (found != mailbox.messages.end()) {
        Message message = std::move(*found);
        mailbox.messages.erase(found);
        return message;
      }
      if (watchdog.endless()) {
        mailbox.arrived.wait(lock);
      } else if (watchdog.expired()) {
        const std::vector<int> silent = silent_peers(peers, watchdog);
        if (!silent.empty()) fail_silent(rank, silent, timeout_seconds, label);
      } else {
        mailbox.arrived.wait_until(lock, watchdog.next_look());
      }
    }
  }

  void set_working(int rank, bool works) {
    const std::lock_guard lock(mutex_);
    mailboxes_[rank].works = works;
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
    // What its rank does: works in a HeartbeatScope, waits for messages.
    bool works = false;
    bool waits = false;
    Watchdog::Clock::time_point last_worked{};
  };

  struct Waiting {
    explicit Waiting(Mailbox& own) : mailbox(own) {
      mailbox.waits = true;
      if (mailbox.works) mailbox.last_worked = Watchdog::Clock::now();
    }
    ~Waiting() { mailbox.waits = false; }
    Mailbox& mailbox;
  };

  // Those of `peers` that have not worked for the timeout either; if there is none, the watchdog
  // goes on from when the first of them did. Ranks that share a process are alive while they work.
  std::vector<int> silent_peers(const std::vector<int>& peers, Watchdog& watchdog) const {
    std::vector<int> silent;
    const auto now = Watchdog::Clock::now();
    auto first = now;
    for (const int peer : peers) {
      const Mailbox& other = mailboxes_[peer];
      if (other.works && !other.waits) continue;
      if (now - other.last_worked >= watchdog.timeout()) silent.push_back(peer);
      first = std::min(first, other.last_worked);
    }
    if (silent.empty()) watchdog.sign_of_life(first);
    return silent;
  }

  void throw_if_failed(int rank) const {
    if (failed_rank_ < 0) return;
    fail(ErrorKind::kCommunication, "rank {} stops because rank {} failed", rank, failed_rank_);
  }

  std::mutex mutex_;  // of everything below; held for moves of messages only, never for a copy
  std::vector<Mailbox> mailboxes_;
  int failed_rank_ = -1;
  std::exception_ptr first_error_;
};

class LocalTransport;

class LocalPending final : public PendingTransfer {
 public:
  // sent: what this rank has sent already.
  LocalPending(LocalTransport& transport, std::int64_t sequence,
               std::vector<std::span<std::byte>> receives, const OperationLabel& label,
               std::vector<PacketTimes> sent, Watchdog::Clock::time_point posted);
  ~LocalPending() override;

  int wait_any() override;
  void wait_all() override {
    while (wait_any() >= 0) {
    }
  }
  std::vector<PacketTimes> packet_times() const override { return packets_; }

 private:
  void accept(const Message& message);

  LocalTransport& transport_;
  std::int64_t sequence_;
  std::vector<std::span<std::byte>> receives_;
  OperationLabel label_;
  std::vector<PacketTimes> packets_;  // that are through
  Watchdog::Clock::time_point posted_;
  std::vector<int> waiting_for_;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

class LocalTransport : public Transport {
 public:
  LocalTransport(LocalGroup& group, int rank, double timeout_seconds) : group_(group), rank_(rank) {
    set_timeout_seconds(timeout_seconds);
  }

  std::string name() const override { return "local"; }
  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  void check_peers() override { group_.throw_if_failed_now(rank_); }
  void abort(int exit_code) noexcept override {
    group_.fail_rank(
        rank_, std::make_exception_ptr(Error(
                   exit_code == 2 ? ErrorKind::kInput : ErrorKind::kCommunication,
                   fmt::format("rank {} ended the run with exit code {}", rank_, exit_code))));
  }
  LocalGroup& group() { return group_; }

 private:
  void begin_work(const OperationLabel& /*label*/) override { group_.set_working(rank_, true); }
  void end_work() override { group_.set_working(rank_, false); }
  std::unique_ptr<PendingTransfer> do_all_to_all_v(
      std::vector<std::span<const std::byte>> sends, std::vector<std::span<std::byte>> receives,
      const OperationLabel& label, std::shared_ptr<const void> /*keep_alive*/) override {
    group_.throw_if_failed_now(rank_);
    const std::int64_t sequence = next_sequence_++;
    const auto posted = Watchdog::Clock::now();
    std::vector<PacketTimes> sent;
    for (int r = 0; r < size(); ++r) {
      if (sends[r].empty()) continue;
      group_.deliver(r, {rank_, sequence, label, {sends[r].begin(), sends[r].end()}});
      sent.push_back({r, false, std::ssize(sends[r]), posted, Watchdog::Clock::now()});
    }
    return std::make_unique<LocalPending>(*this, sequence, std::move(receives), label,
                                          std::move(sent), posted);
  }

  LocalGroup& group_;
  int rank_;
  std::int64_t next_sequence_ = 0;
};

LocalPending::LocalPending(LocalTransport& transport, std::int64_t sequence,
                           std::vector<std::span<std::byte>> receives, const OperationLabel& label,
                           std::vector<PacketTimes> sent, Watchdog::Clock::time_point posted)
    : transport_(transport),
      sequence_(sequence),
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
    transport_.group().fail_rank(transport_.rank(), std::current_exception());
  }
}

int LocalPending::wait_any() {
  if (waiting_for_.empty()) return -1;
  const Message message = transport_.group().take(transport_.rank(), sequence_, waiting_for_,
                                                  transport_.timeout_seconds(), label_);
  accept(message);
  // What a faster rank delivered before this one asked for it has arrived when it was asked for.
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
         transport_.rank(), target.size(), message.source, to_string(label_), message.bytes.size(),
         to_string(message.label));
  }
  std::memcpy(target.data(), message.bytes.data(), target.size());
}

struct GroupOfOne {
  LocalGroup group{1};
};

class WorldOfOne final : private GroupOfOne, public LocalTransport {
 public:
  explicit WorldOfOne(double timeout_seconds)
      : LocalTransport(GroupOfOne::group, 0, timeout_seconds) {}
  void abort(int exit_code) noexcept override { abort_job(exit_code); }
};

}  // namespace

std::unique_ptr<Transport> make_world_of_one(double timeout_seconds) {
  return std::make_unique<WorldOfOne>(timeout_seconds);
}

void run_local_ranks(int ranks, double timeout_seconds,
                     const std::function<void(Transport&)>& body) {
  ATOLL_ASSERT(ranks >= 1, "{} ranks", ranks);
  LocalGroup group(ranks);
  const auto run_rank = [&](int rank) {
    try {
      LocalTransport transport(group, rank, timeout_seconds);
      body(transport);
    } catch (...) {
      group.fail_rank(rank, std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
    run_rank(0);
  }
  group.rethrow_first_error();
}

}  // namespace atl
