// Writes the forward half of a program: what models are described with.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.hpp"

namespace atl {

// A plan's decisions about the layers of a model, or how the builder does without one.
enum class OrderChoice { kAuto, kMultiplyFirst, kAggregateFirst };
struct AlgebraChoice {
  OrderChoice choice = OrderChoice::kAuto;
  bool cache_aggregate = true;             // keep aggregates of constants
  std::vector<LayerAlgebra> planned = {};  // by layer, instead of the two above; empty: none
};

// Which of two passes of a model is written: both have the same parameters, in the same order.
enum class Pass : std::uint8_t {
  kTraining,    // dropout; batch norm by the statistics of this pass
  kEvaluation,  // no dropout; batch norm by the running statistics
};

// How much edges of the dataset have: an operation that reads it must name as many.
inline constexpr std::int64_t kAnyCount = -1;
struct EdgeCounts {
  std::int64_t relations = kAnyCount;
  std::int64_t features = kAnyCount;
};

// As errors name it: "layer 0 (gcn)", or "layer 0" without a convolution's name.
std::string name_of_layer(int layer, const std::string& convolution);

// Arguments that don't fit, such as columns that differ, are Error{kOption} of every operation; it
// names the layer, its convolution, the operation, what was found and what is needed.
class Builder {
 public:
  // input_dropout > 0: no value is constant, in no pass, so that all keep the same ones.
  // trains_nodes: the features are parameters, see declare_node_parameters().
  Builder(Pass pass, std::int64_t features, AlgebraChoice algebra, double input_dropout,
          EdgeCounts edges = {}, bool trains_nodes = false);

  // Writes a program of pairs for embeddings that a model gives, of so many columns, instead: its
  // input is these, and its parameters are numbered behind those of the model.
  Builder(Pass pass, const Program& model, std::int64_t columns);

  // The features [nodes, features], of the dataset or trained, through dropout. What reads them
  // before the first layer has parameters called "input. ...".
  Value input() const { return input_; }
  // Operations from here on belong to the next layer; its parameters are called "layers.N. ...".
  // It reads values of its own or of earlier layers. convolution: its name, for errors.
  void begin_layer(const std::string& convolution = "");
  void end_layer(Value output);
  // Operations from here on come after the last layer; their parameters are called "head. ...".
  void begin_head();
  // Operations from here on belong to the next layer of the decoder that a program of pairs is, as
  // those before the first call belong to layer 0; their parameters are called "decoder.N. ...".
  void begin_decoder_layer();

