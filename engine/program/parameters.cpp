#include "engine/program/parameters.hpp"

#include <cmath>

#include "kernels/bf16.hpp"

namespace atl {

void ParameterSizes::add(std::int64_t rows, std::int64_t cols) {
  // Each starts at a multiple of 16 elements, so that it is aligned as the flat array is.
  const auto aligned = [](std::int64_t elements) { return (elements + 15) / 16 * 16; };
  values_ += aligned(rows * cols);
  operands_ += aligned(rows * (pads(rows, cols) ? padded_columns(cols) : cols));
}

std::int64_t ParameterSizes::bytes(DType dtype) const {
  const DType own = parameter_dtype(dtype);
  return 4 * values_ * bytes_of(own) + (own != dtype ? operands_ * bytes_of(dtype) : 0);
}

int ParameterStore::declare(std::string name, int layer, std::int64_t rows, std::int64_t cols,
                            Initialisation initialisation) {
  const bool is_weight = initialisation == Initialisation::kGlorotUniform;
  parameters_.push_back(
      {std::move(name), layer, rows, cols, sizes_.values(), is_weight, sizes_.operands()});
  initialisations_.push_back(initialisation);
  sizes_.add(rows, cols);
  return static_cast<int>(parameters_.size()) - 1;
}

void ParameterStore::allocate(Backend& backend, Queue& queue, std::uint64_t seed) {
  for (Tensor* flat : {&values_, &gradients_, &first_moments_, &second_moments_}) {
    *flat = Tensor(backend, 1, size(), dtype_);
    backend.fill_zero(queue, flat->view());
  }
  std::vector<double> initial(static_cast<std::size_t>(size()));
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
  if (has_operands()) operands_ = Tensor(backend, 1, sizes_.operands(), operand_dtype_);
  refresh_operands(backend, queue);
  backend.synchronize(queue);
}

void ParameterStore::refresh_operands(Backend& backend, Queue& queue) {
  if (!has_operands()) return;
  const auto count = static_cast<int>(parameters_.size());
  for (int first = 0, next = 0; first < count; first = next) {
    const Parameter& parameter = parameters_[static_cast<std::size_t>(first)];
    next = first + 1;
    if (!parameter.is_weight) continue;
    MatrixView from = value(first);
    MatrixView to = operand_copy(parameter);
    if (!is_padded(parameter)) {
      // All up to the next padded one lie alike in both arrays: one conversion, with what is
      // between the weights.
      while (next < count && !is_padded(parameters_[static_cast<std::size_t>(next)])) ++next;
      const std::int64_t end =
          next < count ? parameters_[static_cast<std::size_t>(next)].offset : size();
      const std::int64_t elements = end - parameter.offset;
      from = {from.data, 1, elements, elements, dtype_};
      to = {to.data, 1, elements, elements, operand_dtype_};
    }
    backend.convert(queue, from, to);
  }
}

ConstMatrixView ParameterStore::operand(int index) {
  const Parameter& parameter = parameters_[static_cast<std::size_t>(index)];
  ATOLL_ASSERT(parameter.is_weight, "{}", parameter.name);
  return has_operands() ? operand_copy(parameter) : value(index);
}

MatrixView ParameterStore::operand_copy(const Parameter& parameter) {
  return {operands_.view().row<Bf16>(0) + parameter.operand_offset, parameter.rows, parameter.cols,
          is_padded(parameter) ? padded_columns(parameter.cols) : parameter.cols, operand_dtype_};
}

MatrixView ParameterStore::part(Tensor& flat, int index) {
  const Parameter& parameter = parameters_[static_cast<std::size_t>(index)];
  const MatrixView row = flat.view();
  return {static_cast<std::byte*>(row.data) + parameter.offset * bytes_of(row.dtype),
          parameter.rows, parameter.cols, parameter.cols, row.dtype};
}

}  // namespace atl
