#include "engine/comm/mpi_progress.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>

#include "base/error.hpp"

namespace atl {

namespace {

// Transfers that were given up. Never destroyed: MPI may still touch them.
std::vector<std::shared_ptr<MpiTransfer>>& graveyard() {
  static auto* transfers = new std::vector<std::shared_ptr<MpiTransfer>>;
  return *transfers;
}

// Linux lets a thread oversleep by 50 us unless told otherwise, as much as a poll's sleep itself.
void sleep_precisely() { ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); }

// Between two polls of a waiting main thread: short waits end fast, longer ones leave the core to
// whoever computes, and who waits for a cut or a disk hardly runs at all. It sleeps and never
// yields: who yields beside a busy program waits for a whole time slice, who wakes up is let in.
void pause_main(int polls) {
  constexpr int kPollsWithoutPause = 200;  // some 50 microseconds
  constexpr int kShortSleeps = 10000;      // the better part of a second
  if (polls < kPollsWithoutPause) return;
  const auto sleep = polls < kPollsWithoutPause + kShortSleeps ? 20 : 1000;
  std::this_thread::sleep_for(std::chrono::microseconds(sleep));
}

}  // namespace

std::string mpi_error_text(int code) { return mpi_calls().error_text(code); }

void check_mpi(int code, const char* call) {
  if (code == 0) return;
  fail(ErrorKind::kCommunication, "{} failed: {}", call, mpi_error_text(code));
}

void MpiTransfer::post_next(int peer) {
  constexpr int kMostUnderWay = 8;
  auto& queue = queued[static_cast<std::size_t>(peer)];
  Sending& now = sending[static_cast<std::size_t>(peer)];
  while (!queue.empty() && now.chunks < kMostUnderWay) {
    const int piece = chunks[queue.front().index].piece;
    if (now.chunks > 0 && piece != now.piece) return;
    now.piece = piece;
    ++now.chunks;
    post(*this, queue.front());
    queue.pop_front();
  }
}

MpiProgress::MpiProgress(int rank, MpiComm heartbeats, double timeout_seconds,
                         const MpiProgressOptions& options)
    : mpi_(mpi_calls()),
      rank_(rank),
      timeout_seconds_(timeout_seconds),
      options_(options),
      heartbeats_(heartbeats, timeout_seconds) {
  sleep_precisely();
  if (options_.thread) thread_ = std::thread([this] { run_thread(); });
}

MpiProgress::~MpiProgress() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MpiProgress::run_thread() {
  sleep_precisely();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!has_work_for_thread()) {
      work_.wait(lock);
      continue;
    }
    // Sleeping comes first: start() has polled already, and if the main thread waits by now, as in
    // every collective, the two would only be in each other's way.
    const Watchdog::Clock::duration sleep =
        active_.empty() ? heartbeats_.pause() : Watchdog::Clock::duration(options_.sleep);
    lock.unlock();
    std::this_thread::sleep_for(sleep);
    lock.lock();
    if (!has_work_for_thread()) continue;
    poll();
    end_job_if_others_are_silent();
  }
}

bool MpiProgress::has_work_for_thread() const {
  return (!active_.empty() || heartbeats_.active()) && awaited_ == nullptr && broken_.empty();
}

void MpiProgress::begin_work(std::shared_ptr<const RankGroup> group, const OperationLabel& label) {
  {
    const std::lock_guard lock(mutex_);
    heartbeats_.begin(std::move(group), label);
  }
  work_.notify_one();
}

void MpiProgress::end_work(const RankGroup& group) {
  const std::lock_guard lock(mutex_);
  heartbeats_.end(group);
}

void MpiProgress::close_heartbeats() {
  const std::lock_guard lock(mutex_);
  heartbeats_.close();
}

// The main thread can't be told: what it does may take hours.
void MpiProgress::end_job_if_others_are_silent() const {
  const std::optional<std::string> silence = heartbeats_.silence();
  if (!silence) return;
  std::fprintf(stderr, "atoll: error: %s\n", silence->c_str());
  abort_job(Error(ErrorKind::kTimeout, *silence).exit_code());
}

void MpiProgress::start(const std::shared_ptr<MpiTransfer>& transfer,
                        const std::function<void(MpiTransfer&)>& post) {
  std::unique_lock lock(mutex_);
  throw_if_broken(*transfer);
  transfer->posted = Watchdog::Clock::now();
  try {
    post(*transfer);
  } catch (const Error& error) {
    lock.unlock();
    abandon(transfer, error.what());
    throw;
  }
  transfer->last_sign = Watchdog::Clock::now();
  if (transfer->chunks_left > 0) active_.push_back(transfer);
  poll();
  const bool wake = has_work_for_thread();
  lock.unlock();
  if (wake) work_.notify_one();
}

void MpiProgress::wait(MpiTransfer& transfer, Awaited awaited,
                       const std::function<bool(MpiTransfer&)>& done) {
  std::unique_lock lock(mutex_);
  Watchdog watchdog(timeout_seconds_);
  awaited_ = &transfer;
  started_to_wait_ = Watchdog::Clock::now();
  struct EndOfWait {
    MpiProgress& progress;
    ~EndOfWait() {
      progress.awaited_ = nullptr;
      if (progress.has_work_for_thread()) progress.work_.notify_one();
    }
  } const end_of_wait{*this};
  for (int polls = 0;; ++polls) {
    throw_if_broken(transfer);
    if (done(transfer)) return;
    poll();
    throw_if_broken(transfer);
    if (done(transfer)) return;
    watchdog.sign_of_life(transfer.last_sign);
    if (watchdog.expired()) fail_silent_peers(transfer, awaited, watchdog);
    lock.unlock();
    pause_main(polls);
    lock.lock();
  }
}

