// Runs a way of exchange for some epochs on small graphs and keeps what every rank received, for
// tests that compare it.
#pragma once

#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/random_graph.hpp"
#include "tests/support/test_rank.hpp"

namespace atl {

// Rows as they are before they are scaled and sent.
inline float row_value(std::int64_t node, std::int64_t column, int /*epoch*/) {
  return static_cast<float>(std::sin(static_cast<double>(node * 31 + column * 17 + 1)) *
                            std::exp2(static_cast<double>(node % 7) - 3));
}

struct ExchangeSetup {
  int parts = 2;
  std::string backend = "cpu";
  DType dtype = DType::kF32;
  std::int64_t columns = 5;
  Normalisation normalisation = Normalisation::kSymmetric;
  ExchangeOptions exchange = {};
  int first_epoch = 1;
  int last_epoch = 1;
  int channel = 3;  // its number
  int layer = 1;
  bool constant = false;
  float (*value)(std::int64_t node, std::int64_t column, int epoch) = row_value;
};

// One direction in one epoch.
struct ExchangedChannel {
  std::vector<std::vector<float>> halo;  // [receiver] its halo rows
  std::int64_t bytes = 0;                // sent by all ranks between begin() and finish()
};

struct ExchangedEpoch {
  ExchangedChannel channels[2];          // by Direction
  std::optional<ExchangeReport> report;  // what end_epoch() gave on rank 0
};

struct Exchanged {
  std::vector<ExchangedEpoch> epochs;
  // The same in all epochs, by Direction.
  std::vector<std::vector<GlobalId>> halo_ids[2];  // [receiver]
  std::vector<float> scale[2];                     // message_scale of every node of the graph
  std::int64_t messages[2] = {0, 0};
  std::vector<std::string> states;  // [rank] after the last epoch
  Json calibration;
};

constexpr std::size_t place(Direction direction) { return static_cast<std::size_t>(direction); }

// One rank's part of exchanged().
class ExchangingRank {
 public:
  ExchangingRank(const ExchangeSetup& setup, Transport& transport, const LocalGraphView& local)
      : setup_(setup),
        local_(local),
        rank_(transport, local, setup.backend),
        operators_(*rank_.backend, *rank_.queue, local, setup.normalisation),
        exchange_(make_exchange(setup.exchange, rank_.self)) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      tensors_->emplace_back(*rank_.backend, op(direction).with_halo(), setup.columns, setup.dtype);
    }
    exchange_->keep_alive(tensors_);
  }

  HaloExchange& exchange() { return *exchange_; }

  // Both directions one after the other; adds what this rank sent and received.
  void run_epoch(int epoch, ExchangedEpoch& seen, std::mutex& mutex) {
    rank_.trace.clear();
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const MatrixView x = (*tensors_)[place(direction)].view();
      fill(op(direction), x, epoch);
      const std::int64_t before = rank_.self.bytes_sent();
      exchange_
          ->begin(op(direction), x,
                  {.number = setup_.channel,
                   .layer = setup_.layer,
                   .direction = direction,
                   .constant = setup_.constant},
                  {.epoch = epoch})
          ->finish();
      rank_.reducer.synchronize();
      const std::int64_t after = rank_.self.bytes_sent();
      const RowRange halo{op(direction).inner(), op(direction).with_halo()};
      std::vector<float> rows = download_f32(*rank_.backend, *rank_.queue, x.rows_in(halo));
      const std::lock_guard lock(mutex);
      ExchangedChannel& channel = seen.channels[place(direction)];
      channel.bytes += after - before;
      channel.halo[static_cast<std::size_t>(rank_.transport.rank())] = std::move(rows);
    }
    rank_.trace.resolve();
    std::optional<ExchangeReport> report = exchange_->end_epoch({.epoch = epoch});
    if (rank_.transport.rank() == 0) seen.report = std::move(report);
  }

  void describe(Exchanged& result) {
    const auto me = static_cast<std::size_t>(rank_.transport.rank());
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const std::size_t d = place(direction);
      const auto ids =
          direction == Direction::kForward ? local_.forward.halo_ids : local_.backward.halo_ids;
      result.halo_ids[d][me] = {ids.begin(), ids.end()};
      result.messages[d] += op(direction).halo.sent_rows();
      const std::span<const float> scale = op(direction).message_scale;
      std::vector<float> values(local_.inner_ids.size(), 1.0F);
      if (!scale.empty()) {
        rank_.backend->copy(*rank_.queue, values.data(), scale.data(),
                            static_cast<std::int64_t>(scale.size_bytes()), CopyKind::kDeviceToHost);
        rank_.backend->synchronize(*rank_.queue);
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        result.scale[d][static_cast<std::size_t>(to_index(local_.inner_ids[i]))] = values[i];
      }
    }
    if (me == 0) result.calibration = exchange_->calibration();
  }

 private:
  const DistributedOperator& op(Direction direction) const {
    return direction == Direction::kForward ? operators_.forward() : operators_.backward();
  }

  // Halo rows hold NaN until something arrives.
  void fill(const DistributedOperator& op, MatrixView x, int epoch) {
    std::vector<float> rows(static_cast<std::size_t>(op.with_halo() * setup_.columns),
                            std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t i = 0; i < op.inner(); ++i) {
      for (std::int64_t f = 0; f < setup_.columns; ++f) {
        rows[static_cast<std::size_t>(i * setup_.columns + f)] =
            setup_.value(to_index(local_.inner_ids[static_cast<std::size_t>(i)]), f, epoch);
      }
    }
    upload_f32(*rank_.backend, *rank_.queue, rows, x);
  }

  const ExchangeSetup& setup_;
  const LocalGraphView& local_;
  TestRank rank_;
  GraphOperators operators_;
  std::shared_ptr<std::vector<Tensor>> tensors_ = std::make_shared<std::vector<Tensor>>();
  std::unique_ptr<HaloExchange> exchange_;
};

