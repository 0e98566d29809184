#include "engine/training/block_training.hpp"

#include <algorithm>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/row_copies.hpp"
#include "engine/training/block_dealing.hpp"

namespace atl {

namespace {

// Blocks of so many epochs say how much memory one needs; a larger one that comes later takes more.
constexpr int kEpochsLookedAt = 8;

std::vector<std::int64_t> count_of(std::span<const std::int32_t> block_of, int blocks) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(blocks), 0);
  for (const std::int32_t block : block_of) ++counts[block];
  return counts;
}

std::vector<double> weights_of_rows(const RankData& data) {
  std::vector<double> weights(data.inner_ids().size(), 0.0);
  for (const LocalId row : data.labelled_rows(Split::kTrain)) {
    weights[to_index(row)] = data.loss_weight(row);
  }
  return weights;
}

}  // namespace

BlockTraining::BlockTraining(const TrainOptions& options, const RankData& data, const Rank& rank,
                             Network& whole, Optimizer& optimizer)
    : options_(options),
      data_(data.of_part()),
      dealing_(*data.dealing()),
      rank_(rank),
      slice_rank_(rank.in_slice({})),
      optimizer_(optimizer),
      network_(whole, rank_),
      exchange_(make_exchange(options.first_exchange_options(), slice_rank_)),
      weight_of_row_(weights_of_rows(data_)),
      most_(most_rows()),
      features_(most_.inner, data_.features().cols, data_.features().dtype),
      state_(rank.backend, 1),
      maker_(
          data_.graph(), dealing_.buckets(),
          [&dealing = dealing_](int epoch) { return dealing.of_epoch(epoch); }, weight_of_row_,
          threads_beside()) {
  network_.reserve(most_);
}

// A CPU trains with all threads but one. A device leaves idle all but the one that queues its work;
// more of them take part in blocks of so many rows each, as they begin anew for every block.
int BlockTraining::threads_beside() const {
  constexpr std::int64_t kRowsOfThread = 4096;
  if (rank_.backend.host_accessible()) return 1;
  const std::int64_t idle = std::max(1, parallel_threads() - 1);
  return static_cast<int>(std::clamp<std::int64_t>(most_.of_part() / kRowsOfThread, 1, idle));
}

RankRows BlockTraining::most_rows() const {
  const LocalGraphView& part = data_.graph();
  const int blocks = dealing_.buckets();
  const auto trained = static_cast<std::size_t>(dealing_.blocks());
  const bool repeats = dealing_.repeats();
  RankRows most;
  const int last = repeats ? 1 : std::min(options_.optimizer.epochs, kEpochsLookedAt);
  for (int epoch = 1; epoch <= last; ++epoch) {
    const NodeNumbers block_of = dealing_.of_epoch(epoch);
    std::vector<std::int64_t> edges(static_cast<std::size_t>(blocks), 0);
    std::vector<std::int64_t> sent(edges);
    for (std::size_t i = 0; i < block_of.inner.size(); ++i) {
      edges[block_of.inner[i]] += std::ssize(part.forward.csr.row(static_cast<std::int64_t>(i)));
    }
    for (const LocalId row : part.forward.halo.send_rows) ++sent[block_of.inner[to_index(row)]];
    const auto raise = [&](std::int64_t& to, const std::vector<std::int64_t>& counts) {
      to = std::max(to, std::ranges::max(std::span(counts).first(trained)));
    };
    const auto& backward_halo = part.symmetric ? block_of.forward_halo : block_of.backward_halo;
    raise(most.inner, count_of(block_of.inner, blocks));
    raise(most.forward_halo, count_of(block_of.forward_halo, blocks));
    raise(most.backward_halo, count_of(backward_halo, blocks));
    raise(most.returned, sent);
    raise(most.edges, edges);
  }
  if (!repeats) {
    // A block of a later epoch may be larger.
    for (std::int64_t* const rows :
         {&most.inner, &most.forward_halo, &most.backward_halo, &most.returned, &most.edges}) {
      *rows += *rows / 8;
    }
  }
  if (rank_.group != nullptr) {
    most.part = most.inner;
    // Shares of central and of marginal rows are rounded.
    most.inner = most.part / rank_.group->roles() + 2;
  }
  return most;
}

