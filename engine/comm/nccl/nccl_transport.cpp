// Messages between devices by NCCL: the communicator is non-blocking and polled, so that no wait is
// without a deadline.
#include <cuda_runtime.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "engine/comm/device_transport.hpp"
#include "engine/comm/nccl/nccl_library.hpp"
#include "engine/comm/rank_list.hpp"
#include "engine/comm/transfer_log.hpp"
#include "engine/comm/watchdog.hpp"

namespace atl {

namespace {

constexpr OperationLabel kStart{.operation = "the start of NCCL"};
constexpr OperationLabel kSplit{.operation = "NCCL's split into groups"};
constexpr int kNoColor = -1;  // NCCL_SPLIT_NOCOLOR, which old headers lack
// How long a queue may take to run empty after an abort, and the communicator to be given back.
constexpr double kDrainSeconds = 5;
constexpr std::chrono::seconds kCloseLimit{10};

std::string describe(ncclResult_t result, ncclComm_t comm) {
  const std::string text = nccl().ncclGetErrorString(result);
  const char* detail = nccl().ncclGetLastError(comm);
  if (detail == nullptr || *detail == '\0') return text;
  return fmt::format("{} ({})", text, detail);
}

void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fail(ErrorKind::kCommunication, "{}: {}; --transport mpi and local do without NCCL", call,
       describe(result, nullptr));
}

// Waits shortly between two polls: first without sleeping, because most waits are short.
class Pause {
 public:
  void operator()() {
    constexpr int kSpins = 1000;
    constexpr std::chrono::microseconds kSleep{20};
    if (polls_++ < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }

 private:
  int polls_ = 0;
};

// Runs a call that may never return in a thread of its own.
class DetachedCall {
 public:
  explicit DetachedCall(std::function<void()> call) {
    std::packaged_task<void()> task(std::move(call));
    returned_ = task.get_future();
    std::thread(std::move(task)).detach();
  }
  // True if it has returned within `limit`.
  bool wait(std::chrono::seconds limit) const {
    return returned_.wait_for(limit) == std::future_status::ready;
  }

