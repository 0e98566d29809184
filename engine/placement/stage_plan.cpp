#include "engine/placement/stage_plan.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "engine/exchange/chunk_stream.hpp"
#include "engine/placement/sum_cost.hpp"

namespace atl {

namespace {

RankShape uncut_shape(const PartitionQuality& uncut) {
  const RankShape shape = rank_counts(uncut, /*rank=*/0, /*covers=*/false).shape;
  return {.rows = {.inner = shape.rows.inner, .edges = shape.rows.edges},
          .weighted = shape.weighted};
}

// One half of an epoch.
struct Half {
  Direction direction = Direction::kForward;
  std::vector<double> seconds;  // by rank: what it computes, all chunks
  std::vector<double> later;    // the same when a chunk has been sent
  std::vector<Crossing> crossings;
};

class StagePlanner {
 public:
  // Throws Error{kOption} as find_stage_plan().
  explicit StagePlanner(const StageSetting& setting)
      : setting_(setting),
        programs_(of_all_ranks(setting)),
        program_(model_program(setting.model, Pass::kTraining)),
        shape_(uncut_shape(setting.uncut)),
        views_(counted_views(program_, shape_, DType::kF32)),
        cut_(cut_into_stages(program_, ranks(),
                             [&](int rank, const Call& call) { return seconds_of(rank, call); })) {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (device(rank).kind == "cpu") continue;
      fail_option("--stages: rank {} of the topology has kind {}; stages are for CPUs", rank,
                  device(rank).kind);
    }
    const Crossings crossings = find_crossings(program_, cut_);
    for (const auto* half : {&crossings.forward, &crossings.backward}) {
      std::map<std::pair<int, int>, std::size_t> matrices;
      for (const Crossing& crossing : *half) {
        const std::size_t count = ++matrices[{crossing.from, crossing.to}];
        ChunkStream::require_channels(count, static_cast<std::size_t>(setting.chunks));
      }
    }
    forward_.crossings = crossings.forward;
    backward_.direction = Direction::kBackward;
    backward_.crossings = crossings.backward;
    for (const SumRoute& route : other_sum_routes(setting.topology, gradient_bytes())) {
      if (sum_s(route) < sum_s(gradient_sum_)) gradient_sum_ = route;
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      stages_.push_back(make_stage(program_, cut_, crossings, rank));
      forward_.seconds.push_back(seconds_of(rank, stages_.back().forward));
      forward_.later.push_back(0);
      backward_.seconds.push_back(seconds_of(rank, stages_.back().backward));
      backward_.later.push_back(seconds_of(rank, stages_.back().input_backward));
    }
  }

  StagePlan plan(int bits) {
    StagePlan plan{.cut = cut_,
                   .layers = layers_without_plan(setting_.model),
                   .epoch = {{}, TaskGraph(ranks()), {}},
                   .bytes = {}};
    for (LayerPlan& layer : plan.layers) layer.bits = bits;
    plan.network_speed = setting_.corrections.network_speed();
    plan.gradient_sum = gradient_sum_;
    TaskGraph& graph = plan.epoch.tasks;
    add_half(graph, forward_, bits);
    for (int rank = 0; rank < ranks(); ++rank) {
      compute(graph, rank, to_string(Phase::kLoss), seconds_of(rank, stage_of(rank).loss));
    }
    add_half(graph, backward_, bits);
    add_step(graph);
    Simulator simulator(setting_.topology, 0, plan.network_speed);
    plan.epoch.times = simulator.run(graph);
    for (int rank = 0; rank < ranks(); ++rank) plan.bytes.push_back(bytes_of_rank(rank, bits));
    plan.missing_bytes = missing_bytes(setting_.topology, plan.bytes);
    return plan;
  }

