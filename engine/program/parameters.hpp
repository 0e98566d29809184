// The trainable parameters of a model: named matrices inside one flat array, so that the gradient
// all-reduce and the optimizer are one operation each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "engine/tensor/tensor.hpp"

namespace atl {

// A weight that is made of two others: K matrices stacked one below the other, each a sum of B
// bases with factors of its own, coefficients [K, B]. Both are parameters, the bases stacked as it
// is.
struct Composition {
  int coefficients = -1;
  int bases = -1;
  // Instead [K, heads]: rows of bases [K, columns of heads], of each head the product with its row
  // of coefficients.
  bool per_head = false;

  bool present() const { return bases >= 0; }
  // False if only products in the parameters' own type read it.
  bool is_operand() const { return !per_head; }
};

// How a parameter starts.
enum class Initialisation {
  // Weights: U(-a, a), a = sqrt(6 / (rows + columns)) (Glorot & Bengio 2010, eq. 16).
  kGlorotUniform,
  kZeros,
  kOnes,
  kStart,  // a number that was given
};

// A matrix [rows, columns] of a program, wherever it lies.
struct DeclaredParameter {
  std::string name;  // e.g. "layers.0.weight"
  int layer = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Initialisation initialisation = Initialisation::kZeros;
  std::int64_t stacked = 1;  // matrices, one below the other, initialised as if each stood alone
  std::vector<std::int64_t> heights = {};  // rows of each of these; empty: all have equally many
  double start = 0;                        // of Initialisation::kStart
  Composition composition = {};
  // A row for each node of the graph, the last parameter: ranks have those of their own nodes.
  bool per_node = false;

  // Rows of matrix k of those that are stacked.
  RowRange block(std::int64_t k) const;
};

// One parameter of a rank: at `offset` of the flat arrays, or, composed, of arrays that only hold
// such. per_node: a row per node of this rank.
struct Parameter : DeclaredParameter {
  std::int64_t offset = 0;
  std::int64_t operand_offset = 0;  // in the flat array of copies
  // A factor of products, which may read a copy of it (an operand); else it is a row of factors or
  // terms of columns.
  bool is_weight = false;
};

// How many elements parameters have in flat arrays, gaps included. Where weights are copied for
// products with rows that are padded, those copies have gaps of their own.
class ParameterSizes {
 public:
  explicit ParameterSizes(bool pads_operands) : pads_operands_(pads_operands) {}
  void add(std::int64_t rows, std::int64_t cols);
  void add_composed(std::int64_t rows, std::int64_t cols, const Composition& composition);
  std::int64_t values() const { return values_; }      // of those that are trained
  std::int64_t composed() const { return composed_; }  // of the others
  std::int64_t operands() const { return operands_; }
  // Bytes that all of them take, with gradients and two moments, beside activations stored as
  // `dtype`.
  std::int64_t bytes(DType dtype) const;
  // True if the copy of a matrix of this shape has padded rows.
  bool pads(std::int64_t rows, std::int64_t cols) const {
    return pads_operands_ && rows > 1 && cols % kColumnPadding != 0;
  }

 private:
  void add_operand(std::int64_t rows, std::int64_t cols);

  bool pads_operands_;
  std::int64_t values_ = 0;
  std::int64_t composed_ = 0;
  std::int64_t operands_ = 0;
};

class ParameterStore {
 public:
  // dtype: of the activations. Parameters have parameter_dtype() of it. pads_operands: where
  // operands are copies, their rows are padded as those of a Tensor are.
  explicit ParameterStore(DType dtype, bool pads_operands = false)
      : dtype_(parameter_dtype(dtype)), operand_dtype_(dtype), sizes_(pads_operands) {}

  // Declares a parameter and returns its index; all are declared before allocate(). A composed one
  // comes behind what it is made of, and is not trained, saved or summed over ranks itself. One per
  // node comes last, with a row for each of `ids` (host memory that must outlive this), which
  // starts by the node's id; gradients of all others are summed over ranks.
  int declare(const DeclaredParameter& declared, std::span<const GlobalId> ids = {});
  std::int64_t bytes() const { return sizes_.bytes(operand_dtype_); }
  // Allocates values, gradients and the two moments of Adam, and initialises them from `seed`: the
  // same values for any world size.
  void allocate(Backend& backend, Queue& queue, std::uint64_t seed);

  const std::vector<Parameter>& list() const { return trained_; }  // all but composed ones
  std::int64_t size() const { return sizes_.values(); }            // elements of a flat array
  DType dtype() const { return dtype_; }                           // of flat arrays
  bool has_per_node() const { return shared_size_ >= 0; }
  // Elements of shared_gradients(), and where a parameter's begin among them.
  std::int64_t shared_size() const { return has_per_node() ? shared_size_ : size(); }
  std::int64_t offset(int index) const { return at(index).offset; }
  std::span<const GlobalId> node_ids() const { return node_ids_; }  // whose rows are here

  // Rows of matrix k of a parameter that has several, one below the other.
  RowRange block(int index, std::int64_t k) const { return at(index).block(k); }
  MatrixView value(int index) { return part(values_, index); }
  // A weight in the activations' type, as products with them need it.
  ConstMatrixView operand(int index);
  // After any change of the values: renews composed weights and the operands.
  void refresh_operands(Backend& backend, Queue& queue);
  MatrixView gradient(int index) { return part(gradients_, index); }
  void zero_gradients(Backend& backend, Queue& queue);
  bool has_composed() const { return sizes_.composed() > 0; }
  // Adds what the gradients of composed weights say of bases and coefficients.
  void add_composed_gradients(Backend& backend, Queue& queue);
  // Flat arrays [1, size()].
  MatrixView values() { return values_.view(); }
  MatrixView gradients() { return gradients_.view(); }
  // Parts of gradients(): what all ranks have alike, and the rest.
  MatrixView shared_gradients();
  MatrixView node_gradients();
  // operand() of the parameters of nodes: in the same place for good.
  ConstMatrixView node_operand() { return operand(static_cast<int>(parameters_.size()) - 1); }
  MatrixView first_moments() { return first_moments_.view(); }
  MatrixView second_moments() { return second_moments_.view(); }

 private:
  void initialise(Backend& backend, Queue& queue, std::uint64_t seed, std::size_t index);
  bool has_operands() const { return operand_dtype_ != dtype_; }
  bool is_padded(const Parameter& parameter) const {
    return sizes_.pads(parameter.rows, parameter.columns);
  }
  // `flat` is values_ or gradients_.
  MatrixView part(Tensor& flat, int index);
  const Parameter& at(int index) const { return parameters_[static_cast<std::size_t>(index)]; }
  // Calls body(composed, coefficients, bases), each of these two rows of a matrix per row.
  template <typename Body>
  void for_composed(Tensor& flat, const Body& body);
  MatrixView operand_copy(const Parameter& parameter);

  DType dtype_;
  DType operand_dtype_;
  ParameterSizes sizes_;
  std::vector<Parameter> parameters_;
  std::vector<Parameter> trained_;
  std::span<const GlobalId> node_ids_;
  std::int64_t shared_size_ = -1;  // elements before those of nodes; -1: there are none
  Tensor values_, gradients_, first_moments_, second_moments_;
  Tensor composed_values_, composed_gradients_;
  Tensor operands_;  // weights in the activations' type, where that is another
};

}  // namespace atl
