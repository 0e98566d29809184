#include "engine/nn/parameters.hpp"

#include <cmath>

namespace atl {

int ParameterStore::declare(std::string name, int layer, std::int64_t rows, std::int64_t cols,
                            Initialisation initialisation) {
  parameters_.push_back({std::move(name), layer, rows, cols, size_});
  initialisations_.push_back(initialisation);
  // Parameters start at multiples of 16 elements, so that each is aligned as the flat array is.
  size_ += (rows * cols + 15) / 16 * 16;
  return static_cast<int>(parameters_.size()) - 1;
}

std::int64_t ParameterStore::bytes() const {
  std::int64_t total = 4 * size_ * bytes_of(dtype_);
  if (has_operands()) total += size_ * bytes_of(operand_dtype_);
  for (const Parameter& parameter : parameters_) {
    if (!is_padded(parameter)) continue;
    total += Tensor(parameter.rows, parameter.cols, operand_dtype_).bytes();
  }
  return total;
}

void ParameterStore::allocate(Backend& backend, Queue& queue, std::uint64_t seed) {
  for (Tensor* flat : {&values_, &gradients_, &first_moments_, &second_moments_}) {
    *flat = Tensor(backend, 1, size_, dtype_);
    backend.fill_zero(queue, flat->view());
  }
  std::vector<double> initial(static_cast<std::size_t>(size_));
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    const RandomKey key{seed, RandomStream::kInit, static_cast<std::uint8_t>(p & 0xFFU),
                        static_cast<std::uint32_t>(p >> 8U)};
    const double limit = std::sqrt(6.0 / static_cast<double>(parameter.rows + parameter.cols));
    for (std::int64_t i = 0; i < parameter.rows; ++i) {
      for (std::int64_t j = 0; j < parameter.cols; ++j) {
        const double uniform =
            random_uniform(key, static_cast<std::uint64_t>(i), static_cast<std::uint32_t>(j));
        initial[parameter.offset + i * parameter.cols + j] =
            initialisations_[p] == Initialisation::kGlorotUniform ? limit * (2 * uniform - 1)
            : initialisations_[p] == Initialisation::kOnes        ? 1.0
                                                                  : 0.0;
      }
    }
  }
  if (dtype_ == DType::kF64) {
    backend.copy(queue, values_.view().data, initial.data(), values_.bytes(),
                 CopyKind::kHostToDevice);
  } else {
    const std::vector<float> narrow(initial.begin(), initial.end());
    backend.copy(queue, values_.view().data, narrow.data(), values_.bytes(),
                 CopyKind::kHostToDevice);
  }
  if (has_operands()) operands_ = Tensor(backend, 1, size_, operand_dtype_);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    if (!is_padded(parameter)) continue;
    padded_operands_[static_cast<int>(p)] =
        Tensor(backend, parameter.rows, parameter.cols, operand_dtype_);
  }
  refresh_operands(backend, queue);
  backend.synchronize(queue);
}

void ParameterStore::refresh_operands(Backend& backend, Queue& queue) {
  if (has_operands()) backend.convert(queue, values_.view(), operands_.view());
  for (auto& [index, operand] : padded_operands_) {
    backend.convert(queue, value(index), operand.view());
  }
}

ConstMatrixView ParameterStore::operand(int index) {
  const auto padded = padded_operands_.find(index);
  if (padded != padded_operands_.end()) return padded->second.view();
  return part(has_operands() ? operands_ : values_, index);
}

MatrixView ParameterStore::part(Tensor& flat, int index) {
  const Parameter& parameter = parameters_[static_cast<std::size_t>(index)];
  const MatrixView row = flat.view();
  return {static_cast<std::byte*>(row.data) + parameter.offset * bytes_of(row.dtype),
          parameter.rows, parameter.cols, parameter.cols, row.dtype};
}

}  // namespace atl