 private:
  // Evaluations run as with --group-ranks all.
  static TrainingPrograms of_all_ranks(const StageSetting& setting) {
    ModelConfig shared = setting.model;
    shared.column_share.ranks = setting.topology.ranks();
    return TrainingPrograms(shared);
  }
  int ranks() const { return setting_.topology.ranks(); }
  const Device& device(int rank) const { return setting_.topology.device(rank); }
  const Stage& stage_of(int rank) const { return stages_[static_cast<std::size_t>(rank)]; }
  double rows() const { return static_cast<double>(shape_.rows.inner); }

  double seconds_of(int rank, const Call& call) const {
    const char* const span = stage_span_of(program_, call.value);
    const Scope& scope = program_.scope_of(call.value);
    const PhasePlace place{
        .phase = span == nullptr ? Phase::kRest : phase_named(span).value_or(Phase::kRest),
        .layer = scope.layer,
        .backward = has_directions(scope) && scope.direction == Direction::kBackward};
    return call_seconds(device(rank), *views_, call) * setting_.corrections.factor(rank, place);
  }
  double seconds_of(int rank, const std::vector<Value>& values) const {
    double seconds = 0;
    for (const Value v : values) seconds += seconds_of(rank, {v, Rows::kAll});
    return seconds;
  }

  static TaskId compute(TaskGraph& graph, int rank, const char* name, double seconds,
                        std::span<const TaskId> after = {}, Direction direction = {},
                        int layer = -1) {
    return graph.add({.kind = TaskKind::kCompute,
                      .name = name,
                      .direction = layer < 0 ? "" : to_string(direction),
                      .layer = layer,
                      .rank = rank,
                      .seconds = seconds},
                     after);
  }

  // Chunk after chunk on each stage, which takes what it gets, computes, and sends. A chunk is sent
  // when the one before it has been received.
  void add_half(TaskGraph& graph, const Half& half, int bits) {
    const int chunks = setting_.chunks;
    // By the number of a crossing: the transfer of each chunk.
    std::vector<std::vector<TaskId>> sent(half.crossings.size());
    const bool forward = half.direction == Direction::kForward;
    std::vector<TaskId> after;
    for (int turn = 0; turn < ranks(); ++turn) {
      const int rank = forward ? turn : ranks() - 1 - turn;
      const int layer = cut_.first_layer[static_cast<std::size_t>(rank)];
      const double chunk_s = half.seconds[static_cast<std::size_t>(rank)] / chunks;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        double seconds = chunk_s;
        after.clear();
        for (std::size_t c = 0; c < half.crossings.size(); ++c) {
          if (half.crossings[c].to != rank) continue;
          after.push_back(sent[c][static_cast<std::size_t>(chunk)]);
          seconds += unpack_seconds(rank, half.crossings[c], bits);
        }
        const TaskId computed =
            compute(graph, rank, "chunk", seconds, after, half.direction, layer);
        // All that leaves waits for the chunk before.
        after.assign(1, computed);
        double pack_s = 0;
        for (std::size_t c = 0; c < half.crossings.size(); ++c) {
          if (half.crossings[c].from != rank) continue;
          if (!sent[c].empty()) after.push_back(sent[c].back());
          pack_s += pack_seconds(rank, half.crossings[c], bits);
        }
        std::optional<TaskId> packed;
        for (std::size_t c = 0; c < half.crossings.size(); ++c) {
          if (half.crossings[c].from != rank) continue;
          if (!packed) {
            packed =
                compute(graph, rank, to_string(Phase::kPack), pack_s, after, half.direction, layer);
          }
          sent[c].push_back(graph.add({.kind = TaskKind::kTransfer,
                                       .name = "packet",
                                       .direction = to_string(half.direction),
                                       .layer = layer,
                                       .rank = rank,
                                       .destination = half.crossings[c].to,
                                       .bytes = bytes_of_rows(half.crossings[c], bits) / chunks,
                                       .rows = rows() / chunks},
                                      std::span(&*packed, 1)));
        }
        const double later_s = half.later[static_cast<std::size_t>(rank)] / chunks;
        if (later_s > 0) compute(graph, rank, "chunk", later_s, {}, half.direction, layer);
      }
    }
  }

