// The loss that training minimises, of the nodes of another split.
#pragma once

#include <vector>

#include "engine/training/rank_data.hpp"

namespace atl {

// Goes through the logits in pieces, so that what the losses of a backend write beside their sum
// takes little memory.
class EvaluationLoss {
 public:
  // Both references must outlive it. dtype: of the logits. Takes bytes() on the backend.
  EvaluationLoss(const Rank& rank, const RankData& data, Split split, DType dtype);
  static std::int64_t bytes(const RankData& data, DType dtype);

  // Queues the loss of `logits` of the last pass, queued or computed.
  void queue(ConstMatrixView logits);
  // Once what was queued has run. NaN where no label of the split counts. Collective.
  double result(int epoch) const;

 private:
  struct Piece {
    RowRange rows;    // of the logits
    RowRange listed;  // of row_ids_
  };

  const Rank& rank_;
  const RankData& data_;
  double total_;
  std::vector<Piece> pieces_;
  ConstDeviceArray<LocalId> row_ids_;  // of rows with a label, inside their piece
  Tensor gradient_;                    // which nobody reads
  ReadBackArray<double> sums_;         // by piece
};

}  // namespace atl
