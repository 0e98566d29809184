// Trains the layers of one rank on all nodes, which flow through the ranks in chunks
// (docs/stages.md; engine/program/stages.hpp).
#pragma once

#include <memory>
#include <vector>

#include "engine/exchange/chunk_stream.hpp"
#include "engine/program/network.hpp"
#include "engine/program/stages.hpp"
#include "engine/training/options.hpp"
#include "engine/training/rank_data.hpp"

namespace atl {

class StageTraining {
 public:
  // data: of rows of the whole graph, which every rank has (RankData::of_part()). `whole` gives
  // parameters and norms and has not taken memory yet. All references must outlive it. Throws
  // Error{kOption} for models and numbers that stages don't allow. Collective.
  StageTraining(const TrainOptions& options, const ModelConfig& model, const RankData& data,
                const Rank& rank, Network& whole, Optimizer& optimizer);
  StageTraining(const StageTraining&) = delete;
  StageTraining& operator=(const StageTraining&) = delete;

  // Bytes of values and of buffers for what stages send each other.
  std::int64_t bytes() const;
  // The part of it for values that wait for backward or for the next epoch.
  std::int64_t lasting_bytes() const;
  // That this rank sends to other stages in an epoch, by formula, if messages are exact.
  std::int64_t sent_bytes() const;
  // When `whole` has taken its memory.
  void allocate();
  // An epoch; returns this rank's part of the loss. Collective.
  double run_epoch(int epoch, bool overlap, std::int64_t step);
  // The next epoch reads no rows of the last one, because they are not known here, or will not be
  // where a run goes on. One rank speaks for all.
  void forget_rows() { has_rows_ = false; }

  int epochs_run() const { return epochs_run_; }
  const StageCut& cut() const { return cut_; }

 private:
  // Values from or to one other stage, in one half of an epoch.
  struct Flow {
    std::vector<Value> values;
    std::unique_ptr<ChunkStream> rows;
  };
  struct Half {
    std::vector<Flow> arriving;
    std::vector<Flow> leaving;
    // Operations one after another, on a chunk or on all rows. All that leaves is of the first one.
    struct Part {
      std::vector<Fill> before;
      std::vector<std::vector<Block>> chunks;
      std::vector<Block> whole;
    };
    std::vector<Part> parts;
    std::vector<std::size_t> order;  // of chunks
  };

  void connect(const TrainOptions& options, const ModelConfig& model);
  // Calls on rows, with the spans that they would have in an epoch on the whole graph.
  std::vector<Block> blocks_of(const std::vector<Value>& values, Rows rows) const;
  void add_part(Half& half, const std::vector<Fill>& before, const std::vector<Value>& values);
  void fill(const std::vector<Fill>& fills, RowRange rows);
  RowRange rows_of(std::size_t chunk) const {
    return {chunk == 0 ? 0 : ends_[chunk - 1], ends_[chunk]};
  }
  void run(Half& half, bool in_chunks, const Round& round);
  void take(Half& half, std::size_t chunk);
  void send(Half& half, std::size_t chunk, const Round& round);

  const RankData& data_;
  Rank rank_;  // with all nodes
  Optimizer& optimizer_;
  int stale_from_;
  DType dtype_;
  Program program_;
  MarginalGroups ends_;  // of chunks
  RankShape shape_;
  StageCut cut_;
  Crossings crossings_;
  Stage stage_;
  Network network_;
  Loss loss_;
  bool is_last_;
  DeviceArray<EpochState> state_;
  std::vector<std::unique_ptr<Transport>> pairs_;
  std::vector<std::unique_ptr<Rank>> pair_ranks_;  // that streams refer to
  Half forward_;
  Half backward_;
  std::vector<Block> loss_blocks_;
  std::vector<Block> step_blocks_;
  bool entered_ = false;
  bool has_rows_ = false;
  int epochs_run_ = 0;
};

}  // namespace atl
