#include "engine/placement/epoch_tasks.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/placement/halo_recomputation.hpp"
#include "engine/placement/sum_cost.hpp"

namespace atl {

namespace {

// A call of MPI per packet; what it copies is part of Device::progress_s_per_byte.
constexpr double kPostSeconds = 20e-6;

// What a range of rows holds.
struct RangeSize {
  std::int64_t rows = 0;
  std::int64_t edges = 0;  // in-edges, with the model's self-loops
};

constexpr int kAllStages = -1;
constexpr int kNoStage = -2;

class EpochBuilder {
 public:
  // Adds the tasks of `stage` to `graph`.
  EpochBuilder(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
               TaskDetail detail, int stage, TaskGraph& graph)
      : setting_(setting),
        strategy_(strategy),
        merged_(detail == TaskDetail::kMerged),
        joins_packets_(merged_ && setting.topology.ranks() > kMostExactRanks),
        root_(has_root_weight(setting.model.kind)),
        ranks_(setting.topology.ranks()),
        wanted_(stage),
        graph_(graph),
        layers_(planned_layers(setting.model, strategy)),
        last_(static_cast<std::size_t>(ranks_), -1),
        barrier_(static_cast<std::size_t>(ranks_), -1) {
    ATOLL_ASSERT(std::ssize(setting.partition.parts) == ranks_);
    ATOLL_ASSERT(std::ssize(strategy) == setting.model.layers);
  }

  // By stage: layers whose strategy its tasks depend on.
  std::vector<std::vector<int>> build() {
    if (setting_.model.input_dropout > 0) {
      for_ranks([&](int r) {
        compute(r, {Phase::kInputDropout, 0, false},
                touch(r, 2 * all(r).rows, setting_.model.features));
      });
    }
    for (const LayerConfig& layer : layers_) forward(layer);
    for_ranks([&](int r) {
      compute(r, {Phase::kLoss, -1, false}, touch(r, 2 * all(r).rows, setting_.model.outputs));
    });
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) backward(*layer);
    const double bytes = kFloatBytes * static_cast<double>(parameters());
    all_reduce(sum_seconds(setting_.topology, bytes, setting_.gradient_sum), -1, false);
    // Adam reads and writes weight and two moments, and reads the gradient.
    for_ranks([&](int r) { compute(r, {Phase::kStep, -1, false}, touch(r, 7, parameters())); });
    for_ranks([&](int r) { compute(r, {Phase::kRest, -1, false}, touch(r, 1, parameters())); });
    return std::move(stages_);
  }

 private:
  const Device& device(int rank) const {
    return setting_.topology.devices[static_cast<std::size_t>(rank)];
  }
  const PartQuality& part(int rank) const {
    return setting_.partition.parts[static_cast<std::size_t>(rank)];
  }
  RangeSize rows_of(std::int64_t rows, std::int64_t edges) const {
    return {rows, root_ ? edges : edges + rows};
  }
  RangeSize all(int rank) const { return rows_of(part(rank).nodes, part(rank).edges); }
  RangeSize marginal(int rank) const {
    const PartQuality& p = part(rank);
    return rows_of(p.nodes - p.central, p.marginal_edges);
  }
  RangeSize central(int rank) const {
    const PartQuality& p = part(rank);
    return rows_of(p.central, p.edges - p.marginal_edges);
  }
  // Rows of layer 1's input that are computed by the ranks that need them; null: none.
  const Recomputation* recomputation() const {
    return layers_.size() > 1 ? strategy_[1].recomputation.get() : nullptr;
  }
  std::int64_t messages(const LayerConfig& layer, bool backward, int from, int to) const {
    const bool computed = !backward && layer.index == 1 && recomputation() != nullptr &&
                          recomputation()->computes(to, from);
    return computed ? 0 : needed_rows(backward, from, to);
  }
  std::int64_t needed_rows(bool backward, int from, int to) const {
    const std::vector<std::int64_t>& rows =
        backward ? setting_.partition.backward_rows : setting_.partition.forward_rows;
    return rows[static_cast<std::size_t>(to) * static_cast<std::size_t>(ranks_) +
                static_cast<std::size_t>(from)];
  }
  std::int64_t parameters() const { return parameter_count(layers_, root_); }

