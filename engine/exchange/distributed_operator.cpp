#include "engine/exchange/distributed_operator.hpp"

#include <cmath>

#include "engine/comm/transport.hpp"
#include "engine/exchange/computed_halo.hpp"
#include "engine/exchange/halo_return.hpp"
#include "engine/exchange/relation_operators.hpp"

namespace atl {

const char* to_string(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

const char* to_string(Normalisation normalisation) {
  switch (normalisation) {
    case Normalisation::kSymmetric:
      return "symmetric";
    case Normalisation::kMean:
      return "mean";
    case Normalisation::kSum:
      return "sum";
    case Normalisation::kSumAndSelf:
      return "sum and self";
    case Normalisation::kEdges:
      return "edges";
    case Normalisation::kRelations:
      return "relations";
  }
  return "";
}

namespace {

// `inner` factors followed by ones for the rows behind, whose factor was applied before.
std::vector<float> with_outer_ones(const std::vector<float>& inner, std::int64_t outer_rows) {
  std::vector<float> scale(inner);
  scale.resize(inner.size() + static_cast<std::size_t>(outer_rows), 1.0F);
  return scale;
}

// The keys of the rounding noise of every row that may be sent.
std::vector<GlobalId> message_ids(const LocalGraphView& graph, const LocalMatrixView& matrix) {
  std::vector<GlobalId> ids(graph.inner_ids.begin(), graph.inner_ids.end());
  ids.resize(ids.size() + static_cast<std::size_t>(matrix.halo.halo_rows()));
  for (const GlobalId id : matrix.sum_ids) ids.push_back(message_for(id, graph.part));
  return ids;
}

// A + I of the symmetric normalisation gets exactly one self-loop per node: an explicit one keeps
// its place.
std::vector<float> self_weights(const LocalGraphView& graph, Normalisation normalisation) {
  std::vector<float> self(static_cast<std::size_t>(graph.inner()), 1.0F);
  if (normalisation != Normalisation::kSymmetric) return self;
  for (std::size_t i = 0; i < self.size(); ++i) self[i] = graph.has_self_loop[i] != 0 ? 0.0F : 1.0F;
  return self;
}

std::vector<float> row_factors(const LocalGraphView& graph, Normalisation normalisation) {
  const bool symmetric = normalisation == Normalisation::kSymmetric;
  std::vector<float> row(static_cast<std::size_t>(graph.inner()));
  for (std::size_t i = 0; i < row.size(); ++i) {
    double degree = graph.in_degree[i];
    if (symmetric && graph.has_self_loop[i] == 0) degree += 1;
    if (degree < 0) {
      fail_input(
          "edge weights: those of the in-edges of node {} sum to {}; the normalisation needs "
          "a sum of at least 0",
          to_index(graph.inner_ids[i]), degree);
    }
    const double factor = symmetric ? 1 / std::sqrt(degree) : 1 / degree;
    row[i] = degree > 0 ? static_cast<float>(factor) : 0.0F;
  }
  return row;
}

// The receiver of a packet says how it is divided.
void tell_pieces(Transport& transport, std::span<const std::int64_t> received,
                 std::span<std::int64_t> sent) {
  if (received.empty()) return;
  const auto ranks = static_cast<std::size_t>(transport.size());
  const std::size_t pieces = received.size() / ranks;
  std::vector<std::span<const std::byte>> sends(ranks);
  std::vector<std::span<std::byte>> receives(ranks);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    if (static_cast<int>(peer) == transport.rank()) continue;
    sends[peer] = std::as_bytes(received.subspan(peer * pieces, pieces));
    receives[peer] = std::as_writable_bytes(sent.subspan(peer * pieces, pieces));
  }
  transport.all_to_all_v(std::move(sends), std::move(receives), {"pieces of packets"})->wait_all();
}

}  // namespace

void make_sums(Backend& backend, Queue& queue, const DistributedOperator& op, MatrixView x) {
  if (op.sums.rows == 0) return;
  const MatrixView sums = x.rows_in({op.with_halo() - op.sums.rows, op.with_halo()});
  backend.run(queue, kernels::Spmm{op.sums, {0, op.sums.rows}, x.rows_in(op.marginal), 0, sums});
}

GraphOperators::GraphOperators(Backend& backend, Queue& queue, const LocalGraphView& graph,
                               Normalisation normalisation, const Recomputation& recomputation,
                               std::int64_t relations, const MarginalGroups& groups) {
  const bool scales_rows = has_row_factors(normalisation);
  const bool scales_columns = has_column_factors(normalisation);
  if (adds_self(normalisation)) {
    self_weight_ = {backend, queue, self_weights(graph, normalisation)};
  }
  if (scales_rows) {
    host_row_factor_ = row_factors(graph, normalisation);
    row_factor_ = {backend, queue, std::span<const float>(host_row_factor_)};
    backward_col_scale_ = {backend, queue,
                           with_outer_ones(host_row_factor_, graph.backward.outer_rows())};
  }
  if (scales_columns) {
    forward_col_scale_ = {backend, queue,
                          with_outer_ones(host_row_factor_, graph.forward.outer_rows())};
  }

  forward_ =
      make(backend, queue, graph, graph.forward, Direction::kForward, groups, forward_structure_);
  forward_.matrix.row_scale = row_factor_.span();
  forward_.matrix.col_scale = forward_col_scale_.span();
  forward_.row_scale = host_row_factor_;
  const auto scale_messages = [&](DistributedOperator& op) {
    op.message_scale = op.matrix.col_scale.first(static_cast<std::size_t>(op.sendable()));
    if (op.sums.rows > 0) {
      op.sums.col_scale = row_factor_.span().subspan(static_cast<std::size_t>(graph.central));
    }
  };
  if (scales_columns) scale_messages(forward_);

  const auto prepare_matrix = [&](SparseOperator& op, const CsrView& csr,
                                  std::span<const RowRange> ranges) {
    auto made = backend.prepare_spmm(queue, op, csr.row_ptr, ranges, lifetime_of(graph));
    op.prepared = made.get();
    prepared_.push_back(std::move(made));
  };
  // All rows at once is how they run without overlap.
  const auto prepare = [&](DistributedOperator& op, const LocalMatrixView& matrix) {
    std::vector<RowRange> ranges = {op.central, op.marginal, {0, op.inner()}};
    for_each_group(groups, op.marginal.begin, [&](std::int64_t begin, std::int64_t end) {
      ranges.push_back({begin, end});
    });
    for (const std::int64_t rows : graph.within) ranges.push_back({0, rows});
    prepare_matrix(op.matrix, matrix.csr, ranges);
    const RowRange all[] = {{0, op.sums.rows}};
    if (op.sums.rows > 0) prepare_matrix(op.sums, matrix.sums, all);
  };

  if (normalisation == Normalisation::kEdges) {
    for (std::int64_t i = 0; i < graph.inner(); ++i) {
      const auto row = graph.forward.csr.row(i);
      host_row_factor_.push_back(row.empty() ? 0.0F : 1.0F / static_cast<float>(row.size()));
    }
    forward_.row_scale = host_row_factor_;
    forward_.matrix.values = {};
    prepare(forward_, graph.forward);
    halo_return_ = std::make_unique<HaloReturn>(backend, queue, graph, EdgesBySource::kSorted);
    backward_ = halo_return_->messages();
    return;
  }
  if (normalisation == Normalisation::kRelations) {
    relations_ = std::make_unique<RelationOperators>(backend, queue, graph, relations);
    forward_.csr.values = relations_->coefficients();
    halo_return_ = std::make_unique<HaloReturn>(backend, queue, graph, EdgesBySource::kNone);
    backward_ = halo_return_->messages();
    return;
  }

  if (graph.symmetric) {
    backward_ = forward_;
    backward_.direction = Direction::kBackward;
  } else {
    backward_ = make(backend, queue, graph, graph.backward, Direction::kBackward, groups,
                     backward_structure_);
  }
  // S^T = diag(c) (A^T + diag(self)) diag(r); only the symmetric one has c.
  backward_.matrix.row_scale = scales_columns ? row_factor_.span() : std::span<const float>();
  backward_.matrix.col_scale = backward_col_scale_.span();
  backward_.row_scale =
      scales_columns ? std::span<const float>(host_row_factor_) : std::span<const float>();
  if (scales_rows) scale_messages(backward_);

  prepare(forward_, graph.forward);
  // The preparation may hold the factors, too: the mean's differ between the directions.
  if (graph.symmetric && scales_rows == scales_columns) {
    backward_.matrix.prepared = forward_.matrix.prepared;
    backward_.sums.prepared = forward_.sums.prepared;
  } else {
    prepare(backward_, graph.backward);
  }
  if (recomputation.any()) {
    computed_halo_ = std::make_unique<ComputedHalo>(backend, queue, graph, forward_, recomputation);
  }
}

GraphOperators::~GraphOperators() = default;

void GraphOperators::connect(Backend& backend, Queue& queue, Transport& transport) {
  for (Structure* structure : {&forward_structure_, &backward_structure_}) {
    tell_pieces(transport, structure->received_pieces, structure->sent_pieces);
  }
  if (computed_halo_ == nullptr || forward_.message_scale.empty()) return;
  computed_halo_->fetch_factors(backend, queue, transport, host_row_factor_);
}

DistributedOperator GraphOperators::make(Backend& backend, Queue& queue,
                                         const LocalGraphView& graph, const LocalMatrixView& matrix,
                                         Direction direction, const MarginalGroups& groups,
                                         Structure& structure) {
  structure.matrix = {backend, queue, matrix.csr, graph.inner() + matrix.outer_rows()};
  structure.send_rows = {backend, queue, matrix.halo.send_rows};
  DistributedOperator op;
  op.direction = direction;
  op.matrix = structure.matrix.view();
  op.matrix.self_weight = self_weight_.span();
  op.halo = matrix.halo;
  op.csr = matrix.csr;
  op.send_rows = structure.send_rows.span();
  op.central = {0, graph.central};
  op.marginal = {graph.central, graph.inner()};
  if (!groups.empty()) {
    structure.received_pieces = needed_messages(graph, matrix, groups);
    structure.sent_pieces.resize(structure.received_pieces.size());
    op.pieces = static_cast<int>(groups.size());
    op.received_pieces = structure.received_pieces;
    op.sent_pieces = structure.sent_pieces;
  }
  if (matrix.sums.rows() == 0) return op;
  structure.sums = {backend, queue, matrix.sums, graph.marginal()};
  structure.message_ids = {backend, queue, message_ids(graph, matrix)};
  op.sums = structure.sums.view();
  op.message_ids = structure.message_ids.span();
  return op;
}

}  // namespace atl