void MpiProgress::abandon(const std::shared_ptr<MpiTransfer>& transfer, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (broken_.empty()) broken_ = reason;
  // All of them: nothing will poll them again, and their owners may be gone soon.
  graveyard().insert(graveyard().end(), active_.begin(), active_.end());
  graveyard().push_back(transfer);
  active_.clear();
}

bool MpiProgress::abandoned() const {
  const std::lock_guard lock(mutex_);
  return !broken_.empty();
}

void MpiProgress::exclusively(const std::function<void()>& call) {
  const std::lock_guard lock(mutex_);
  call();
}

bool MpiProgress::try_exclusively(const std::function<void()>& call) {
  const std::unique_lock lock(mutex_, std::chrono::seconds(1));
  if (!lock.owns_lock()) return false;
  call();
  return true;
}

// When this rank worked, or while it waits, the last of those it waits for. What is passed on
// counts as older than a message may take, so that ranks that wait for each other don't keep each
// other alive.
Watchdog::Clock::time_point MpiProgress::last_work() const {
  if (awaited_ == nullptr) return Watchdog::Clock::now();
  Watchdog::Clock::time_point last = started_to_wait_;
  for (std::size_t i = 0; i < awaited_->chunks.size(); ++i) {
    if (awaited_->requests[i] == mpi_.no_request) continue;
    const int peer = awaited_->group->job_rank(awaited_->chunks[i].peer);
    last = std::max(last, heartbeats_.last_worked(peer) - heartbeats_.beat());
  }
  return last;
}

void MpiProgress::poll() {
  if (heartbeats_.is_due()) heartbeats_.poll(last_work());
  for (const auto& transfer : active_) poll(*transfer);
  std::erase_if(active_, [](const auto& transfer) { return transfer->chunks_left == 0; });
}

void MpiProgress::poll(MpiTransfer& transfer) {
  if (!transfer.failure.empty()) return;
  const int count = static_cast<int>(transfer.requests.size());
  completions_.resize(transfer.requests.size());
  int completed = 0;
  const int code = mpi_.test_some(count, transfer.requests.data(), &completed, completions_.data());
  if (code != 0) {
    transfer.failure = fmt::format("MPI_Testsome failed: {}", mpi_error_text(code));
    return;
  }
  for (int i = 0; i < completed; ++i) {
    complete(transfer, completions_[static_cast<std::size_t>(i)]);
  }
}

void MpiProgress::complete(MpiTransfer& transfer, const MpiCompletion& completion) {
  const MpiTransfer::Chunk& chunk = transfer.chunks[static_cast<std::size_t>(completion.index)];
  if (completion.error != 0) {
    transfer.failure =
        fmt::format("MPI_{} {} rank {} failed: {}", chunk.receive ? "Irecv" : "Isend",
                    chunk.receive ? "from" : "to", transfer.group->job_rank(chunk.peer),
                    mpi_error_text(completion.error));
    return;
  }
  --transfer.chunks_left;
  transfer.last_sign = Watchdog::Clock::now();
  if (chunk.receive && completion.bytes != chunk.bytes) {
    transfer.failure =
        fmt::format("a message of {} bytes came where {} were expected from rank {}",
                    completion.bytes, chunk.bytes, transfer.group->job_rank(chunk.peer));
    return;
  }
  MpiTransfer::Packet& packet = transfer.packet_of(chunk);
  if (--packet.chunks_left == 0) {
    transfer.done.push_back(
        {chunk.peer, chunk.receive, packet.bytes, packet.posted, transfer.last_sign});
  }
  if (!chunk.receive) {
    --transfer.sending[static_cast<std::size_t>(chunk.peer)].chunks;
    try {
      transfer.post_next(chunk.peer);
    } catch (const Error& error) {
      transfer.failure = error.what();
    }
    return;
  }
  --transfer.pieces_left[static_cast<std::size_t>(chunk.piece)];
  if (--transfer.to_receive[static_cast<std::size_t>(chunk.peer)] > 0) return;
  --transfer.receiving_peers;
  transfer.arrived.push_back(chunk.peer);
}

void MpiProgress::throw_if_broken(const MpiTransfer& transfer) const {
  if (!transfer.failure.empty()) {
    fail(ErrorKind::kCommunication, "rank {}, {}: {}", rank_, transfer.describe(),
         transfer.failure);
  }
  if (!broken_.empty()) {
    fail(ErrorKind::kCommunication, "rank {} can't go on with {} after an earlier error: {}", rank_,
         transfer.describe(), broken_);
  }
}

// If all peers that are awaited have worked lately, the watchdog goes on from when the first of
// them did.
void MpiProgress::fail_silent_peers(const MpiTransfer& transfer, Awaited awaited,
                                    Watchdog& watchdog) const {
  const auto now = Watchdog::Clock::now();
  auto first = now;
  std::vector<int> silent;
  for (std::size_t i = 0; i < transfer.chunks.size(); ++i) {
    const MpiTransfer::Chunk& chunk = transfer.chunks[i];
    const bool is_awaited = chunk.receive || awaited == Awaited::kEverything;
    if (!is_awaited || transfer.requests[i] == mpi_.no_request) continue;
    const int peer = transfer.group->job_rank(chunk.peer);
    const auto last = heartbeats_.last_worked(peer);
    if (now - last >= watchdog.timeout()) silent.push_back(peer);
    first = std::min(first, last);
  }
  if (silent.empty()) return watchdog.sign_of_life(first);
  std::ranges::sort(silent);
  silent.erase(std::unique(silent.begin(), silent.end()), silent.end());
  fail_silent(rank_, silent, timeout_seconds_, transfer.describe());
}

}  // namespace atl
