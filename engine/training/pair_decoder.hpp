// Scores of pairs of nodes by an MLP on top of the product of their embeddings, element by element,
// as OGB's examples of link prediction have it: x_0 = z_u * z_v, x_l+1 = dropout(relu(x_l W_l +
// b_l)), and the last layer, of one column, gives the score.
#pragma once

#include "engine/exchange/rank.hpp"
#include "engine/models/model.hpp"

namespace atl {

// Its parameters are among the model's (decoder_names()), so that they are summed over ranks,
// stepped and saved as all others are.
class PairDecoder {
 public:
  // So many pairs at a time: each takes a row of every layer.
  static constexpr std::int64_t kMostPairs = 1 << 16;

  // All references must outlive it. program: of the model, whose parameters the store holds.
  PairDecoder(const Rank& rank, ParameterStore& parameters, const Program& program,
              const ModelConfig& model);

  // Scores [first.size(), 1], of the parameters' type, of pairs of rows of z. pair_ids, in the
  // backend's memory: of each pair, for dropout in this epoch; empty: an evaluation, which drops
  // nothing.
  void score(ConstMatrixView z, std::span<const LocalId> first, std::span<const LocalId> second,
             std::span<const GlobalId> pair_ids, int epoch, MatrixView scores);
  // From d, the gradient of what the last score() gave, of a call with ids: adds to the gradients
  // of the parameters. Returns that of the products x_0, a row per pair, until the next score().
  ConstMatrixView backward(ConstMatrixView d);

  // Bytes for `pairs` pairs.
  std::int64_t bytes(std::int64_t pairs) const;

 private:
  struct Layer {
    int weight = -1;  // in the store
    int bias = -1;
  };

  DropoutSpec dropout_of(std::size_t layer) const;
  // Input of layer l.
  MatrixView input(std::size_t l) { return inputs_[l].view().rows_in({0, pairs_}); }

  const Rank& rank_;
  ParameterStore& parameters_;
  std::vector<Layer> layers_;
  DropoutThreshold dropout_;
  std::int64_t columns_;
  DType dtype_;
  // Shapes of the last score().
  std::int64_t pairs_ = 0;
  std::span<const GlobalId> pair_ids_;
  int epoch_ = 0;

  std::vector<Tensor> inputs_;     // by layer
  std::vector<Tensor> gradients_;  // two, taken in turn
  Tensor narrow_;                  // d in the activations' type, where that is another
};

}  // namespace atl
