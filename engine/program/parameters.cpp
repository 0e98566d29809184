#include "engine/program/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/bf16.hpp"

namespace atl {

namespace {

// Each starts at a multiple of 16 elements, so that it is aligned as the flat array is.
std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }

// `count` matrices, one below the other, as one in each row.
MatrixView in_rows(MatrixView stacked, std::int64_t count) {
  const std::int64_t each = stacked.rows / count * stacked.cols;
  return {stacked.data, count, each, each, stacked.dtype};
}

}  // namespace

RowRange DeclaredParameter::block(std::int64_t k) const {
  if (heights.empty()) return {k * (rows / stacked), (k + 1) * (rows / stacked)};
  const auto end = heights.begin() + k;
  const std::int64_t first = std::accumulate(heights.begin(), end, std::int64_t{0});
  return {first, first + *end};
}

void ParameterSizes::add(std::int64_t rows, std::int64_t cols) {
  values_ += aligned(rows * cols);
  add_operand(rows, cols);
}

void ParameterSizes::add_composed(std::int64_t rows, std::int64_t cols,
                                  const Composition& composition) {
  composed_ += aligned(rows * cols);
  if (composition.is_operand()) add_operand(rows, cols);
}

void ParameterSizes::add_operand(std::int64_t rows, std::int64_t cols) {
  operands_ += aligned(rows * (pads(rows, cols) ? padded_columns(cols) : cols));
}

std::int64_t ParameterSizes::bytes(DType dtype) const {
  const DType own = parameter_dtype(dtype);
  return (4 * values_ + 2 * composed_) * bytes_of(own) +
         (own != dtype ? operands_ * bytes_of(dtype) : 0);
}

int ParameterStore::declare(const DeclaredParameter& declared, std::span<const GlobalId> ids) {
  ATOLL_ASSERT(!has_per_node(), "{}", declared.name);
  Parameter parameter{declared};
  parameter.operand_offset = sizes_.operands();
  if (declared.composition.present()) {
    parameter.offset = sizes_.composed();
    parameter.is_weight = declared.composition.is_operand();
    sizes_.add_composed(declared.rows, declared.columns, declared.composition);
  } else {
    if (declared.per_node) {
      node_ids_ = ids;
      shared_size_ = size();
      parameter.rows = std::ssize(ids);
      parameter.stacked = std::max<std::int64_t>(parameter.rows, 1);
    }
    parameter.offset = sizes_.values();
    parameter.is_weight = declared.initialisation == Initialisation::kGlorotUniform;
    sizes_.add(parameter.rows, parameter.columns);
    trained_.push_back(parameter);
  }
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

void ParameterStore::allocate(Backend& backend, Queue& queue, std::uint64_t seed) {
  for (Tensor* flat : {&values_, &gradients_, &first_moments_, &second_moments_}) {
    *flat = Tensor(backend, 1, size(), dtype_);
    backend.run(queue, kernels::FillZero{flat->view()});
  }
  if (has_composed()) {
    for (Tensor* flat : {&composed_values_, &composed_gradients_}) {
      *flat = Tensor(backend, 1, sizes_.composed(), dtype_);
      backend.run(queue, kernels::FillZero{flat->view()});
    }
  }
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    if (!parameters_[p].composition.present()) initialise(backend, queue, seed, p);
  }
  if (has_operands()) operands_ = Tensor(backend, 1, sizes_.operands(), operand_dtype_);
  refresh_operands(backend, queue);
  backend.synchronize(queue);
}

// Some rows at a time: those of nodes may be many.
void ParameterStore::initialise(Backend& backend, Queue& queue, std::uint64_t seed,
                                std::size_t index) {
  constexpr std::int64_t kBlockElements = std::int64_t{1} << 22U;
  const Parameter& parameter = parameters_[index];
  const RandomKey key{seed, RandomStream::kInit, static_cast<std::uint8_t>(index & 0xFFU),
                      static_cast<std::uint32_t>(index >> 8U)};
  const auto limit_of = [&](RowRange matrix) {
    return std::sqrt(6.0 / static_cast<double>(matrix.size() + parameter.columns));
  };
  std::int64_t number = 0;
  RowRange matrix = parameter.block(number);  // the one of those stacked that a row belongs to
  double limit = limit_of(matrix);
  const auto start = [&](std::int64_t row, std::int64_t column) {
    switch (parameter.initialisation) {
      case Initialisation::kGlorotUniform: {
        const double uniform = random_uniform(key, static_cast<std::uint64_t>(row),
                                              static_cast<std::uint32_t>(column));
        return limit * (2 * uniform - 1);
      }
      case Initialisation::kOnes:
        return 1.0;
      case Initialisation::kStart:
        return parameter.start;
      default:
        return 0.0;
    }
  };
  const MatrixView values = value(static_cast<int>(index));
  const std::int64_t block = std::max<std::int64_t>(1, kBlockElements / parameter.columns);
  std::vector<double> wide;
  std::vector<float> narrow;
  for (std::int64_t begin = 0; begin < parameter.rows; begin += block) {
    const MatrixView rows = values.rows_in({begin, std::min(begin + block, parameter.rows)});
    wide.resize(static_cast<std::size_t>(rows.rows * rows.cols));
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      while (begin + i >= matrix.end) {
        matrix = parameter.block(++number);
        limit = limit_of(matrix);
      }
      const std::int64_t row =
          parameter.per_node ? to_index(node_ids_[static_cast<std::size_t>(begin + i)]) : begin + i;
      for (std::int64_t j = 0; j < rows.cols; ++j) wide[i * rows.cols + j] = start(row, j);
    }
    narrow.assign(wide.begin(), wide.end());
    const void* const from = dtype_ == DType::kF64 ? static_cast<const void*>(wide.data())
                                                   : static_cast<const void*>(narrow.data());
    backend.copy(queue, rows.data, from, rows.rows * rows.cols * bytes_of(dtype_),
                 CopyKind::kHostToDevice);
  }
}