  // A weight of as many rows as x has columns, Glorot-uniform. Parameters of a layer have different
  // names: Error{kOption}.
  Value weight(const std::string& name, Value x, std::int64_t columns);
  // So many of them, one below the other.
  Value stacked_weight(const std::string& name, std::int64_t count, Value x, std::int64_t columns);
  // The same, each a sum of `bases` matrices with factors of its own (Schlichtkrull et al. 2018,
  // eq. 3): parameters "bases" and "coefficients".
  Value composed_weight(const std::string& name, std::int64_t count, std::int64_t bases, Value x,
                        std::int64_t columns);
  Value linear(Value x, Value weight);  // x W
  // x_v W_t + b_t, t the type of node v: parameters "weight", a matrix per type, one below the
  // other, and "bias", a row per type. Before the first layer, of the features, of which nodes of
  // type t have only the first widths[t] columns; the others are 0.
  Value linear_by_type(Value x, std::span<const std::int64_t> widths, std::int64_t columns);
  // S x; S: see Normalisation. Throws Error{kOption} above kMostChannels of them.
  Value aggregate(Normalisation normalisation, Value x);
  // The means over in-neighbours along edges of each of so many types, side by side: relation after
  // relation as many columns as x has. Only a product may read them.
  Value aggregate_relations(Value x, std::int64_t relations);
  // Numbers of in-neighbours, pooled in each column. No other aggregate may read x. sharpness: a
  // scalar() instead of that of `spec`, or none.
  Value pool(const PoolSpec& spec, Value x, Value sharpness = kNoValue);
  // The sum over in-edges e: j -> i of relu(x_j + f_e W + b), where f_e are so many features of the
  // edge: parameters "edge_weight" and "edge_bias". x is a value that no other aggregate reads.
  Value aggregate_edges(Value x, std::int64_t features);
  // S x W: (S x) W or S (x W), as the layer's order says: the one that a plan fixes, or that which
  // moves fewer columns across the cut in one epoch, backward included, and at a tie keeps less
  // memory.
  Value propagate(Normalisation normalisation, Value x, Value weight);
  // Attention of every node over its in-neighbours (kernels/attention.hpp). z holds what is
  // weighted, H C columns; t what scores read of the target: as many columns as z, or, of the
  // additive score, H: head_dots of a vector of its own. vector: the weight of the score, none of
  // the dot product. z is a value that no other aggregate reads. A layer may draw dropout of
  // coefficients once: its number, which this sets, keys what falls.
  // of_edges: what features of edges take part by, of additive edge_scores() with the same options,
  // of gatv2 edge_weight(); or none.
  Value attend(AttentionOptions options, Value z, Value t, Value vector, Value of_edges = kNoValue);
  // A new parameter "edge_weight", from so many features of edges to the columns of x.
  Value edge_weight(std::int64_t features, Value x);
  // The share of so many features of edges that they add to the additive score of rows z: <a, f_e
  // W> per head, parameters "edge_weight" (W, of as many columns as z) and "attention_edge" (a). A
  // row's edge to itself has the mean of the features of its other in-edges.
  Value edge_scores(AttentionOptions options, Value z, std::int64_t features);
  // A weight with a row per head, for x of as many columns as all its rows together.
  Value head_vector(const std::string& name, Value x, int heads);
  Value head_dots(Value x, Value vector, int heads);  // [nodes, heads]
  // x [nodes, H C] -> [nodes, H C]: each head's C columns times a matrix of its own. The H matrices
  // are a new parameter [H C, C], one below the other.
  Value head_linear(const std::string& name, Value x, int heads);
  Value head_mean(Value x, int heads);                // of x's columns, as many as a head has
  Value combine(float u, Value a, float v, Value b);  // u a + v b
  Value add(Value a, Value b) { return combine(1, a, 1, b); }
  // Sum of x_k W_k, as the concatenation of all x_k times one matrix, which holds the W_k one below
  // the other: a new weight.
  Value linear_of_all(const std::string& name, const std::vector<Value>& x, std::int64_t columns);
  Value bias(Value x, const std::string& name = "bias");  // x + b, b a new parameter, at first 0
  // dropout(f(x)), in an evaluation f(x); x itself where that is all. A layer may draw dropout
  // once: its number keys what falls.
  Value activate(Value x, ActivationFunction function, double dropout);
  Value dropout(Value x, double rate) { return activate(x, ActivationFunction::kNone, rate); }
  Value maximum(Value a, Value b);  // element by element; gradients of ties go to a
  // A trained number that starts at 0 or 1; or at `start`.
  Value scalar(const std::string& name, Initialisation initialisation);
  Value scalar(const std::string& name, double start);
  Value scale(Value x, Value scalar);  // e x
  // Rows times out-degree^-1/2 or in-degree^1/2, degrees counted as attention with `with_self` goes
  // along edges (DegreeFactors).
  Value scale_by_degree(Value x, DegreeRoot root, bool with_self);
  // An operation on rows that is a program's own, by its rule, from inputs [nodes, any] to
  // [nodes, columns]. numbers: what the rule finds in its attributes (OwnNumbers). Error{kOption}
  // for a rule that does more than work on rows, or lacks a gradient that is needed.
  Value own_operation(const Rule& rule, std::vector<Value> inputs, std::int64_t columns,
                      std::vector<double> numbers = {});
  // Epsilon 1e-5; parameters "norm.weight" and "norm.bias".
  Value layer_norm(Value x, const std::string& name = "norm");
  // The same; momentum 0.1, unbiased running variance.
  Value batch_norm(Value x, const std::string& name = "norm");

