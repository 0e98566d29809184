// Link prediction: the loss of a dataset's links and of negatives drawn for each epoch, with its
// gradient, and their ranking. Scores of pairs, and the way of gradients through them, are a
// program (pair_program); here is which pairs it runs on.
#pragma once

#include <memory>

#include "engine/exchange/row_fetch.hpp"
#include "engine/models/model.hpp"
#include "engine/program/network.hpp"
#include "engine/training/link_ranking.hpp"
#include "engine/training/link_share.hpp"
#include "engine/training/loss_options.hpp"
#include "engine/training/metrics.hpp"

namespace atl {

// Mean of the binary cross-entropy over training edges and their negatives, all ranks together.
// Edges are gone through in pieces, so that nothing has a row per edge; see docs/tasks.md.
class LinkTask final : public Loss {
 public:
  // All references but the model must outlive it; parameters: of the model, which gives embeddings
  // of `inner` rows of this rank. `metric` is the one of link_metrics() that the run is judged by.
  LinkTask(const Rank& rank, const LinkShare& links, const LinkOptions& options, std::int64_t inner,
           Metric metric, const ModelConfig& model, ParameterStore& parameters);
  ~LinkTask() override;
  // Takes the memory that scores need, before any are made.
  void allocate();

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

    std::int64_t size() const { return std::ssize(first); }
    // The views that scores of some of them need.
    PairViews views(RowRange range) const;
  };
  // The lists of a block of pairs that gradients go by.
  struct Ends {
    ConstDeviceArray<std::int64_t> inner_rows, fetched_rows;  // begin at 0 both
    ConstDeviceArray<LocalId> pair_of;
    ConstDeviceArray<LocalId> other_end;       // for a decoder
    ConstDeviceArray<std::int32_t> other_row;  // the same for inner products
  };
  class PairLoss;

  // Edges of a piece where each has so many pairs.
  std::int64_t edges_per_piece(std::int64_t pairs_each) const;
  static RowRange piece(std::int64_t index, std::int64_t each, std::int64_t count);
  // Pairs of a piece are scored so many at a time.
  std::int64_t pairs_at_a_time() const;
  MostPairs most_pairs() const;
  // Those that the pieces of training edges of this rank are scored in.
  std::int64_t count_blocks() const;
  // Fetches what the pairs name. Collective.
  Pairs fetch(std::span<const std::int32_t> rows, std::span<const std::int32_t> nodes,
              ConstMatrixView embeddings, int epoch);
  // Fetches and scores. Collective.
  std::vector<float> scores(std::span<const std::int32_t> rows, std::span<const std::int32_t> nodes,
                            ConstMatrixView embeddings, int epoch);
  // Adds to `views` of these pairs where their gradients go, by lists that it returns.
  Ends list_ends(const Pairs& pairs, RowRange range, PairViews& views) const;
  // Scores of all shared negatives of a set, ascending, on every rank.
  std::vector<float> shared_scores(const LinkSet& set, ConstMatrixView embeddings, int epoch);
  LinkScores rank_set(const LinkSet& set, ConstMatrixView embeddings, int epoch);

  const Rank& rank_;
  const LinkShare& links_;
  LinkOptions options_;
  std::vector<Metric> metrics_ = link_metrics(options_.hits_at);
  std::int64_t inner_;
  Metric metric_;
  bool decodes_;         // scores are no inner products
  std::int64_t pieces_;  // of an epoch of training
  RowFetch fetch_;
  Network scorer_;
  std::unique_ptr<PairLoss> pair_loss_;
  // 0, 1, 2, ... of the most pairs; and, where a decoder's ends have rows of their own, of these.
  ConstDeviceArray<LocalId> pair_numbers_;
  ConstDeviceArray<std::int32_t> end_numbers_;
  ReadBackArray<double> sums_;  // by block of pairs
};

}  // namespace atl
