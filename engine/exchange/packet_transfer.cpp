#include "engine/exchange/packet_transfer.hpp"

#include <utility>

namespace atl {

namespace {

std::int64_t total_bytes(const auto& spans) {
  std::int64_t total = 0;
  for (const auto& span : spans) total += std::ssize(span);
  return total;
}

// Host memory: the transport reads and writes the packets themselves.
class HostPackets final : public PendingPackets {
 public:
  explicit HostPackets(std::unique_ptr<PendingTransfer> transfer)
      : transfer_(std::move(transfer)) {}
  void finish_pieces(int last) override {
    if (transfer_ != nullptr) transfer_->wait_pieces(last);
  }
  void finish() override {
    if (transfer_ == nullptr) return;
    transfer_->wait_all();
    times_ = transfer_->packet_times();
    transfer_.reset();
  }
  std::vector<PacketTimes> packet_times() const override { return times_; }

 private:
  std::unique_ptr<PendingTransfer> transfer_;
  std::vector<PacketTimes> times_;
};

// Device to device: everything is queued, the host waits for nothing.
class DevicePackets final : public PendingPackets {
 public:
  DevicePackets(Backend& backend, Queue& compute, DeviceTransport& device)
      : backend_(backend), compute_(compute), device_(device) {}
  void finish() override {
    if (!finished_) backend_.wait_for(compute_, device_.queue());
    finished_ = true;
  }

 private:
  Backend& backend_;
  Queue& compute_;
  DeviceTransport& device_;
  bool finished_ = false;
};

}  // namespace

void record_packets(const Rank& rank, const std::vector<PacketTimes>& packets, TraceTag tag,
                    const char* direction, const char* what) {
  TraceRecorder& trace = rank.trace;
  for (const PacketTimes& packet : packets) {
    const int peer = rank.transport.group()->job_rank(packet.peer);
    TraceSpan span;
    span.name = packet.received ? "packet" : "send";
    span.direction = direction;
    span.what = what;
    span.start_us = trace.us_of(packet.posted);
    span.duration_us = trace.us_of(packet.done) - span.start_us;
    span.bytes = packet.bytes;
    span.tag = tag;
    span.tag.source = packet.received ? peer : trace.rank();
    span.tag.destination = packet.received ? trace.rank() : peer;
    span.lane = packet.received ? receive_lane(peer) : send_lane(peer);
    trace.record(span);
  }
}

// Packets on their way between a device and a transport of the host.
struct PacketTransfer::Staging {
  GrowingMemory<allocate_staging> sent, received;
};

namespace {

// Through staging memory. The copies from the device are queued at once; the transfer is posted
// when the host has queued all central work and the first copies have had that long.
class StagedPackets final : public PendingPackets {
 public:
  // copies: queue of the copies between device and staging memory.
  StagedPackets(const Rank& rank, Queue& copies, std::vector<std::span<const std::byte>> sends,
                std::vector<std::span<std::byte>> arrivals,
                std::vector<std::span<std::byte>> receives, const OperationLabel& label,
                std::shared_ptr<const void> keep_alive, PacketPieces pieces)
      : rank_(rank),
        copies_(copies),
        sends_(std::move(sends)),
        arrivals_(std::move(arrivals)),
        receives_(std::move(receives)),
        label_(label),
        keep_alive_(std::move(keep_alive)),
        pieces_(std::move(pieces)) {}

  void post() override {
    if (std::exchange(posted_, true)) return;
    rank_.backend.synchronize(copies_);
    transfer_ =
        rank_.transport.all_to_all_v(sends_, arrivals_, label_, std::move(keep_alive_), pieces_);
  }
  void finish() override {
    post();
    if (transfer_ == nullptr) return;
    for (int peer = transfer_->wait_any(); peer >= 0; peer = transfer_->wait_any()) {
      const auto p = static_cast<std::size_t>(peer);
      rank_.backend.copy(copies_, receives_[p].data(), arrivals_[p].data(),
                         std::ssize(receives_[p]), CopyKind::kHostToDevice);
    }
    transfer_->wait_all();
    times_ = transfer_->packet_times();
    transfer_.reset();
    rank_.backend.wait_for(rank_.queue, copies_);
  }
  std::vector<PacketTimes> packet_times() const override { return times_; }

