// Link prediction: the loss of a dataset's links and of negatives drawn for each epoch, with its
// gradient, and their ranking. The score of a pair is the inner product of its embeddings.
#pragma once

#include <optional>

#include "engine/program/loss.hpp"
#include "engine/training/link_ranking.hpp"
#include "engine/training/link_share.hpp"
#include "engine/training/loss_options.hpp"
#include "engine/training/metrics.hpp"

namespace atl {

// Mean of the binary cross-entropy over training edges and their negatives, all ranks together.
// Edges are gone through in pieces, so that nothing has a row per edge; see docs/tasks.md.
class LinkTask final : public Loss {
 public:
  // All references must outlive it. columns: of the embeddings, `inner` rows of this rank.
  LinkTask(const Rank& rank, const LinkShare& links, const LinkOptions& options, std::int64_t inner,
           std::int64_t columns, DType dtype);

  void compute(const Rank& rank, const Round& round, ConstMatrixView embeddings,
               MatrixView gradient) override;
  double local_sum() const override;
  // Other pairs in every epoch.
  bool repeats() const override { return false; }

  // Of validation and test edges; embeddings [inner, columns] queued or computed. Collective.
  Metrics evaluate(int epoch, ConstMatrixView embeddings);
  LinkMetric main_metric() const { return options_.best_by; }

  // Bytes it takes besides the links, about.
  std::int64_t bytes() const;

 private:
  // Pairs of some edges as rows of a matrix that has been fetched.
  struct Pairs {
    std::vector<LocalId> first;
    std::vector<LocalId> second;
    ConstDeviceArray<LocalId> device_first, device_second;
    ConstMatrixView rows;  // the matrix
    DeviceArray<float> scores;

    std::int64_t size() const { return static_cast<std::int64_t>(first.size()); }
    MatrixView column(DeviceArray<float>& values) const {
      return {values.span().data(), size(), 1, 1, DType::kF32};
    }
  };

  // Edges of a piece where each has so many pairs.
  std::int64_t edges_per_piece(std::int64_t pairs_each) const;
  static RowRange piece(std::int64_t index, std::int64_t each, std::int64_t count);
  // Fetches what the pairs name and scores them. Collective.
  Pairs score(std::span<const std::int32_t> rows, std::span<const std::int32_t> nodes,
              ConstMatrixView embeddings, int epoch);
  // Adds the gradient of pairs whose scores have the gradient `d`, one after the other.
  void add_gradient(const Pairs& pairs, DeviceArray<float>& d, bool first_piece,
                    MatrixView gradient, int epoch);
  // Of all shared negatives of a set, ascending, on every rank.
  std::vector<float> shared_scores(const LinkSet& set, ConstMatrixView embeddings, int epoch);
  LinkScores rank_set(const LinkSet& set, ConstMatrixView embeddings, int epoch);

  const Rank& rank_;
  const LinkShare& links_;
  LinkOptions options_;
  std::int64_t inner_;
  std::int64_t columns_;
  DType dtype_;
  std::int64_t pieces_;  // of an epoch of training
  RowFetch fetch_;
  ReadBackArray<double> sums_;  // by piece
};

}  // namespace atl
