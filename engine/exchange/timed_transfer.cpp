#include "engine/exchange/timed_transfer.hpp"

#include <chrono>

namespace atl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr OperationLabel kLabel{"link measurement"};

class DevicePending final : public PendingTransfer {
 public:
  DevicePending(DeviceTransport& device, const std::vector<std::span<std::byte>>& receives)
      : device_(device) {
    for (std::size_t peer = 0; peer < receives.size(); ++peer) {
      if (!receives[peer].empty()) unreported_.push_back(static_cast<int>(peer));
    }
  }
  int wait_any() override {
    if (unreported_.empty()) return -1;
    device_.wait(device_.queue());
    const int peer = unreported_.back();
    unreported_.pop_back();
    return peer;
  }
  void wait_all() override {
    device_.wait(device_.queue());
    unreported_.clear();
  }
  void wait_pieces(int /*last*/) override { wait_all(); }
  // Transfers between devices are seen as one.
  std::vector<PacketTimes> packet_times() const override { return {}; }

 private:
  DeviceTransport& device_;
  std::vector<int> unreported_;
};

}  // namespace

TimedTransfer::Buffer::Buffer(const Rank& rank, std::int64_t size)
    : bytes(static_cast<std::size_t>(size)) {
  if (rank.device == nullptr) {
    host.resize(bytes);
  } else {
    device = allocate_device(rank.backend, size);
  }
}

TimedTransfer::TimedTransfer(const Rank& rank, std::int64_t send_bytes, std::int64_t receive_bytes)
    : rank_(rank),
      buffers_(std::make_shared<Buffers>(
          Buffers{Buffer(rank, send_bytes), Buffer(rank, receive_bytes)})) {}

std::unique_ptr<PendingTransfer> TimedTransfer::post(std::span<const std::int64_t> sends,
                                                     std::span<const std::int64_t> receives) {
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  std::size_t sent = 0;
  std::size_t received = 0;
  for (std::size_t peer = 0; peer < sends.size(); ++peer) {
    const auto send = static_cast<std::size_t>(sends[peer]);
    const auto receive = static_cast<std::size_t>(receives[peer]);
    from.emplace_back(buffers_->out.span().subspan(sent, send));
    to.push_back(buffers_->in.span().subspan(received, receive));
    sent += send;
    received += receive;
  }
  if (rank_.device == nullptr) {
    return rank_.transport.all_to_all_v(std::move(from), std::move(to), kLabel, buffers_);
  }
  rank_.device->all_to_all_v(from, to, kLabel);
  return std::make_unique<DevicePending>(*rank_.device, to);
}

std::vector<double> TimedTransfer::time(std::span<const std::int64_t> sends,
                                        std::span<const std::int64_t> receives) {
  std::vector<double> seconds(sends.size(), 0);
  rank_.transport.barrier(kLabel);
  const Clock::time_point start = Clock::now();
  const auto transfer = post(sends, receives);
  for (int peer = transfer->wait_any(); peer >= 0; peer = transfer->wait_any()) {
    seconds[static_cast<std::size_t>(peer)] =
        std::chrono::duration<double>(Clock::now() - start).count();
  }
  transfer->wait_all();
  return seconds;
}

}  // namespace atl
