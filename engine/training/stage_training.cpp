#include "engine/training/stage_training.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/comm/max_over_ranks.hpp"

namespace atl {

namespace {

// Odd, so that no two pairs have the same seed; from the golden ratio.
constexpr std::uint64_t kSeedOfPair = 0x9E3779B97F4A7C15;

RankRows rows_of(const LocalGraphView& graph) {
  return {.inner = graph.inner(), .edges = graph.forward.csr.nnz()};
}

RankShape shape_of(const LocalGraphView& graph) {
  return {.rows = rows_of(graph), .weighted = !graph.forward.csr.values.empty()};
}

Rank with_all_nodes(const Rank& rank, std::span<const GlobalId> ids) {
  return {.backend = rank.backend,
          .queue = rank.queue,
          .transport = rank.transport,
          .device = rank.device,
          .trace = rank.trace,
          .reducer = rank.reducer,
          .inner_ids = ids,
          .nodes = rank.nodes,
          .seed = rank.seed};
}

Program program_of(ModelConfig model) {
  model.column_share = {};
  return model_program(model, Pass::kTraining);
}

}  // namespace

StageTraining::StageTraining(const TrainOptions& options, const ModelConfig& model,
                             const RankData& data, const Rank& rank, Network& whole,
                             Optimizer& optimizer)
    : data_(data),
      rank_(with_all_nodes(rank, data.inner_ids())),
      optimizer_(optimizer),
      stale_from_(options.stages.stale_from),
      dtype_(model.dtype),
      program_(program_of(model)),
      ends_(chunks_of_rows(data.graph().forward.csr, options.stages.chunks)),
      shape_(shape_of(data.graph())),
      cut_(options.stages.first_layer.empty()
               ? cut_into_stages(program_, shape_, model.dtype, rank.transport.size())
               : given_stages(program_, options.stages.first_layer)),
      crossings_(find_crossings(program_, cut_)),
      stage_(make_stage(program_, cut_, crossings_, rank.transport.rank())),
      network_(whole, program_, stage_.schedule, ends_, rank_),
      loss_(rank.backend, data.targets(), data.loss_total(Split::kTrain)),
      is_last_(rank.transport.rank() == cut_.stages() - 1),
      state_(rank.backend, 1) {
  network_.reserve(shape_.rows);
  connect(options, model);
  add_part(forward_, {}, stage_.forward);
  add_part(backward_, stage_.sums_begin, stage_.backward);
  add_part(backward_, stage_.sums_end, stage_.input_backward);
  for (std::size_t chunk = 0; chunk < ends_.size(); ++chunk) forward_.order.push_back(chunk);
  // Rows that a chunk has read of this epoch get their gradients of this epoch, too.
  backward_.order.assign(forward_.order.rbegin(), forward_.order.rend());
  loss_blocks_ = blocks_of(stage_.loss, Rows::kAll);
  step_blocks_ = blocks_of(stage_.step, Rows::kAll);
}

void StageTraining::add_part(Half& half, const std::vector<Fill>& before,
                             const std::vector<Value>& values) {
  Half::Part part{.before = before, .chunks = {}, .whole = blocks_of(values, Rows::kAll)};
  for (std::size_t chunk = 0; chunk < ends_.size(); ++chunk) {
    part.chunks.push_back(blocks_of(values, Rows::marginal_group(static_cast<int>(chunk))));
  }
  half.parts.push_back(std::move(part));
}

// Stages are on CPUs, and their queues have run what was given to them.
void StageTraining::fill(const std::vector<Fill>& fills, RowRange rows) {
  for (const Fill& fill : fills) {
    const MatrixView to = network_.rows_of(fill.to, rows);
    const auto bytes = static_cast<std::size_t>(to.rows * to.stride * bytes_of(to.dtype));
    if (fill.from == kNoValue) {
      std::memset(to.data, 0, bytes);
      continue;
    }
    const MatrixView from = network_.rows_of(fill.from, rows);
    ATOLL_ASSERT(from.stride == to.stride && from.dtype == to.dtype, "values {} and {}", fill.from,
                 fill.to);
    if (from.data != to.data) std::memcpy(to.data, from.data, bytes);
  }
}

void StageTraining::connect(const TrainOptions& options, const ModelConfig& model) {
  const int self = rank_.transport.rank();
  std::map<std::pair<int, int>, Rank*> pairs;
  for (const auto* half : {&crossings_.forward, &crossings_.backward}) {
    for (const Crossing& crossing : *half) {
      pairs[std::minmax(crossing.from, crossing.to)] = nullptr;
    }
  }
  // All ranks take part in every split.
  for (auto& [pair, rank] : pairs) {
    const bool is_in = self == pair.first || self == pair.second;
    std::unique_ptr<Transport> transport = rank_.transport.split(
        is_in ? 0 : Transport::kNoGroup, fmt::format("stages {} and {}", pair.first, pair.second));
    if (!is_in) continue;
    Rank of_pair = {
        .backend = rank_.backend,
        .queue = rank_.queue,
        .transport = *transport,
        .device = nullptr,
        .trace = rank_.trace,
        .reducer = rank_.reducer,
        .inner_ids = rank_.inner_ids,
        .nodes = rank_.nodes,
        // Rounding at one boundary must tell nothing of that at the next.
        .seed = rank_.seed + kSeedOfPair * static_cast<std::uint64_t>((pair.first * cut_.stages()) +
                                                                      pair.second)};
    pairs_.push_back(std::move(transport));
    pair_ranks_.push_back(std::make_unique<Rank>(of_pair));
    rank = pair_ranks_.back().get();
  }
  std::vector<RowRange> chunks;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends_) chunks.push_back({std::exchange(begin, end), end});
  const auto add = [&](const std::vector<Crossing>& found, Direction direction, Half& half) {
    std::map<std::pair<int, int>, std::vector<Value>> flows;  // from and to
    for (const Crossing& crossing : found) {
      flows[{crossing.from, crossing.to}].push_back(crossing.value);
    }
    for (auto& [ends, values] : flows) {
      const auto [from, to] = ends;
      if (self != from && self != to) continue;
      std::vector<ChunkStream::Matrix> matrices;
      for (const Value value : values) {
        const Operation& op = program_.at(value);
        // Values of the head, also those that it returns to earlier layers, are the last one's.
        const Scope& scope = program_.scope_of(value);
        const int last = static_cast<int>(program_.layers.size()) - 1;
        matrices.push_back({.layer = scope.kind == Scope::Kind::kInput ? 0
                                     : scope.layer < 0                 ? last
                                                                       : scope.layer,
                            .columns = op.columns,
                            .dtype = op.wide ? parameter_dtype(model.dtype) : model.dtype});
      }
      Rank& rank = *pairs.at(std::minmax(from, to));
      Flow flow{values,
                std::make_unique<ChunkStream>(rank, options.first_exchange_options(), direction,
                                              self == from, std::move(matrices), chunks)};
      (self == from ? half.leaving : half.arriving).push_back(std::move(flow));
    }
  };
  add(crossings_.forward, Direction::kForward, forward_);
  add(crossings_.backward, Direction::kBackward, backward_);
}

