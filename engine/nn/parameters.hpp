// The trainable parameters of a model: named matrices inside one flat array, so that the gradient
// all-reduce and the optimizer are one operation each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/tensor/tensor.hpp"

namespace atl {

// One parameter: matrix [rows, cols] at `offset` of the flat arrays.
struct Parameter {
  std::string name;  // e.g. "layers.0.weight"
  int layer = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t offset = 0;
};

// How a parameter starts.
enum class Initialisation {
  kGlorotUniform,  // U(-a, a), a = sqrt(6 / (rows + cols)) (Glorot & Bengio 2010, eq. 16)
  kZeros,
  kOnes,
};

class ParameterStore {
 public:
  // dtype: of the activations. Parameters have parameter_dtype() of it. pads_operands: where
  // operands are copies, their rows are padded as those of a Tensor are.
  explicit ParameterStore(DType dtype, bool pads_operands = false)
      : dtype_(parameter_dtype(dtype)), operand_dtype_(dtype), pads_operands_(pads_operands) {}

  // Declares a parameter and returns its index; all are declared before allocate().
  int declare(std::string name, int layer, std::int64_t rows, std::int64_t cols,
              Initialisation initialisation);
  std::int64_t bytes() const;
  // Allocates values, gradients and the two moments of Adam, and initialises them from `seed`: the
  // same values for any world size.
  void allocate(Backend& backend, Queue& queue, std::uint64_t seed);

  const std::vector<Parameter>& list() const { return parameters_; }
  std::int64_t size() const { return size_; }  // elements of a flat array

  MatrixView value(int index) { return part(values_, index); }
  // The parameter in the activations' type, as products with them need it.
  ConstMatrixView operand(int index);
  // After any change of the values: renews the operands.
  void refresh_operands(Backend& backend, Queue& queue);
  MatrixView gradient(int index) { return part(gradients_, index); }
  // Flat arrays [1, size()].
  MatrixView values() { return values_.view(); }
  MatrixView gradients() { return gradients_.view(); }
  MatrixView first_moments() { return first_moments_.view(); }
  MatrixView second_moments() { return second_moments_.view(); }

 private:
  bool has_operands() const { return operand_dtype_ != dtype_; }
  // True if its operand is a tensor of its own, because its rows need padding.
  bool is_padded(const Parameter& parameter) const {
    return has_operands() && pads_operands_ && parameter.rows > 1 &&
           parameter.cols % kColumnPadding != 0;
  }
  MatrixView part(Tensor& flat, int index);

  DType dtype_;
  DType operand_dtype_;
  bool pads_operands_;
  std::vector<Parameter> parameters_;
  std::vector<Initialisation> initialisations_;
  std::int64_t size_ = 0;
  Tensor values_, gradients_, first_moments_, second_moments_;
  Tensor operands_;  // the values in the activations' type, where that is another
  std::map<int, Tensor> padded_operands_;  // by index, beside their unused parts of operands_
};

}  // namespace atl
