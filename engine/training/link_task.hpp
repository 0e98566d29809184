// Link prediction: the loss of a dataset's links and of negatives drawn for each epoch, with its
// gradient, and their ranking. The score of a pair is the inner product of its embeddings, or what
// an MLP makes of their product element by element.
#pragma once

#include <memory>
#include <optional>

#include "engine/program/loss.hpp"
#include "engine/training/link_ranking.hpp"
#include "engine/training/link_share.hpp"
#include "engine/training/loss_options.hpp"
#include "engine/training/metrics.hpp"
#include "engine/training/pair_decoder.hpp"

namespace atl {

// Mean of the binary cross-entropy over training edges and their negatives, all ranks together.
// Edges are gone through in pieces, so that nothing has a row per edge; see docs/tasks.md.
class LinkTask final : public Loss {
 public:
  // All references must outlive it. columns: of the embeddings, `inner` rows of this rank. Without
  // a decoder scores are inner products.
  // `metric` is the one of link_metrics() that the run is judged by.
  LinkTask(const Rank& rank, const LinkShare& links, const LinkOptions& options, std::int64_t inner,
           Metric metric, std::int64_t columns, DType dtype,
           std::unique_ptr<PairDecoder> decoder = nullptr);

  void compute(const Rank& rank, const Round& round, ConstMatrixView embeddings,
               MatrixView gradient) override;
  double local_sum() const override;
  // Other pairs in every epoch.
  bool repeats() const override { return false; }

  // Metrics of validation and test edges; embeddings [inner, columns] queued or computed.
  // Collective.
  Metrics evaluate(int epoch, ConstMatrixView embeddings);

  // Bytes it takes besides the links, about.
  std::int64_t bytes() const;

 private:
  // Pairs of some edges as rows of a matrix that has been fetched.
  struct Pairs {
    std::vector<LocalId> first;
    std::vector<LocalId> second;
    ConstDeviceArray<LocalId> device_first, device_second;
    ConstDeviceArray<GlobalId> ids;  // of training, where a decoder reads them
    ConstMatrixView rows;            // the matrix
    DeviceArray<float> scores;

    std::int64_t size() const { return std::ssize(first); }
    // Values of some pairs, as a column.
    MatrixView column(DeviceArray<float>& values, RowRange range) const {
      return {values.span().data() + range.begin, range.size(), 1, 1, DType::kF32};
    }
  };

  // Edges of a piece where each has so many pairs.
  std::int64_t edges_per_piece(std::int64_t pairs_each) const;
  static RowRange piece(std::int64_t index, std::int64_t each, std::int64_t count);
  // Pairs of a piece are scored so many at a time.
  std::int64_t pairs_at_a_time() const;
  // Those that the pieces of training edges of this rank are scored in.
  std::int64_t count_blocks() const;
  // Fetches what the pairs name. Collective.
  Pairs fetch(std::span<const std::int32_t> rows, std::span<const std::int32_t> nodes,
              ConstMatrixView embeddings, int epoch);
  void score(Pairs& pairs, RowRange range, int epoch);
  // Fetches and scores. Collective.
  Pairs scored(std::span<const std::int32_t> rows, std::span<const std::int32_t> nodes,
               ConstMatrixView embeddings, int epoch);
  // Adds the gradient of pairs whose scores, the last ones made, have the gradient `d`; first: of
  // the epoch, which writes `gradient`; first_here: of the piece, which writes what is returned.
  void add_gradient(const Pairs& pairs, RowRange range, DeviceArray<float>& d, bool first,
                    bool first_here, MatrixView gradient);
  // Scores of all shared negatives of a set, ascending, on every rank.
  std::vector<float> shared_scores(const LinkSet& set, ConstMatrixView embeddings, int epoch);
  LinkScores rank_set(const LinkSet& set, ConstMatrixView embeddings, int epoch);

  const Rank& rank_;
  const LinkShare& links_;
  LinkOptions options_;
  std::vector<Metric> metrics_ = link_metrics(options_.hits_at);
  std::int64_t inner_;
  Metric metric_;
  std::int64_t columns_;
  DType dtype_;
  std::unique_ptr<PairDecoder> decoder_;
  std::int64_t pieces_;  // of an epoch of training
  RowFetch fetch_;
  Tensor contributions_;        // of a decoder's pairs to the gradients of their ends
  ReadBackArray<double> sums_;  // by block of pairs
};

}  // namespace atl
