// Non-owning views of memory that a backend owns.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/philox.hpp"

namespace atl {

enum class DType : std::uint8_t {
  kF32,
  kBf16,  // storage only: sums are f32 or wider
  kF64,   // `reference` only: gradient checks by finite differences
};

constexpr std::int64_t bytes_of(DType dtype) {
  return dtype == DType::kF64 ? 8 : dtype == DType::kF32 ? 4 : 2;
}

// "f32", "bf16", "f64": on the command line and in files.
const char* to_string(DType dtype);
// Nothing if no type has this name.
std::optional<DType> dtype_named(std::string_view name);

// The type of parameters, and of their gradients, beside matrices stored as `dtype`: f32 for bf16.
constexpr DType parameter_dtype(DType dtype) { return dtype == DType::kBf16 ? DType::kF32 : dtype; }

// Rows [begin, end).
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// Rows of a matrix start at multiples of so many elements: 16 bytes of bf16, the widest access
// there is, so that an operation can take any number of columns in whole accesses.
inline constexpr std::int64_t kColumnPadding = 8;

// `cols` and the padding behind them. An operation may read padding, but not write it, and what is
// in it reaches no result.
constexpr std::int64_t padded_columns(std::int64_t cols) {
  return (cols + kColumnPadding - 1) / kColumnPadding * kColumnPadding;
}

// Row-major matrix, element (i, j) at data + (i * stride + j) * bytes_of(dtype).
template <typename Void>
struct BasicMatrixView {
  Void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements between row starts, >= cols
  DType dtype = DType::kF32;

  bool absent() const { return data == nullptr && rows == 0 && cols == 0; }
  bool empty() const { return rows == 0 || cols == 0; }
  BasicMatrixView rows_in(RowRange range) const {
    ATOLL_ASSERT(0 <= range.begin && range.begin <= range.end && range.end <= rows,
                 "rows {}..{} of {}", range.begin, range.end, rows);
    return {after(range.begin * stride), range.size(), cols, stride, dtype};
  }
  // Columns [first, first + count) of its rows.
  BasicMatrixView columns_in(std::int64_t first, std::int64_t count) const {
    return {after(first), rows, count, stride, dtype};
  }
  // Typed pointer to the start of row i; T must be the C++ type of dtype.
  template <typename T>
  auto row(std::int64_t i) const {
    using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
    return static_cast<Element*>(data) + i * stride;
  }
  operator BasicMatrixView<const void>() const { return {data, rows, cols, stride, dtype}; }

 private:
  // The address so many elements behind data; null where that is null, in views that are counted.
  Void* after(std::int64_t elements) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    return data == nullptr ? nullptr : static_cast<Byte*>(data) + elements * bytes_of(dtype);
  }
};

using MatrixView = BasicMatrixView<void>;
using ConstMatrixView = BasicMatrixView<const void>;

// Sums are eight bytes each, and zero is all zero bits in every type of them.
template <typename T>
MatrixView eight_byte_view(std::span<T> values) {
  static_assert(sizeof(T) == 8);
  const auto count = static_cast<std::int64_t>(values.size());
  return {values.data(), 1, count, count, DType::kF64};
}

enum class Transpose : std::uint8_t { kNo, kYes };
enum class MaximumOf : std::uint8_t { kFirst, kSecond };

// A backend's preparation of one sparse operator (bins of rows, library descriptors).
class PreparedSparse {
 public:
  virtual ~PreparedSparse() = default;
};

// A sparse matrix with its normalisation kept as row and column factors:
//   S = diag(row_scale) * (A + diag(self_weight)) * diag(col_scale).
// With self_weight, columns [0, rows) are the rows themselves, and [rows, cols) are halo rows.
// An empty span means all ones (row_scale, col_scale, values) or all zeros (self_weight).
struct SparseOperator {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const std::int64_t> row_ptr;  // rows + 1
  std::span<const std::int32_t> col_idx;  // local ids in [0, cols)
  std::span<const float> values;          // nnz
  std::span<const float> row_scale;       // rows
  std::span<const float> col_scale;       // cols
  std::span<const float> self_weight;     // rows
  // From Backend::prepare_spmm of the same backend for this very operator, factors included, or
  // null: any preparation gives the same sums to rounding, only speed differs. It must live until
  // what was queued with it has run.
  const PreparedSparse* prepared = nullptr;
  // For counting alone, where the spans above have lengths but no data: entries of the rows at
  // hand; negative: spread evenly over rows.
  std::int64_t counted_edges = -1;
};

// In-edges by their source: those that leave column j of an operator are
// [row_ptr[j], row_ptr[j + 1]). Edges of a row to itself that with_self adds are not among them.
struct SourceEdges {
  std::span<const std::int64_t> row_ptr;  // op.cols + 1
  std::span<const std::int32_t> targets;  // the row that edge k enters, ascending for each source
  std::span<const std::int64_t> edges;    // its place in the operator's col_idx
  // From Backend::prepare_spmm of row_ptr and targets as an operator of so many rows, or null.
  const PreparedSparse* prepared = nullptr;
};

// The numbers that change from one epoch to the next, in the memory of a backend: operations that
// read it there can be recorded once and replayed in every epoch.
struct EpochState {
  std::uint32_t epoch = 0;       // of the keys of random numbers
  double learning_rate = 0;      // of this step
  double first_correction = 1;   // 1 - beta1^step of Adam
  double second_correction = 1;  // 1 - beta2^step
};