  // In a program of pairs, whose operations on rows work on pairs: the products of the embeddings
  // of their ends, element by element, or their inner products, which are scores().
  Value pair_products();
  Value pair_dots();
  // x as a loss or a ranking of pairs reads it: in the parameters' type, without gaps.
  Value scores(Value x);

  std::int64_t columns(Value x) const;
  // True of a value of this program that is a matrix with a row per node, or pair, which any
  // operation reads.
  bool has_rows(Value x) const;
  // True if the last thing begun is this layer.
  bool is_in_layer(std::size_t number) const;
  // The program. logits [nodes, classes]. Outputs of an evaluation are the logits and the
  // embeddings: what the last layer gets or, where there is a head, what the layers give.
  Program finish(Value logits, Value embeddings);
  // The program of pairs; scores [pairs, 1].
  Program finish_pairs(Value scores);

 private:
  Value append(Operation operation);
  Value append_product(Value x, Value weight);
  // parameter: that it reads too, or none.
  Value append_aggregate(Operation op, Value x, Value parameter = kNoValue);
  Value with_halo(Value x);  // x, or a copy of the features with room for halo rows
  Value parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                  Initialisation initialisation);
  std::string own(const std::string& name) const;  // "layers.0.bias"
  bool is_constant(Value x) const;
  bool is_trained(Value x) const;  // it depends on a parameter
  int next_channel();

  // Checks of arguments, for builder_checks.cpp. operation, argument: their names.
  [[noreturn]] void refuse(const char* operation, const std::string& why) const;
  std::string place() const;             // "layer 0 (gcn)", "head" or "input layer"
  std::string described(Value x) const;  // what x is
  bool is_parameter(Value x) const;
  const DeclaredParameter& declared(Value x) const;                             // of a parameter
  void check_rows(const char* operation, const char* argument, Value x) const;  // see has_rows()
  void check_same_columns(const char* operation, Value a, Value b) const;
  // kAnyCount: any.
  void check_parameter(const char* operation, const char* argument, Value x, std::int64_t rows,
                       std::int64_t columns) const;
  void check_product(Value x, Value weight) const;
  // in_dataset: the only count that is allowed, or kAnyCount.
  void check_count(const char* operation, const char* argument, std::int64_t count,
                   std::int64_t in_dataset = kAnyCount) const;
  void check_heads(const char* operation, Value x, int heads) const;
  void check_dropout(const char* operation, double rate) const;
  void check_in_layer(const char* operation) const;
  void check_attention(const AttentionOptions& options, Value z, Value t, Value vector,
                       Value of_edges) const;
  void check_own(const Rule& rule, std::span<const Value> inputs) const;
  void check_readers() const;

  // Order of an aggregate in this layer that reads x, and is multiplied by `weight`.
  MultiplyOrder choose_order(Value x, Value weight) const;
  bool keeps_aggregates() const;
  int layer() const { return static_cast<int>(program_.layers.size()) - 1; }

  Pass pass_;
  AlgebraChoice algebra_;
  bool has_constants_;
  EdgeCounts edges_;
  Program program_;
  std::vector<std::string> convolutions_;  // by layer: their names
  std::vector<bool> trained_;              // by value
  Value input_ = kNoValue;
  Value copy_ = kNoValue;  // of the features
  int channels_ = 0;
  int decoder_ = -1;  // of a program of pairs: the layer that its parameters belong to
};

// For a program whose features are trained, once all other parameters are declared, so that what
// ranks sum up is one piece: "input.nodes", of so many nodes.
void declare_node_parameters(Program& program, std::int64_t nodes);

}  // namespace atl
