#include "engine/training/evaluation_loss.hpp"

#include <algorithm>
#include <numeric>

#include "engine/comm/rank_values.hpp"
#include "engine/program/loss.hpp"
#include "engine/training/metrics.hpp"

namespace atl {

namespace {

std::int64_t piece_rows(const RankData& data) {
  return std::clamp<std::int64_t>(data.rows(), 1, kLossPieceRows);
}

std::int64_t pieces_at_most(const RankData& data) {
  return std::max<std::int64_t>((data.rows() + kLossPieceRows - 1) / kLossPieceRows, 1);
}

}  // namespace

EvaluationLoss::EvaluationLoss(const Rank& rank, const RankData& data, Split split, DType dtype)
    : rank_(rank),
      data_(data),
      total_(data.loss_total(split)),
      gradient_(rank.backend, piece_rows(data), data.outputs(), dtype),
      sums_(rank.backend, pieces_at_most(data)) {
  std::vector<LocalId> ids = data.labelled_rows(split);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const std::int64_t begin = to_index(ids[k]) / kLossPieceRows * kLossPieceRows;
    const auto place = static_cast<std::int64_t>(k);
    if (pieces_.empty() || pieces_.back().rows.begin != begin) {
      pieces_.push_back({{begin, std::min(begin + kLossPieceRows, data.rows())}, {place, place}});
    }
    pieces_.back().listed.end = place + 1;
    ids[k] = static_cast<LocalId>(to_index(ids[k]) - begin);
  }
  row_ids_ = {rank.backend, rank.queue, std::move(ids)};
}

std::int64_t EvaluationLoss::bytes(const RankData& data, DType dtype) {
  return evaluation_loss_bytes(data.rows(), data.outputs(), dtype);
}

void EvaluationLoss::queue(ConstMatrixView logits) {
  const auto part = [](const auto& values, RowRange rows, std::int64_t columns) {
    return values.empty() ? values : values.subspan(rows.begin * columns, rows.size() * columns);
  };
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const auto& [rows, listed] = pieces_[p];
    LossTargets targets = data_.targets();
    targets.labels = part(targets.labels, rows, 1);
    targets.multi_labels = part(targets.multi_labels, rows, logits.cols);
    targets.numbers = part(targets.numbers, rows, logits.cols);
    targets.rows = row_ids_.span().subspan(listed.begin, listed.size());
    // A loss of the program's own would make it on the host.
    const MatrixView gradient =
        targets.own == nullptr ? gradient_.view().rows_in({0, rows.size()}) : MatrixView();
    queue_loss(rank_, targets, logits.rows_in(rows), 1, gradient, sums_.span().subspan(p, 1));
  }
  sums_.queue_copy(rank_.backend, rank_.queue);
}

double EvaluationLoss::result(int epoch) const {
  const auto sums = sums_.host().first(pieces_.size());
  const double sum = sum_over_ranks(rank_.transport, std::accumulate(sums.begin(), sums.end(), 0.0),
                                    {"validation loss", "", -1, epoch});
  return total_ > 0 ? sum / total_ : kUnknownMetric;
}

}  // namespace atl