  double touch(int rank, std::int64_t rows, std::int64_t cols) const {
    return elementwise_seconds(device(rank),
                               kFloatBytes * static_cast<double>(rows) * static_cast<double>(cols));
  }
  double gemm(int rank, std::int64_t rows, const LayerConfig& layer) const {
    return gemm_seconds(device(rank), rows, layer.in, layer.out);
  }

  bool is_wanted() const {
    return wanted_ == kAllStages || wanted_ == static_cast<int>(stages_.size()) - 1;
  }

  // The tasks from here to the end of the stage depend on the strategy of this layer. What is read
  // of strategies without being named here makes PlanSpace take seconds of other strategies.
  void depends_on(const LayerConfig& layer) {
    std::vector<int>& layers = stages_.back();
    if (std::ranges::find(layers, layer.index) == layers.end()) layers.push_back(layer.index);
  }

  // All tasks are added through this, so that those of other stages are left out.
  template <typename Body>
  void for_ranks(const Body& body) {
    if (!is_wanted()) return;
    for (int rank = 0; rank < ranks_; ++rank) body(rank);
  }

  static const char* direction_of(const PhasePlace& place) {
    return place.layer < 0 ? "" : place.backward ? "backward" : "forward";
  }

  // A span of a rank's main thread. `after`: what it waits for beside the span before it.
  TaskId compute(int rank, const PhasePlace& place, double seconds,
                 std::span<const TaskId> after = {}) {
    seconds *= setting_.corrections.factor(rank, place);
    const auto r = static_cast<std::size_t>(rank);
    const TaskId barrier = std::exchange(barrier_[r], -1);
    if (merged_ && after.empty() && barrier < 0 && last_[r] >= 0) {
      graph_.task(last_[r]).seconds += seconds;
      return last_[r];
    }
    ATOLL_ASSERT(barrier < 0 || after.empty());
    if (barrier >= 0) after = std::span(&barrier, 1);
    last_[r] = graph_.add({.kind = TaskKind::kCompute,
                           .name = to_string(place.phase),
                           .direction = direction_of(place),
                           .layer = place.layer,
                           .rank = rank,
                           .seconds = seconds},
                          after);
    return last_[r];
  }

  // What `rank` computes from now on is not added to the task it is in.
  void cut(int rank) { last_[static_cast<std::size_t>(rank)] = -1; }

  // Ends a stage.
  void all_reduce(double seconds, int layer, bool backward) {
    if (ranks_ == 1) return;
    scratch_.clear();
    for_ranks([&](int r) {
      scratch_.push_back(last_[static_cast<std::size_t>(r)]);
      cut(r);
    });
    if (is_wanted()) {
      const PhasePlace place{Phase::kAllReduce, layer, backward};
      const TaskId delay = graph_.add({.kind = TaskKind::kDelay,
                                       .name = to_string(place.phase),
                                       .direction = direction_of(place),
                                       .layer = layer,
                                       .seconds = seconds * setting_.corrections.factor(0, place)},
                                      scratch_);
      if (wanted_ == kAllStages) std::fill(barrier_.begin(), barrier_.end(), delay);
    }
    stages_.emplace_back();
  }

  // The packets of one exchange. Fills packets_.
  void post(int from, TaskId packed, const LayerConfig& layer, bool backward, double row_bytes) {
    cut(from);
    const SimTask packet = {.kind = TaskKind::kTransfer,
                            .name = "packet",
                            .direction = backward ? "backward" : "forward",
                            .layer = layer.index,
                            .rank = from};
    int packets = 0;
    int before = -1;  // the receiver of the last packet
    for_ranks([&](int to) {
      const std::int64_t rows = messages(layer, backward, from, to);
      if (rows == 0) return;
      const double bytes = static_cast<double>(rows) * row_bytes;
      TaskId& own = packet_to(from, to);
      if (before == to - 1 && are_joined(from, before, to)) {
        own = packet_to(from, before);
        graph_.task(own).bytes += bytes;
        ++graph_.task(own).packets;
      } else {
        own = graph_.add(packet, std::span(&packed, 1));
        graph_.task(own).destination = to;
        graph_.task(own).bytes = bytes;
      }
      before = to;
      ++packets;
    });
    compute(from, {Phase::kPost, layer.index, backward}, packets * kPostSeconds);
  }

  // Packets to these two ranks count as one task.
  bool are_joined(int from, int a, int b) const {
    if (!joins_packets_ || a < 0 || device(a).host != device(b).host) return false;
    return device(from).host != device(a).host &&
           setting_.topology.link(from, a) == setting_.topology.link(from, b);
  }

