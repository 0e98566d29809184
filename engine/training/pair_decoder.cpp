#include "engine/training/pair_decoder.hpp"

#include <algorithm>

namespace atl {

PairDecoder::PairDecoder(const Rank& rank, ParameterStore& parameters, const Program& program,
                         const ModelConfig& model)
    : rank_(rank),
      parameters_(parameters),
      dropout_(dropout_threshold(model.decoder_dropout)),
      columns_(model.outputs),
      dtype_(model.dtype) {
  const auto index_of = [&](const std::string& name) {
    const auto found =
        std::ranges::find(program.parameters, name, [](const auto& p) { return p.name; });
    ATOLL_ASSERT(found != program.parameters.end(), "no parameter {}", name);
    return static_cast<int>(found - program.parameters.begin());
  };
  for (int l = 0; l < model.decoder_layers; ++l) {
    const DecoderNames names = decoder_names(l);
    layers_.push_back({index_of(names.weight), index_of(names.bias)});
  }
}

DropoutSpec PairDecoder::dropout_of(std::size_t layer) const {
  if (pair_ids_.empty()) return {};
  return {{rank_.seed, RandomStream::kDecoderDropout, static_cast<std::uint8_t>(layer),
           static_cast<std::uint32_t>(epoch_)},
          dropout_,
          pair_ids_};
}

void PairDecoder::score(ConstMatrixView z, std::span<const LocalId> first,
                        std::span<const LocalId> second, std::span<const GlobalId> pair_ids,
                        int epoch, MatrixView scores) {
  pairs_ = std::ssize(first);
  pair_ids_ = pair_ids;
  epoch_ = epoch;
  if (inputs_.empty() || inputs_.front().rows() < pairs_) {
    inputs_.clear();
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      inputs_.emplace_back(rank_.backend, pairs_, columns_, dtype_);
    }
  }
  rank_.backend.run(rank_.queue, kernels::PairProducts{z, first, z, second, input(0)});
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const bool is_last = l + 1 == layers_.size();
    Epilogue epilogue;
    epilogue.beta = parameters_.value(layers_[l].bias);
    if (!is_last) {
      epilogue.function = ActivationFunction::kRelu;
      epilogue.dropout = dropout_of(l);
    }
    rank_.backend.run(rank_.queue, kernels::Gemm{Transpose::kNo, input(l), Transpose::kNo,
                                                 parameters_.operand(layers_[l].weight), 0,
                                                 is_last ? scores : input(l + 1), epilogue});
  }
}

ConstMatrixView PairDecoder::backward(ConstMatrixView d) {
  ATOLL_ASSERT(d.rows == pairs_ && d.cols == 1, "{} scores of {} pairs", d.rows, pairs_);
  if (gradients_.empty() || gradients_.front().rows() < pairs_) {
    gradients_.clear();
    for (int i = 0; i < 2; ++i) gradients_.emplace_back(rank_.backend, pairs_, columns_, dtype_);
    narrow_ = d.dtype == dtype_ ? Tensor() : Tensor(rank_.backend, pairs_, 1, dtype_);
  }
  ConstMatrixView dy = d;
  if (d.dtype != dtype_) {
    const MatrixView narrow = narrow_.view().rows_in({0, pairs_});
    rank_.backend.run(rank_.queue, kernels::Convert{d, narrow});
    dy = narrow;
  }
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const auto [weight, bias] = layers_[l];
    rank_.backend.run(rank_.queue, kernels::Gemm{Transpose::kYes, input(l), Transpose::kNo, dy, 1,
                                                 parameters_.gradient(weight)});
    rank_.backend.run(rank_.queue,
                      kernels::ColumnSums{dy, /*accumulate=*/true, parameters_.gradient(bias)});
    const MatrixView dx = gradients_[l % 2].view().rows_in({0, pairs_});
    rank_.backend.run(rank_.queue, kernels::Gemm{Transpose::kNo, dy, Transpose::kYes,
                                                 parameters_.operand(weight), 0, dx});
    if (l > 0) {
      rank_.backend.run(rank_.queue,
                        kernels::ActivationBackward{
                            dx, {input(l), dx, ActivationFunction::kRelu, dropout_of(l - 1)}});
    }
    dy = dx;
  }
  return dy;
}

std::int64_t PairDecoder::bytes(std::int64_t pairs) const {
  const std::int64_t matrices = std::ssize(layers_) + 2;
  return std::min(pairs, kMostPairs) * matrices * padded_columns(columns_) * bytes_of(dtype_);
}

}  // namespace atl