MatrixView ParameterStore::shared_gradients() {
  MatrixView shared = gradients();
  shared.cols = shared.stride = shared_size();
  return shared;
}

MatrixView ParameterStore::node_gradients() {
  ATOLL_ASSERT(has_per_node());
  return gradient(static_cast<int>(parameters_.size()) - 1);
}

template <typename Body>
void ParameterStore::for_composed(Tensor& flat, const Body& body) {
  for (int index = 0; index < static_cast<int>(parameters_.size()); ++index) {
    const Composition& composition = at(index).composition;
    if (!composition.present()) continue;
    const MatrixView coefficients = part(flat, composition.coefficients);
    const MatrixView bases = part(flat, composition.bases);
    if (composition.per_head) {
      body(part(flat, index), composition, bases);
    } else {
      body(in_rows(part(flat, index), coefficients.rows), composition,
           in_rows(bases, coefficients.cols));
    }
  }
}

void ParameterStore::zero_gradients(Backend& backend, Queue& queue) {
  backend.run(queue, kernels::FillZero{gradients()});
  if (has_composed()) backend.run(queue, kernels::FillZero{composed_gradients_.view()});
}

void ParameterStore::add_composed_gradients(Backend& backend, Queue& queue) {
  for_composed(gradients_, [&](MatrixView composed, const Composition& of, MatrixView bases) {
    const MatrixView values = in_rows(value(of.bases), bases.rows);
    if (of.per_head) {
      // No other operation adds to the gradient of these bases.
      backend.run(queue,
                  kernels::HeadDotsBackward{composed, values, in_rows(value(of.coefficients), 1),
                                            bases, in_rows(gradient(of.coefficients), 1)});
      return;
    }
    backend.run(queue, kernels::Gemm{Transpose::kYes, value(of.coefficients), Transpose::kNo,
                                     composed, 1, bases});
    backend.run(queue, kernels::Gemm{Transpose::kNo, composed, Transpose::kYes, values, 1,
                                     gradient(of.coefficients)});
  });
}

void ParameterStore::refresh_operands(Backend& backend, Queue& queue) {
  for_composed(values_, [&](MatrixView composed, const Composition& of, MatrixView bases) {
    if (of.per_head) {
      backend.run(queue, kernels::HeadDots{bases, in_rows(value(of.coefficients), 1), composed});
      return;
    }
    backend.run(queue, kernels::Gemm{Transpose::kNo, value(of.coefficients), Transpose::kNo, bases,
                                     0, composed});
  });
  if (!has_operands()) return;
  const auto lies_alone = [&](const Parameter& parameter) {
    return is_padded(parameter) || (parameter.composition.present() && parameter.is_weight);
  };
  const auto count = static_cast<int>(parameters_.size());
  for (int first = 0, next = 0; first < count; first = next) {
    const Parameter& parameter = at(first);
    next = first + 1;
    if (!parameter.is_weight) continue;
    MatrixView from = value(first);
    MatrixView to = operand_copy(parameter);
    if (!lies_alone(parameter)) {
      // All up to the next one that does lie alike in both arrays: one conversion, with what is
      // between the weights.
      int latest = first;
      for (; next < count && !lies_alone(at(next)); ++next) {
        if (!at(next).composition.present()) latest = next;
      }
      const Parameter& last = at(latest);
      const std::int64_t end = last.offset + aligned(last.rows * last.columns);
      const std::int64_t elements = end - parameter.offset;
      from = {from.data, 1, elements, elements, dtype_};
      to = {to.data, 1, elements, elements, operand_dtype_};
    }
    backend.run(queue, kernels::Convert{from, to});
  }
}

ConstMatrixView ParameterStore::operand(int index) {
  const Parameter& parameter = at(index);
  ATOLL_ASSERT(parameter.is_weight, "{}", parameter.name);
  return has_operands() ? operand_copy(parameter) : value(index);
}

MatrixView ParameterStore::operand_copy(const Parameter& parameter) {
  return {
      operands_.view().row<Bf16>(0) + parameter.operand_offset, parameter.rows, parameter.columns,
      is_padded(parameter) ? padded_columns(parameter.columns) : parameter.columns, operand_dtype_};
}

MatrixView ParameterStore::part(Tensor& flat, int index) {
  const Parameter& parameter = at(index);
  const bool composed = parameter.composition.present();
  ATOLL_ASSERT(&flat == &values_ || &flat == &gradients_);
  Tensor& array = !composed ? flat : &flat == &values_ ? composed_values_ : composed_gradients_;
  const MatrixView row = array.view();
  return {static_cast<std::byte*>(row.data) + parameter.offset * bytes_of(row.dtype),
          parameter.rows, parameter.columns, parameter.columns, row.dtype};
}

}  // namespace atl