  TaskId& packet_to(int from, int to) {
    return packets_[static_cast<std::size_t>(to) * static_cast<std::size_t>(ranks_) +
                    static_cast<std::size_t>(from)];
  }

  // The packets of the exchange that `rank` waits for.
  std::span<const TaskId> arrivals(int rank) {
    scratch_.clear();
    for_ranks([&](int from) {
      if (packet_to(from, rank) >= 0) scratch_.push_back(packet_to(from, rank));
    });
    return scratch_;
  }

  // engine/program/schedule.cpp. `prepare` and `complete`: seconds of a layer's own work around
  // an aggregate of `cols` columns, by rank and range of rows.
  template <typename Prepare, typename Complete>
  void aggregate(const LayerConfig& layer, bool backward, std::int64_t cols, const Prepare& prepare,
                 const Complete& complete) {
    if (!is_wanted()) return;
    const double bits = strategy_[static_cast<std::size_t>(layer.index)].bits;
    const auto place = [&](Phase phase) { return PhasePlace{phase, layer.index, backward}; };
    const auto moved = [&](int rank, std::int64_t rows) {
      return bits < 32 ? quantize_seconds(device(rank), rows, cols) : touch(rank, 2 * rows, cols);
    };
    const double row_bytes = mean_message_bytes(bits, cols);
    packets_.assign(static_cast<std::size_t>(ranks_ * ranks_), -1);
    for_ranks([&](int from) {
      compute(from, place(Phase::kPrepareMarginal), prepare(from, marginal(from)));
      std::int64_t sent = 0;
      for_ranks([&](int to) { sent += messages(layer, backward, from, to); });
      const TaskId packed = compute(from, place(Phase::kPack), moved(from, sent));
      post(from, packed, layer, backward, row_bytes);
    });
    for_ranks([&](int rank) {
      double prepared = prepare(rank, central(rank));
      if (layer.index == 1 && !backward) prepared += recompute(rank).second_layer;
      compute(rank, place(Phase::kPrepareCentral), prepared,
              setting_.overlap ? std::span<const TaskId>() : arrivals(rank));
      compute(rank, place(Phase::kSpmmCentral), spmm(rank, central(rank), cols));
      compute(rank, place(Phase::kCompleteCentral), complete(rank, central(rank)));
    });
    for_ranks([&](int rank) {
      std::span<const TaskId> after = setting_.overlap ? arrivals(rank) : std::span<const TaskId>();
      if (bits < 32) {
        std::int64_t received = 0;
        for_ranks([&](int from) { received += messages(layer, backward, from, rank); });
        if (received > 0) {
          compute(rank, place(Phase::kUnpack), moved(rank, received),
                  std::exchange(after, std::span<const TaskId>()));
        }
      }
      compute(rank, place(Phase::kSpmmMarginal), spmm(rank, marginal(rank), cols), after);
      compute(rank, place(Phase::kCompleteMarginal), complete(rank, marginal(rank)));
    });
  }

  double spmm(int rank, const RangeSize& rows, std::int64_t cols) const {
    return spmm_seconds(device(rank), rows.edges, rows.rows, cols);
  }

  // engine/models and engine/program/schedule.cpp.
  void forward(const LayerConfig& layer) {
    depends_on(layer);
    const bool barrier = layer.norm == Norm::kBatch;
    const double products = root_ ? 2 : 1;
    const auto tail = [&](int rank, const RangeSize& range) {
      return layer.norm == Norm::kLayer ? touch(rank, 4 * range.rows, layer.out) : 0.0;
    };
    const auto multiply = [&](int rank, const RangeSize& range) {
      return products * gemm(rank, range.rows, layer);
    };
    if (layer.order == MultiplyOrder::kMultiplyFirst) {
      aggregate(layer, false, layer.out, multiply, tail);
    } else if (layer.cache_aggregate) {
      for_ranks([&](int r) {
        compute(r, {Phase::kCompleteCentral, layer.index, false},
                multiply(r, all(r)) + tail(r, all(r)));
      });
    } else {
      aggregate(
          layer, false, layer.in, [](int, const RangeSize&) { return 0.0; },
          [&](int r, const RangeSize& range) { return multiply(r, range) + tail(r, range); });
    }
    if (barrier) {
      norm_sums(layer, false, 1);
      for_ranks([&](int r) {
        compute(r, {Phase::kNormApply, layer.index, false}, touch(r, 2 * all(r).rows, layer.out));
      });
    }
    if (layer.index > 0 || layers_.size() == 1) return;
    depends_on(layers_[1]);
    if (recomputation() == nullptr) return;
    for_ranks([&](int r) {
      compute(r, {Phase::kRecompute, layer.index, false}, recompute(r).first_layer);
    });
  }

