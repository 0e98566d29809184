// Writes the forward half of a program: what models are described with.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.hpp"

namespace atl {

// Multiply by the weight before the aggregate (F_out columns travel) or after it (F_in columns).
enum class MultiplyOrder { kMultiplyFirst, kAggregateFirst };

// The algebra of one layer, as a plan fixes it.
struct LayerOrder {
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool cache_aggregate = false;  // has no effect where S x changes or the layer multiplies first
  bool operator==(const LayerOrder&) const = default;
};

// Which of two passes of a model is written: both have the same parameters, in the same order.
enum class Pass : std::uint8_t {
  kTraining,    // dropout; batch norm by the statistics of this pass
  kEvaluation,  // no dropout; batch norm by the running statistics
};

class Builder {
 public:
  // orders: by layer, see propagate(). input_dropout > 0: no value is constant, in no pass, so that
  // all keep the same ones.
  Builder(Pass pass, std::int64_t features, std::vector<LayerOrder> orders, double input_dropout);

  // What the first layer gets: the features of the dataset [nodes, features], through dropout.
  Value input() const { return input_; }
  // Operations from here on belong to layer `layer`; its parameters are called "layers.N. ...".
  void begin_layer(int layer);
  // The layer's result; what it reads must be of this layer or of earlier ones.
  void end_layer(Value output) { program_.layer_outputs.push_back(output); }

  // A weight of as many rows as x has columns, Glorot-uniform.
  Value weight(const std::string& name, Value x, std::int64_t columns);
  Value linear(Value x, Value weight);  // x W
  // S x; S: see Normalisation.
  Value aggregate(Normalisation normalisation, Value x);
  // S x W: (S x) W or S (x W), as the layer's order says.
  Value propagate(Normalisation normalisation, Value x, Value weight);
  Value combine(float u, Value a, float v, Value b);  // u a + v b
  Value add(Value a, Value b) { return combine(1, a, 1, b); }
  Value bias(Value x);  // x + b with a new parameter "bias" that starts at 0
  Value relu_dropout(Value x, double dropout);
  Value layer_norm(Value x);  // epsilon 1e-5; parameters "norm.weight" and "norm.bias"
  Value batch_norm(Value x);  // epsilon 1e-5, momentum 0.1, unbiased running variance; the same

  std::int64_t columns(Value x) const { return program_.at(x).columns; }
  // The program; outputs of an evaluation are the logits and what the last layer gets.
  Program finish();

 private:
  Value append(Operation operation);
  Value parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                  Initialisation initialisation);
  bool is_constant(Value x) const;

  Pass pass_;
  std::vector<LayerOrder> orders_;
  bool has_constants_;
  Program program_;
  Value input_ = kNoValue;
  Value copy_ = kNoValue;  // of the features
  int layer_ = -1;
  int channels_ = 0;
};

}  // namespace atl