std::int64_t BlockTraining::bytes() const {
  const LocalGraphView& part = data_.graph();
  const LocalMatrixView& forward = part.forward;
  const bool weighted = !forward.csr.values.empty();
  // Edges of a matrix; of the block alone what operators make of them.
  constexpr std::int64_t kEntry = sizeof(std::int32_t) + sizeof(float);
  std::int64_t of_operators = 0;
  for (const Operation& op : network_.training().operations) {
    if (!op.needs_messages()) continue;
    const Normalisation normalisation = op.messages.normalisation;
    const std::int64_t of_op =
        normalisation == Normalisation::kRelations ? 3 * kEntry + sizeof(float)
        : normalisation == Normalisation::kEdges   ? sizeof(std::int32_t) + sizeof(std::int64_t)
                                                   : 0;
    of_operators = std::max(of_operators, of_op);
  }
  const std::int64_t types = forward.edge_types.empty() ? 0 : sizeof(std::uint16_t);
  const std::int64_t matrices = part.symmetric ? 1 : 2;
  const std::int64_t of_edge =
      matrices * static_cast<std::int64_t>(sizeof(std::int32_t) + (weighted ? sizeof(float) : 0)) +
      types + forward.edge_feature_columns * static_cast<std::int64_t>(sizeof(float));
  // Where the next block's edges lie among the part's, of those that stay.
  const std::int64_t of_place = matrices * static_cast<std::int64_t>(sizeof(std::int32_t));
  // Row pointers, splits, ids and degrees of the block that is trained on and of the next one; what
  // is made of them, and the block of each node.
  constexpr std::int64_t kPerRow = 2 * 56 + 40 + 32;
  return features_.bytes() + most_.edges * (2 * of_edge + of_place + of_operators) +
         most_.of_part() * kPerRow +
         part.inner() * static_cast<std::int64_t>(2 * sizeof(std::int32_t) + sizeof(double));
}

void BlockTraining::rest(bool features) {
  network_.rest();
  if (features) drop_mapped_pages(data_.mapped_features());
}

void BlockTraining::allocate() {
  features_.allocate(rank_.backend);
  network_.allocate();
}

BlockCounts BlockTraining::totals(int epoch) {
  BlockCounts counts = maker_.counts(epoch);
  const OperationLabel label{"nodes of blocks", "", -1, epoch};
  std::vector<double> both(counts.nodes);
  both.insert(both.end(), counts.weight.begin(), counts.weight.end());
  slice_rank_.transport.all_reduce(std::span(both), label);
  const auto half = both.begin() + std::ssize(counts.nodes);
  return {{both.begin(), half}, {half, both.end()}};
}

BlockEpoch BlockTraining::run_epoch(int epoch, bool goes_on, bool overlap, std::int64_t& steps) {
  const Round round{.epoch = epoch, .overlap = overlap, .state = state_.span().data()};
  const TraceTag tag{epoch, -1, -1, -1};
  const bool repeats = dealing_.repeats();
  const int dealt = repeats ? 1 : epoch;
  BlockEpoch result;
  const BlockCounts totals = [&] {
    const ScopedSpan span(rank_.trace, "next block", tag);
    return this->totals(dealt);
  }();
  std::vector<int> blocks;
  for (int block = 0; block < dealing_.blocks(); ++block) {
    // No gradient would come of others, on no rank.
    if (totals.weight[block] != 0) blocks.push_back(block);
  }
  halo_bytes_ = group_bytes_ = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    {
      const ScopedSpan span(rank_.trace, "next block", tag);
      if (repeats && block_ != nullptr) {
        network_.forget_constants();  // evaluations have used the memory of its values meanwhile
      } else {
        enter(maker_.take(dealt, blocks[i]), static_cast<std::int64_t>(totals.nodes[blocks[i]]));
      }
      // The memory of the block before is free now.
      if (i + 1 < blocks.size()) {
        maker_.begin(dealt, blocks[i + 1]);
      } else if (goes_on && !repeats) {
        maker_.begin(epoch + 1, 0);
      }
    }
    const EpochState state = optimizer_.state_of(epoch, ++steps);
    state_.upload(rank_.backend, rank_.queue, std::span(&state, 1));
    step(round, totals.weight[blocks[i]], result);
  }
  ++epochs_run_;
  return result;
}