 private:
  std::future<void> returned_;
};

// Owns an ncclComm_t; never waits without a limit.
class Communicator {
 public:
  // Starts to connect; ready() says when that is done. In `all` as long as it lives.
  Communicator(std::vector<Communicator*>& all, int size, int rank, std::span<const std::byte> id)
      : all_(all) {
    ncclUniqueId unique;
    ATOLL_ASSERT(id.size() == sizeof(unique.internal), "{} bytes", id.size());
    std::memcpy(unique.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = nccl().ncclCommInitRankConfig(&comm_, size, unique, rank, &config);
    if (result != ncclInProgress) check_nccl(result, "ncclCommInitRankConfig");
    all_.push_back(this);
  }
  // Takes one that was split off.
  Communicator(std::vector<Communicator*>& all, ncclComm_t comm) : all_(all), comm_(comm) {
    all_.push_back(this);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    std::erase(all_, this);
    if (comm_ != nullptr && (std::uncaught_exceptions() > exceptions_at_start_ || !close())) {
      abort();
    }
    if (aborted_ && !aborted_->wait(kCloseLimit)) {
      log::warn("NCCL's communicator could not be given back within {} s", kCloseLimit.count());
    }
  }

  ncclComm_t get() const {
    if (comm_ == nullptr) {
      fail(ErrorKind::kCommunication, "NCCL was aborted after an error and carries no messages");
    }
    return comm_;
  }
  bool usable() const { return comm_ != nullptr; }

  // True if nothing that was asked for is still being prepared. Throws Error{kCommunication} with
  // what operation() returns.
  template <typename Name>
  bool ready(const Name& operation) const {
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = nccl().ncclCommGetAsyncError(get(), &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclInProgress) return false;
    if (result == ncclSuccess) return true;
    fail(ErrorKind::kCommunication, "NCCL failed in {}: {}", operation(), describe(result, comm_));
  }

  // Makes transfers under way end soon. ncclCommAbort itself returns only when all recordings that
  // hold transfers are gone, which is after the error has reached their owner.
  void abort() noexcept {
    if (comm_ == nullptr) return;
    try {
      aborted_.emplace([comm = std::exchange(comm_, nullptr)] { nccl().ncclCommAbort(comm); });
    } catch (const std::exception& error) {
      log::warn("NCCL could not be aborted: {}", error.what());
    }
  }

 private:
  // The end without errors. False if some rank did not come to it in time.
  bool close() noexcept {
    try {
      const ncclResult_t result = nccl().ncclCommFinalize(comm_);
      if (result != ncclInProgress) check_nccl(result, "ncclCommFinalize");
      Watchdog watchdog(static_cast<double>(kCloseLimit.count()));
      Pause pause;
      while (!ready([] { return "the end"; })) {
        if (watchdog.expired()) return false;
        pause();
      }
      const DetachedCall destroy(
          [comm = std::exchange(comm_, nullptr)] { nccl().ncclCommDestroy(comm); });
      if (!destroy.wait(kCloseLimit)) log::warn("ncclCommDestroy does not return");
      return true;
    } catch (const std::exception& error) {
      log::warn("the end of NCCL: {}", error.what());
      return false;
    }
  }

  std::vector<Communicator*>& all_;
  ncclComm_t comm_ = nullptr;
  std::optional<DetachedCall> aborted_;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

// The common part of a rank's transport and those of its groups: one queue, because transfers that
// two ranks run in different orders deadlock, and so one log and one end by an error.
struct Transfers {
  explicit Transfers(Backend& backend)
      : queue(backend.make_queue(QueuePriority::kHigh)), log(backend, *queue) {}

  std::unique_ptr<Queue> queue;
  TransferLog log;
  std::vector<Communicator*> communicators;
};

class NcclTransport final : public DeviceTransport {
 public:
  // NCCL takes the device that is current in this thread: the backend's, which was made in it.
  NcclTransport(Transport& transport, Backend& backend, std::span<const std::byte> id)
      : DeviceTransport(transport.rank(), transport.size()),
        transport_(transport),
        shared_(std::make_shared<Transfers>(backend)),
        backend_(backend),
        communicator_(shared_->communicators, transport.size(), transport.rank(), id) {
    start();
  }

  // A group of `parent` with a communicator that was split off.
  NcclTransport(const NcclTransport& parent, Transport& transport, ncclComm_t comm)
      : DeviceTransport(transport.rank(), transport.size()),
        transport_(transport),
        shared_(parent.shared_),
        backend_(parent.backend_),
        communicator_(shared_->communicators, comm) {
    start();
  }

  ~NcclTransport() override {
    if (communicator_.usable() && std::uncaught_exceptions() <= exceptions_at_start_) {
      try {
        wait(queue());
        return;
      } catch (const std::exception& error) {
        log::warn("the end of NCCL: {}", error.what());
      }
    }
    shared_->log.abandon();
  }

  std::string name() const override { return "nccl"; }
  Queue& queue() override { return *shared_->queue; }
  void wait(Queue& queue) override {
    communicator_.get();
    try {
      or_abort([&] { poll_until_idle(queue); });
    } catch (...) {
      drain(queue);
      throw;
    }
  }

 private:
  void start() {
    for (int r = 0; r < transport_.size(); ++r) {
      if (r != transport_.rank()) all_peers_.push_back(r);
    }
    or_abort([&] { await_ready(kStart, all_peers_); });
    open_connections();
  }

  std::unique_ptr<DeviceTransport> do_split(Transport* group) override {
    communicator_.get();
    if (nccl().ncclCommSplit == nullptr) {
      fail(ErrorKind::kCommunication,
           "groups of ranks need NCCL 2.18.1 or newer, but this is NCCL {}; --transport mpi and "
           "local do without NCCL",
           nccl_version());
    }
    wait(queue());  // nothing may be under way
    ncclComm_t made = nullptr;
    or_abort([&] { made = split_off(group); });
    if (group == nullptr) return nullptr;
    return std::make_unique<NcclTransport>(*this, *group, made);
  }

  ncclComm_t split_off(const Transport* group) {
    // No two groups have the same first rank. The order of ranks is theirs in this transport.
    const int color = group == nullptr ? kNoColor : group->group()->job_ranks.front();
    ncclComm_t* const made = split_off_.emplace_back(std::make_unique<ncclComm_t>(nullptr)).get();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result =
        nccl().ncclCommSplit(communicator_.get(), color, transport_.rank(), made, &config);
    if (result != ncclInProgress) check_nccl(result, "ncclCommSplit");
    await_ready(kSplit, all_peers_);
    return *made;
  }

  void do_all_to_all_v(const std::vector<std::span<const std::byte>>& sends,
                       const std::vector<std::span<std::byte>>& receives,
                       const OperationLabel& label) override {
    communicator_.get();
    std::vector<int> peers;
    for (int r = 0; r < transport_.size(); ++r) {
      const auto p = static_cast<std::size_t>(r);
      if (!sends[p].empty() || !receives[p].empty()) peers.push_back(r);
    }
    if (peers.empty()) return;
    or_abort([&] {
      queue_group(sends, receives, peers, label);
      await_ready(label, peers);
      shared_->log.add(transport_.group(), label, transport_.group()->in_job(std::move(peers)),
                       is_recording());
    });
  }

  void queue_group(const std::vector<std::span<const std::byte>>& sends,
                   const std::vector<std::span<std::byte>>& receives, const std::vector<int>& peers,
                   const OperationLabel& label) {
    const ncclComm_t comm = communicator_.get();
    ncclResult_t failed = ncclSuccess;
    const auto note = [&](ncclResult_t result) {
      if (failed == ncclSuccess && result != ncclInProgress) failed = result;
    };
    note(nccl().ncclGroupStart());
    for (const int peer : peers) {
      const auto& send = sends[static_cast<std::size_t>(peer)];
      const auto& receive = receives[static_cast<std::size_t>(peer)];
      if (!send.empty())
        note(nccl().ncclSend(send.data(), send.size(), ncclUint8, peer, comm, stream()));
      if (!receive.empty()) {
        note(nccl().ncclRecv(receive.data(), receive.size(), ncclUint8, peer, comm, stream()));
      }
    }
    note(nccl().ncclGroupEnd());  // after an error too, or the next group would be part of this one
    if (failed != ncclSuccess) {
      fail(ErrorKind::kCommunication, "NCCL failed in {}: {}", transport_.group()->describe(label),
           describe(failed, comm));
    }
  }

  // Until the group is on the queue: a thread of NCCL puts it there.
  void await_ready(const OperationLabel& label, const std::vector<int>& peers) {
    Watchdog watchdog(transport_.timeout_seconds());
    const auto operation = [&] {
      const std::string text = transport_.group()->describe(label);
      if (peers.empty()) return text;
      return fmt::format("{} with {}", text, rank_list(transport_.group()->in_job(peers)));
    };
    Pause pause;
    while (!communicator_.ready(operation)) {
      transport_.check_peers();
      if (watchdog.expired()) fail_stuck(operation());
      pause();
    }
  }

  void poll_until_idle(Queue& queue) {
    Watchdog watchdog(transport_.timeout_seconds());
    const TransferLog& log = shared_->log;
    int last = log.last_ended();
    Pause pause;
    for (;;) {
      const bool idle = backend_.is_idle(queue);
      // Also when idle: a transfer that fails may end without its data.
      if (all_ready() && idle) return;
      transport_.check_peers();
      if (const int now = log.last_ended(); now != last) {
        watchdog.sign_of_life();
        last = now;
      }
      if (watchdog.expired() && log.under_way()) fail_stuck(log.oldest());
      pause();
    }
  }

  // True if this transport and all that share its queue are ready.
  bool all_ready() const {
    bool ready = true;
    for (const Communicator* communicator : shared_->communicators) {
      ready = communicator->ready([&] { return shared_->log.oldest(); }) && ready;
    }
    return ready;
  }

  // After an abort, so that the owner of the queue can take down what it uses.
  void drain(Queue& queue) noexcept {
    Watchdog watchdog(kDrainSeconds);
    Pause pause;
    try {
      while (!watchdog.expired() && !backend_.is_idle(queue)) pause();
    } catch (const std::exception&) {
      // A device that has failed runs nothing any more, and the first error says more.
    }
  }

  [[noreturn]] void fail_stuck(const std::string& what) {
    fail(ErrorKind::kTimeout,
         "rank {} saw no transfer end for {:g} s while waiting for {}; is a rank stopped or its "
         "host unreachable?",
         transport_.group()->job_rank(transport_.rank()), transport_.timeout_seconds(), what);
  }

  // NCCL connects two ranks at their first message, which takes long, allocates, and is better not
  // done in an epoch or in a recording.
  void open_connections() {
    if (all_peers_.empty()) return;
    const auto size = static_cast<std::size_t>(transport_.size());
    const std::vector<std::byte> zeros(2 * size);
    const auto release = [this](std::byte* memory) { backend_.release(memory); };
    const std::unique_ptr<std::byte, decltype(release)> memory(
        static_cast<std::byte*>(backend_.allocate(std::ssize(zeros))), release);
    backend_.copy(queue(), memory.get(), zeros.data(), std::ssize(zeros), CopyKind::kHostToDevice);
    std::vector<std::span<const std::byte>> sends(size);
    std::vector<std::span<std::byte>> receives(size);
    for (const int r : all_peers_) {
      const auto p = static_cast<std::size_t>(r);
      sends[p] = {memory.get() + p, 1};
      receives[p] = {memory.get() + size + p, 1};
    }
    do_all_to_all_v(sends, receives, kStart);
    wait(queue());
  }

  // Aborts all communicators if `call` throws, so that what waits on the device ends.
  void or_abort(const std::function<void()>& call) {
    try {
      call();
    } catch (...) {
      for (Communicator* communicator : shared_->communicators) communicator->abort();
      throw;
    }
  }

  bool is_recording() {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t result = cudaStreamIsCapturing(stream(), &status);
    if (result != cudaSuccess) {
      fail(ErrorKind::kDevice, "cudaStreamIsCapturing: {}", cudaGetErrorString(result));
    }
    return status == cudaStreamCaptureStatusActive;
  }

  cudaStream_t stream() const { return static_cast<cudaStream_t>(shared_->queue->native_handle()); }

  Transport& transport_;
  std::shared_ptr<Transfers> shared_;
  Backend& backend_;
  // Where the library writes the communicators of groups, which may be later than an error.
  std::vector<std::unique_ptr<ncclComm_t>> split_off_;
  Communicator communicator_;
  std::vector<int> all_peers_;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace

std::string nccl_absence() {
  try {
    nccl();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string nccl_version() {
  if (!nccl_absence().empty()) return {};
  int version = 0;
  if (nccl().ncclGetVersion(&version) != ncclSuccess) return {};
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::vector<std::byte> nccl_unique_id() {
  ncclUniqueId id;
  check_nccl(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
  const auto bytes = std::as_bytes(std::span(id.internal));
  return {bytes.begin(), bytes.end()};
}

std::unique_ptr<DeviceTransport> make_nccl_transport(Transport& transport, Backend& backend,
                                                     std::span<const std::byte> id) {
  return std::make_unique<NcclTransport>(transport, backend, id);
}

}  // namespace atl