  void add_step(TaskGraph& graph) {
    // The sum of gradients has all ranks.
    std::vector<TaskId> after(static_cast<std::size_t>(ranks()), -1);
    for (TaskId id = 0; id < graph.size(); ++id) {
      const SimTask& task = graph.task(id);
      if (task.kind == TaskKind::kCompute) after[static_cast<std::size_t>(task.rank)] = id;
    }
    const TaskId summed = graph.add({.kind = TaskKind::kDelay,
                                     .name = to_string(Phase::kAllReduce),
                                     .seconds = ranks() == 1 ? 0 : sum_s(gradient_sum_)},
                                    after);
    for (int rank = 0; rank < ranks(); ++rank) {
      compute(graph, rank, to_string(Phase::kStep), seconds_of(rank, stage_of(rank).step),
              std::span(&summed, 1));
    }
  }

  double sum_s(const SumRoute& route) const {
    return sum_seconds(setting_.topology, gradient_bytes(), route);
  }
  double gradient_bytes() const {
    return kFloatBytes *
           static_cast<double>(parameter_sizes(program_, /*pads_operands=*/false).values());
  }

  std::int64_t columns(const Crossing& crossing) const {
    return program_.at(crossing.value).columns;
  }
  double bytes_of_rows(const Crossing& crossing, int bits) const {
    return rows() * mean_message_bytes(bits, columns(crossing));
  }
  // For a chunk. Exact rows are copied.
  double pack_seconds(int rank, const Crossing& crossing, int bits) const {
    const auto of_chunk = shape_.rows.inner / setting_.chunks;
    if (bits < 32) return quantize_seconds(device(rank), of_chunk, columns(crossing));
    return elementwise_seconds(device(rank), 2 * bytes_of_rows(crossing, bits) / setting_.chunks);
  }
  // Rows arrive outside of the matrix that they belong to.
  double unpack_seconds(int rank, const Crossing& crossing, int bits) const {
    const double copy_s =
        elementwise_seconds(device(rank), 2 * bytes_of_rows(crossing, 32) / setting_.chunks);
    return copy_s + (bits < 32 ? pack_seconds(rank, crossing, bits) : 0);
  }

  double bytes_of_rank(int rank, int bits) const {
    const auto elements =
        allocate(program_, stage_of(rank).schedule, shape_.rows).elements +
        allocate(programs_.evaluation, programs_.evaluation_schedule,
                 rank_counts(setting_.uncut, rank, programs_.covers, nullptr, ranks()).shape.rows)
            .elements;
    const DataMemory data =
        data_memory({.nodes = shape_.rows.inner,
                     .own = shape_.rows.inner,
                     .edges = shape_.rows.edges,
                     .features = setting_.model.trains_nodes() ? 0 : setting_.model.features});
    double bytes = static_cast<double>(
        elements * bytes_of(programs_.dtype) +
        parameter_sizes(program_, device(rank).kind == "cuda").bytes(programs_.dtype) +
        sorted_edge_bytes(program_, shape_.rows) + data.total());
    for (const Half* half : {&forward_, &backward_}) {
      for (const Crossing& crossing : half->crossings) {
        if (crossing.from != rank && crossing.to != rank) continue;
        bytes += bytes_of_rows(crossing, bits);
        if (crossing.to == rank) bytes += bytes_of_rows(crossing, 32);
      }
    }
    return bytes;
  }

  const StageSetting& setting_;
  TrainingPrograms programs_;
  Program program_;
  RankShape shape_;
  std::unique_ptr<Views> views_;
  StageCut cut_;
  std::vector<Stage> stages_;  // by rank
  Half forward_;
  Half backward_;
  SumRoute gradient_sum_;
};

}  // namespace

StagePlan find_stage_plan(const StageSetting& setting, std::span<const int> bits) {
  StagePlanner planner(setting);
  std::optional<StagePlan> best;
  for (const int each : bits) {
    StagePlan plan = planner.plan(each);
    if (!best || is_better(plan.cost(), best->cost())) best = std::move(plan);
  }
  return std::move(*best);
}

}  // namespace atl