// All epochs of the setup on all ranks. states: for load_state, one per rank, or empty.
inline Exchanged exchanged(const GraphView& graph, const ExchangeSetup& setup,
                           const std::vector<std::string>& states = {}) {
  Exchanged result;
  const auto ranks = static_cast<std::size_t>(setup.parts);
  for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
    result.halo_ids[d].resize(ranks);
    result.scale[d].resize(static_cast<std::size_t>(graph.nodes()));
  }
  result.states.resize(ranks);
  result.epochs.resize(static_cast<std::size_t>(setup.last_epoch - setup.first_epoch + 1));
  for (ExchangedEpoch& epoch : result.epochs) {
    for (ExchangedChannel& channel : epoch.channels) channel.halo.resize(ranks);
  }
  std::mutex mutex;
  run_parts(graph, setup.parts, [&](Transport& transport, const LocalGraphView& local) {
    ExchangingRank rank(setup, transport, local);
    if (!states.empty()) {
      rank.exchange().load_state(states[static_cast<std::size_t>(transport.rank())], "the state");
    }
    for (int epoch = setup.first_epoch; epoch <= setup.last_epoch; ++epoch) {
      rank.run_epoch(epoch, result.epochs[static_cast<std::size_t>(epoch - setup.first_epoch)],
                     mutex);
    }
    // Waits for messages under way, of all ranks.
    std::string state = rank.exchange().state();
    const std::lock_guard lock(mutex);
    rank.describe(result);
    result.states[static_cast<std::size_t>(transport.rank())] = std::move(state);
  });
  return result;
}

inline bool same_halo(const ExchangedEpoch& a, const ExchangedEpoch& b) {
  return a.channels[0].halo == b.channels[0].halo && a.channels[1].halo == b.channels[1].halo;
}

}  // namespace atl