  // What the halo rows cost that `rank` computes.
  RecomputeSeconds recompute(int rank) const {
    if (recomputation() == nullptr) return {};
    std::int64_t rows = 0;
    for (int owner = 0; owner < ranks_; ++owner) {
      if (recomputation()->computes(rank, owner)) rows += needed_rows(false, owner, rank);
    }
    return recompute_seconds(device(rank), layers_, root_, rows);
  }

  // Batch norm: `passes` over the rows, then sums of two doubles per column over all ranks.
  void norm_sums(const LayerConfig& layer, bool backward, int passes) {
    for_ranks([&](int r) {
      compute(r, {Phase::kNormStatistics, layer.index, backward},
              touch(r, passes * all(r).rows, layer.out));
    });
    all_reduce(all_reduce_seconds(setting_.topology, 16 * static_cast<double>(layer.out)),
               layer.index, backward);
  }

  void backward(const LayerConfig& layer) {
    const bool multiply_first = layer.order == MultiplyOrder::kMultiplyFirst;
    // ReLU and dropout read output and gradient and write the gradient, sums of the norm its input.
    const bool has_norm = layer.norm != Norm::kNone, batch = layer.norm == Norm::kBatch;
    if (batch) norm_sums(layer, true, layer.relu ? 4 : 2);
    depends_on(layer);
    const int passes = (layer.relu && !batch ? 3 : has_norm ? 0 : 1) + (has_norm ? 3 : 0);
    const auto tail = [&](int rank, const RangeSize& range) {
      return touch(rank, passes * range.rows, layer.out) +
             (root_ ? gemm(rank, range.rows, layer) : 0);
    };
    const double root_input = root_ && layer.input_gradient ? 1 : 0;
    const auto product = [&](int rank, const RangeSize& range) {
      return gemm(rank, range.rows, layer);
    };
    if (!multiply_first && !layer.input_gradient) {
      for_ranks([&](int r) {
        compute(r, {Phase::kPrepareCentral, layer.index, true},
                tail(r, all(r)) + product(r, all(r)));
      });
    } else if (multiply_first) {
      aggregate(layer, true, layer.out, tail, [&](int r, const RangeSize& range) {
        return (layer.input_gradient ? 2 + root_input : 1) * product(r, range);
      });
    } else {
      aggregate(
          layer, true, layer.in,
          [&](int r, const RangeSize& range) { return tail(r, range) + 2 * product(r, range); },
          [&](int r, const RangeSize& range) { return root_input * product(r, range); });
    }
  }

  const EpochSetting& setting_;
  std::span<const LayerStrategy> strategy_;
  bool merged_;
  bool joins_packets_;
  bool root_;
  int ranks_;
  int wanted_;  // the stage whose tasks are added
  TaskGraph& graph_;
  std::vector<LayerConfig> layers_;
  std::vector<std::vector<int>> stages_{1};  // so far; the last one is being built
  std::vector<TaskId> packets_;              // of this exchange, [to * ranks + from]; -1: none
  std::vector<TaskId> scratch_;
  std::vector<TaskId> last_;     // of each rank, that may be added to; -1: none
  std::vector<TaskId> barrier_;  // of each rank, that its next task waits for; -1: none
};

}  // namespace

TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      TaskDetail detail) {
  TaskGraph graph(setting.topology.ranks());
  EpochBuilder(setting, strategy, detail, kAllStages, graph).build();
  return graph;
}

std::vector<std::vector<int>> epoch_stages(const EpochSetting& setting) {
  TaskGraph graph(setting.topology.ranks());
  return EpochBuilder(setting, default_strategy(setting.model), TaskDetail::kMerged, kNoStage,
                      graph)
      .build();
}

void add_stage_tasks(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                     int stage, TaskGraph& graph) {
  EpochBuilder(setting, strategy, TaskDetail::kMerged, stage, graph).build();
}

}  // namespace atl