std::vector<Block> StageTraining::blocks_of(const std::vector<Value>& values, Rows rows) const {
  std::vector<Block> blocks;
  for (const Value v : values) {
    const Operation& op = program_.at(v);
    const char* const name = stage_span_of(program_, v);
    if (blocks.empty() || blocks.back().name != name || blocks.back().scope != op.scope) {
      blocks.push_back({.name = name, .scope = op.scope});
    }
    blocks.back().calls.push_back({v, rows});
  }
  return blocks;
}

std::int64_t StageTraining::bytes() const {
  std::int64_t bytes = network_.own_value_bytes() + sorted_edge_bytes(program_, shape_.rows);
  for (const Half* half : {&forward_, &backward_}) {
    for (const auto* flows : {&half->arriving, &half->leaving}) {
      for (const Flow& flow : *flows) bytes += flow.rows->buffer_bytes();
    }
  }
  return bytes;
}

std::int64_t StageTraining::lasting_bytes() const {
  std::int64_t elements = 0;
  for (const Value value : stage_.schedule.lasting) {
    const Operation& op = program_.at(value);
    if (op.has_rows()) elements += shape_.rows.own(op.rows_of()) * program_.row_elements(op);
  }
  return elements * bytes_of(dtype_);
}

std::int64_t StageTraining::sent_bytes() const {
  std::int64_t bytes = 0;
  for (const Half* half : {&forward_, &backward_}) {
    for (const Flow& flow : half->leaving) bytes += flow.rows->sent_bytes();
  }
  return bytes;
}