// `key` with the epoch that counts: that of `state`, unless it is null. For code that may read the
// backend's memory.
ATOLL_HOST_DEVICE inline RandomKey key_of_epoch(RandomKey key, const EpochState* state) {
  if (state != nullptr) key.epoch = state->epoch;
  return key;
}

// Dropout of a matrix whose row i is node row_ids[i]; threshold 65536 = no dropout.
struct DropoutSpec {
  RandomKey key;
  DropoutThreshold rate{65536, 1.0F};
  std::span<const GlobalId> row_ids;
  const EpochState* state = nullptr;  // in backend memory; its epoch replaces the key's

  bool active() const { return rate.threshold != 65536; }
  ATOLL_HOST_DEVICE RandomKey key_now() const { return key_of_epoch(key, state); }
};

// f(x) of single elements; NaN stays NaN.
enum class ActivationFunction : std::uint8_t {
  kNone,       // x
  kRelu,       // max(x, 0)
  kLeakyRelu,  // x, or kLeakySlope * x below 0
  kElu,        // x, or exp(x) - 1 below 0 (Clevert et al. 2016, alpha = 1)
  kGelu,       // x Phi(x), Phi of the normal distribution (Hendrycks & Gimpel 2016): no tanh
};
inline constexpr ActivationFunction kActivationFunctions[] = {
    ActivationFunction::kNone, ActivationFunction::kRelu, ActivationFunction::kLeakyRelu,
    ActivationFunction::kElu, ActivationFunction::kGelu};
inline constexpr double kLeakySlope = 0.01;

// "none", "relu", "leaky-relu", "elu", "gelu": on the command line and in files.
const char* to_string(ActivationFunction function);

// The operations behind a convolution, element by element in column j:
//   y = dropout(f((x - mean_j) * inv_std_j * gamma_j + beta_j)).
// Absent parts are skipped; beta alone is a bias. gamma and beta have the parameters' type.
struct Epilogue {
  std::span<const double> mean;     // cols, with inv_std
  std::span<const double> inv_std;  // cols
  ConstMatrixView gamma;            // [1, cols]
  ConstMatrixView beta;             // [1, cols]
  ActivationFunction function = ActivationFunction::kNone;
  DropoutSpec dropout;

  bool identity() const {
    return mean.empty() && gamma.absent() && beta.absent() &&
           function == ActivationFunction::kNone && !dropout.active();
  }
};

// The gradient through dropout(f(.)): dx = kept * scale * f'(x) * dy. What was kept is drawn again,
// but for relu: its output is 0 where either of the two let nothing through. Matrices of one shape
// and type; dx may be dy.
struct ActivationGradient {
  ConstMatrixView from;  // the forward output; of gelu, its input
  MatrixView dx;
  ActivationFunction function = ActivationFunction::kRelu;  // not kNone
  DropoutSpec dropout = {};  // as in the forward pass; of relu only the scale counts

  bool absent() const { return from.absent(); }
};

// The target of softmax cross-entropy beside the label itself, as PyTorch's CrossEntropyLoss
// defines it: with weights w and smoothing s, the loss of a row with label y and C classes is the
// sum over classes c of -a_c log p_c, a_c = (1 - s) w_y [c = y] + s / C w_c. With a focus g,
// without smoothing, it is the focal loss -w_y (1 - p_y)^g log p_y (Lin et al., "Focal Loss for
// Dense Object Detection", ICCV 2017, equation 5).
struct SoftmaxTarget {
  std::span<const float> class_weights;  // [classes], in the backend's memory; empty: 1
  double smoothing = 0;                  // [0, 1)
  double focus = 0;                      // at least 0

  bool label_only() const { return class_weights.empty() && smoothing == 0 && focus == 0; }
};

// Weights and focus of sigmoid cross-entropy: with weights w and focus g, the loss of target y in
// column c is -w_cy (1 - p_y)^g log p_y, where p_1 = sigmoid(logit) and p_0 = 1 - p_1.
struct SigmoidTarget {
  std::span<const float> weights;  // [2 columns]: of target 0 and of 1 for each; empty: 1
  double focus = 0;                // at least 0

  bool target_only() const { return weights.empty() && focus == 0; }
};

// The loss of a number d off its target: d^2, or |d|, whose derivative at 0 is 0.
enum class ErrorMeasure : std::uint8_t { kSquared, kAbsolute };

// Elements [begin, end) of the flat parameter array, which decay alike and have one rate.
struct AdamSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double weight_decay = 0;
  double rate_factor = 1;  // of the step's learning rate
};

// Adam (Kingma & Ba 2015, Algorithm 1). Weight decay is added to the gradient, or, decoupled, takes
// rate * weight_decay of each parameter before the step (Loshchilov & Hutter 2019, Algorithm 2).
struct AdamSpec {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool decoupled = false;
  // Clipping: gradients times min(1, most_norm / (norm + 1e-6)), where norm^2 lies in backend
  // memory. Null: none.
  const double* squared_norm = nullptr;
  double most_norm = 0;
  const EpochState* state = nullptr;      // in backend memory: rate and bias corrections
  std::span<const AdamSegment> segments;  // on the host; cover the whole array, in order

  // For code that may read the backend's memory. A norm that is NaN gives NaN.
  ATOLL_HOST_DEVICE static double clip_factor(double squared_norm, double most_norm) {
    const double factor = most_norm / (std::sqrt(squared_norm) + 1e-6);
    return factor > 1 ? 1 : factor;
  }
};

}  // namespace atl