void BlockTraining::take_nodes(const PartBlock& block, std::int64_t nodes) {
  block_ = &block;
  const std::span<const GlobalId> ids = block.graph.inner_ids;
  rank_.nodes = slice_rank_.nodes = nodes;
  if (rank_.group == nullptr) {
    rows_ = block.rows;
    inner_ids_ = {rank_.backend, rank_.queue, ids};
    rank_.inner_ids = slice_rank_.inner_ids = inner_ids_.span();
    return;
  }
  const PartGroup& group = *rank_.group;
  const std::int64_t central = block.graph.central;
  shared_rows_ = group.of_own_rows(std::span<const LocalId>(block.rows), central, 1);
  rows_ = shared_rows_;
  own_ids_ = group.of_own_rows(ids, central, 1);
  inner_ids_ = {rank_.backend, rank_.queue, std::span<const GlobalId>(own_ids_)};
  rank_.inner_ids = inner_ids_.span();
  part_ids_ = {rank_.backend, rank_.queue, ids};
  slice_rank_.inner_ids = part_ids_.span();
}

void BlockTraining::enter(const PartBlock& block, std::int64_t nodes) {
  take_nodes(block, nodes);
  const ConstMatrixView all = data_.features();
  const std::int64_t inner = std::ssize(rows_);
  if (inner > features_.rows()) {
    features_.release();  // first: there may be no room for both
    features_ = Tensor(rank_.backend, inner + inner / 8, all.cols, all.dtype);
  }
  const MatrixView features = features_.reshaped(inner, all.cols);
  const ConstDeviceArray<LocalId> rows{rank_.backend, rank_.queue, rows_};
  rank_.backend.run(rank_.queue, kernels::GatherRows{all, rows.span(), {}, features});
  LocalGraphView graph = block.graph.view();
  graph.lasts = dealing_.repeats();
  exchange_->keep_alive(nullptr);  // values make room for larger ones
  network_.enter(graph, features);
  exchange_->keep_alive(network_.memory());
}

LossTargets BlockTraining::take_targets() {
  targets_.rows.host.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (weight_of_row_[to_index(rows_[i])] > 0) {
      targets_.rows.host.push_back(static_cast<LocalId>(i));
    }
  }
  LossTargets targets = data_.host_targets();
  const auto of_nodes = [&]<typename T>(std::span<const T> labels, std::int64_t columns,
                                        OfNodes<T>& of) {
    return of.upload(rank_, copy_rows(labels, columns, rows_, of.host));
  };
  targets.labels = of_nodes(targets.labels, 1, targets_.labels);
  targets.multi_labels = of_nodes(targets.multi_labels, data_.outputs(), targets_.multi_labels);
  targets.numbers = of_nodes(targets.numbers, data_.outputs(), targets_.numbers);
  targets.rows = targets_.rows.upload(rank_, targets_.rows.host);
  return targets;
}

void BlockTraining::step(const Round& round, double weight, BlockEpoch& result) {
  const LossTargets targets = take_targets();
  if (loss_ == nullptr) {
    loss_ = std::make_unique<Loss>(rank_.backend, targets, weight);
  } else {
    loss_->set_targets(targets, weight);
  }
  network_.run_forward(*exchange_, round);
  network_.run_backward(*exchange_, round, *loss_);
  network_.run_step(round, optimizer_);
  rank_.reducer.synchronize();
  // Widths, and places in packets, are those of the messages of one block. Where it is the only
  // one, too: what an exchange remembers is in no checkpoint.
  exchange_->leave_graph(round);
  result.loss += loss_->local_sum();
  // All ranks of a part have the same edges: one of them counts.
  if (rank_.group == nullptr || rank_.group->role() == 0) {
    result.edges += std::ssize(block_->graph.forward.csr.col_idx);
  }
  ++result.steps;
  halo_bytes_ += network_.halo_bytes_per_epoch();
  if (rank_.group != nullptr) group_bytes_ += network_.group_bytes_per_epoch();
}

}  // namespace atl