void StageTraining::allocate() { network_.allocate(); }

void StageTraining::take(Half& half, std::size_t chunk) {
  const RowRange rows = rows_of(chunk);
  for (Flow& flow : half.arriving) {
    for (std::size_t i = 0; i < flow.values.size(); ++i) {
      flow.rows->take(i, chunk, network_.rows_of(flow.values[i], rows));
    }
  }
}

void StageTraining::send(Half& half, std::size_t chunk, const Round& round) {
  for (Flow& flow : half.leaving) {
    // Chunks that travel side by side would all come late.
    flow.rows->finish();
    for (std::size_t i = 0; i < flow.values.size(); ++i) {
      flow.rows->send(i, chunk, network_.rows_of(flow.values[i], {0, shape_.rows.inner}), round);
    }
    if (!round.overlap) flow.rows->finish();
  }
}

void StageTraining::run(Half& half, bool in_chunks, const Round& round) {
  for (Flow& flow : half.arriving) flow.rows->expect(half.order, round);
  if (in_chunks) {
    for (const std::size_t chunk : half.order) {
      take(half, chunk);
      for (const Half::Part& part : half.parts) {
        fill(part.before, rows_of(chunk));
        network_.run_stage(part.chunks[chunk], round, nullptr, nullptr);
        // Other stages wait for what the first part makes.
        if (&part == &half.parts.front()) send(half, chunk, round);
      }
    }
  } else {
    for (const std::size_t chunk : half.order) take(half, chunk);
    for (const Half::Part& part : half.parts) {
      fill(part.before, {0, shape_.rows.inner});
      network_.run_stage(part.whole, round, nullptr, nullptr);
    }
    for (const std::size_t chunk : half.order) send(half, chunk, round);
  }
  for (Flow& flow : half.leaving) flow.rows->finish();
}

double StageTraining::run_epoch(int epoch, bool overlap, std::int64_t step) {
  // A stage waits for the first chunk as long as all stages before it take.
  const HeartbeatScope scope(rank_.transport, {"epoch in stages", "", -1, epoch});
  if (!entered_) {
    LocalGraphView graph = data_.graph();
    graph.central = 0;  // all rows are in chunks
    network_.enter(graph, data_.features());
    entered_ = true;
  }
  double is_new = !has_rows_ || epoch < stale_from_ ? 1 : 0;
  max_over_ranks(rank_.transport, std::span(&is_new, 1), {"rows of the last epoch", "", -1, epoch});
  const EpochState state = optimizer_.state_of(epoch, step);
  state_.upload(rank_.backend, rank_.queue, std::span(&state, 1));
  const Round round{.epoch = epoch, .overlap = overlap, .state = state_.span().data()};
  run(forward_, is_new == 0, round);
  network_.run_stage(loss_blocks_, round, &loss_, nullptr);
  run(backward_, is_new == 0, round);
  network_.run_stage(step_blocks_, round, nullptr, &optimizer_);
  rank_.reducer.synchronize();
  // On all ranks by sender, then by receiver: pairs of ranks wait for each other.
  for (auto* flows :
       {&forward_.arriving, &forward_.leaving, &backward_.leaving, &backward_.arriving}) {
    for (Flow& flow : *flows) flow.rows->end_epoch(round);
  }
  has_rows_ = true;
  ++epochs_run_;
  return is_last_ ? loss_.local_sum() : 0;
}

}  // namespace atl
