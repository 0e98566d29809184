// Exchange mode `exact`: every halo row travels every time, in the storage type.
#include <map>

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

namespace {

class ExactExchange final : public HaloExchange {
 public:
  ExactExchange(Backend& backend, Queue& queue, Transport& transport, TraceRecorder& trace)
      : backend_(backend), queue_(queue), transport_(transport), trace_(trace) {}

  std::string name() const override { return "exact"; }

  std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                         Channel channel, int epoch) override;
  void keep_alive(std::shared_ptr<const void> memory) override {
    memory_->receives = std::move(memory);
  }

  std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t width,
                            DType dtype) const override {
    return op.plan.sent_rows() * width * bytes_of(dtype);
  }

 private:
  // What transfers read and write.
  struct Memory {
    std::map<std::pair<int, Direction>, Tensor> sends;
    std::shared_ptr<const void> receives;
  };

  // The packed rows of one channel, kept from epoch to epoch.
  Tensor& send_buffer(Channel channel, std::int64_t rows, std::int64_t cols, DType dtype) {
    Tensor& buffer = memory_->sends[{channel.layer, channel.direction}];
    if (buffer.rows() != rows || buffer.cols() != cols) {
      buffer = Tensor(backend_, rows, cols, dtype);
    }
    return buffer;
  }

  Backend& backend_;
  Queue& queue_;
  Transport& transport_;
  TraceRecorder& trace_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

class PendingExactExchange final : public PendingExchange {
 public:
  PendingExactExchange(std::unique_ptr<PendingTransfer> transfer, TraceRecorder& trace,
                       TraceTag tag, Direction direction, std::int64_t bytes)
      : transfer_(std::move(transfer)),
        trace_(trace),
        tag_(tag),
        direction_(direction),
        bytes_(bytes) {}

  void finish() override {
    if (transfer_ == nullptr) return;
    ScopedSpan span(trace_, "wait", tag_, to_string(direction_));
    span.set_bytes(bytes_);
    transfer_->wait_all();
    transfer_.reset();
  }

 private:
  std::unique_ptr<PendingTransfer> transfer_;
  TraceRecorder& trace_;
  TraceTag tag_;
  Direction direction_;
  std::int64_t bytes_;  // received
};

std::unique_ptr<PendingExchange> ExactExchange::begin(const DistributedOperator& op, MatrixView x,
                                                      Channel channel, int epoch) {
  ATOLL_ASSERT(x.rows == op.with_halo() && x.stride == x.cols && backend_.host_accessible());
  const TraceTag tag{epoch, channel.layer, transport_.rank(), -1};
  Tensor& buffer = send_buffer(channel, op.plan.sent_rows(), x.cols, x.dtype);
  {
    const ScopedSpan span(trace_, "pack", tag, to_string(channel.direction));
    backend_.gather_rows(queue_, x.rows_in({0, op.inner()}), op.send_rows, op.message_scale,
                         buffer.view());
    backend_.synchronize(queue_);
  }
  const auto slice = [](MatrixView rows) {
    return std::span<std::byte>(
        static_cast<std::byte*>(rows.data),
        static_cast<std::size_t>(rows.rows * rows.cols * bytes_of(rows.dtype)));
  };
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (int peer = 0; peer < transport_.size(); ++peer) {
    const auto [send_begin, send_end] =
        std::pair(op.plan.send_offset[peer], op.plan.send_offset[peer + 1]);
    const auto [recv_begin, recv_end] =
        std::pair(op.plan.recv_offset[peer], op.plan.recv_offset[peer + 1]);
    sends.push_back(slice(buffer.view().rows_in({send_begin, send_end})));
    receives.push_back(slice(x.rows_in({op.inner() + recv_begin, op.inner() + recv_end})));
  }
  const std::int64_t row_bytes = x.cols * bytes_of(x.dtype);
  ScopedSpan span(trace_, "post", tag, to_string(channel.direction));
  span.set_bytes(op.plan.sent_rows() * row_bytes);
  const TraceTag received{epoch, channel.layer, -1, transport_.rank()};
  return std::make_unique<PendingExactExchange>(
      transport_.all_to_all_v(std::move(sends), std::move(receives),
                              {"halo exchange", to_string(channel.direction), channel.layer, epoch},
                              memory_),
      trace_, received, channel.direction, op.plan.halo_rows() * row_bytes);
}

}  // namespace

std::unique_ptr<HaloExchange> make_exact_exchange(Backend& backend, Queue& queue,
                                                  Transport& transport, TraceRecorder& trace) {
  return std::make_unique<ExactExchange>(backend, queue, transport, trace);
}

}  // namespace atl