 private:
  const Rank& rank_;
  Queue& copies_;
  std::vector<std::span<const std::byte>> sends_;  // in staging memory
  std::vector<std::span<std::byte>> arrivals_;     // in staging memory
  std::vector<std::span<std::byte>> receives_;     // on the device
  OperationLabel label_;
  std::shared_ptr<const void> keep_alive_;
  PacketPieces pieces_;  // others may see them come
  std::unique_ptr<PendingTransfer> transfer_;
  std::vector<PacketTimes> times_;
  bool posted_ = false;
};

}  // namespace

PacketTransfer::PacketTransfer(const Rank& rank) : rank_(rank) {
  const bool staged =
      !rank.backend.host_accessible() && rank.device == nullptr && rank.transport.size() > 1;
  if (staged) staging_queue_ = rank.backend.make_queue(QueuePriority::kHigh);
  if (staged) packing_clock_ = rank.backend.make_clock(*staging_queue_);
  if (rank.device != nullptr) packing_clock_ = rank.backend.make_clock(rank.device->queue());
}

PacketTransfer::~PacketTransfer() = default;

Queue& PacketTransfer::packing_queue() {
  if (rank_.backend.host_accessible()) return rank_.queue;
  Queue& queue = rank_.device != nullptr ? rank_.device->queue() : *staging_queue_;
  rank_.backend.wait_for(queue, rank_.queue);
  return queue;
}

void PacketTransfer::finish_packing() {
  if (rank_.backend.host_accessible()) return;
  rank_.backend.wait_for(rank_.queue,
                         rank_.device != nullptr ? rank_.device->queue() : *staging_queue_);
}

std::unique_ptr<PendingPackets> PacketTransfer::begin(int slot,
                                                      std::vector<std::span<const std::byte>> sends,
                                                      std::vector<std::span<std::byte>> receives,
                                                      const OperationLabel& label,
                                                      std::shared_ptr<const void> keep_alive,
                                                      PacketPieces pieces) {
  if (rank_.device != nullptr) {
    rank_.device->all_to_all_v(sends, receives, label);
    return std::make_unique<DevicePackets>(rank_.backend, rank_.queue, *rank_.device);
  }
  if (rank_.backend.host_accessible()) {
    rank_.backend.synchronize(rank_.queue);
    return std::make_unique<HostPackets>(rank_.transport.all_to_all_v(
        std::move(sends), std::move(receives), label, std::move(keep_alive), std::move(pieces)));
  }
  std::shared_ptr<Staging>& staging = staging_[slot];
  if (staging == nullptr) staging = std::make_shared<Staging>();
  staging->sent.reserve(rank_.backend, total_bytes(sends));
  staging->received.reserve(rank_.backend, total_bytes(receives));
  std::vector<std::span<const std::byte>> staged_sends;
  std::vector<std::span<std::byte>> arrivals;
  auto* to = static_cast<std::byte*>(staging->sent.get());
  for (const std::span<const std::byte> send : sends) {
    if (!send.empty()) {
      rank_.backend.copy(*staging_queue_, to, send.data(), std::ssize(send),
                         CopyKind::kDeviceToHost);
    }
    staged_sends.emplace_back(to, send.size());
    to += send.size();
  }
  auto* from = static_cast<std::byte*>(staging->received.get());
  for (const std::span<std::byte> receive : receives) {
    arrivals.emplace_back(from, receive.size());
    from += receive.size();
  }
  return std::make_unique<StagedPackets>(rank_, *staging_queue_, std::move(staged_sends),
                                         std::move(arrivals), std::move(receives), label, staging,
                                         std::move(pieces));
}

}  // namespace atl
