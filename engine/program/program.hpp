// One pass of a model over the graph as data: operations in an order that can be run. It is
// differentiated (differentiate.hpp), improved (fuse.hpp), put in order around its messages
// (schedule.hpp), laid into memory (allocate.hpp) and run (network.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "engine/exchange/distributed_operator.hpp"
#include "engine/program/parameters.hpp"
#include "kernels/attention.hpp"
#include "kernels/pool.hpp"

namespace atl {

// What an operation writes, by the number of the operation: each writes one new value.
using Value = int;
inline constexpr Value kNoValue = -1;

enum class OpKind : std::uint8_t {
  kFeatures,        // [nodes, features] of the dataset
  kNodeParameters,  // the same, trained: a row of parameters per node, on the rank that owns it
  kParameter,       // a trained matrix or row
  kCopy,            // of the features, with room for halo rows
  kLinear,          // x W, or x W^T
  kWeightGradient,  // adds x^T dy to the gradient of a parameter
  kNodeGradient,    // dy is that of the parameters of nodes
  // By types of nodes (NodeTypeRows): puts the rows of each type together, or, transposed, each row
  // back to its place. x_v W_t(v) + b_t(v) of such rows, with the W_t one below the other and the
  // b_t as rows; and what that adds to their gradients.
  kSortByType,
  kLinearByType,
  kWeightGradientByType,
  kBiasGradientByType,
  kAggregate,  // S x, or S^T x
  // u a + v b, or u a; where both factors are 1, fuse lets the later one add to the other if it
  // can.
  kCombine,
  kBias,              // x + b
  kBiasGradient,      // adds column sums of dy to the gradient of b
  kActivate,          // dropout(f(x))
  kActivateBackward,  // dx from dy and y, or, of gelu, x
  kMaximum,           // the larger of a and b, element by element
  kMaximumGradient,   // dy where a was taken (ties too), or where b was
  kScale,             // e x with a trained number e
  kScaleGradient,     // adds the sum of dy x to the gradient of e; also of a pool's slope
  kScaleByDegree,     // rows times a root of how many edges they have (DegreeFactors)
  // Attention (kernels/attention.hpp). z, t and the scores of z's rows are values.
  kHeadDots,          // per head the product of a row with a trained vector
  kHeadDotsBackward,  // dx; adds to the gradient of the vector
  kHeadMean,          // the mean over heads
  kHeadMeanBackward,
  kEdgeScores,          // features of edges, and means of those of a row's edges, times a weight
  kEdgeScoresGradient,  // adds to that of the weight, from coefficients
  kAttend,              // rows of neighbours of z, weighted
  kCoefficients,        // room for what the next one finds out about edges
  kAttendTargets,       // dt; fills the coefficients
  // What halo rows of z get, for their owners; and dz, with what other ranks return.
  kAttendHalo,
  kAttendSources,
  kAggregateRelations,  // S_r x of every relation r, side by side (RelationOperators)
  // Its gradient in two parts, as attention's.
  kRelationsHalo,
  kRelationsSources,
  kPool,         // rows of neighbours column by column (kernels/pool.hpp)
  kPoolTargets,  // the half of its gradient along in-edges
  kPoolSlope,    // of what is pooled, with respect to a trained sharpness
  // The other half in two parts, as attention's.
  kPoolHalo,
  kPoolSources,
  kAggregateEdges,  // sum of rows with what features of edges add to them (Backend)
  // Its gradient: in two parts, as attention's; and adds to those of what multiplies features.
  kEdgesHalo,
  kEdgesSources,
  kEdgesTerms,
  kLayerNorm,          // Ba et al. 2016
  kLayerNormBackward,  // dx; adds to the gradients of gamma and beta
  // Batch norm (Ioffe & Szegedy 2015) with statistics over all ranks, see Backend.
  kMoments,            // this rank's sums of x and x^2
  kStatistics,         // mean and deviation of all ranks' sums; moves the running statistics
  kInverseStd,         // the same of the running statistics
  kNormalise,          // (x - mean) / deviation * gamma + beta
  kNormSums,           // this rank's sums of dy and dy * normalised x; adds to gamma and beta
  kNormBackward,       // dx
  kSumRanks,           // of small sums over all ranks
  kLoss,               // d loss / d logits, and this rank's part of the loss
  kZeroGradients,      // of all parameters
  kComposedGradients,  // of what composed weights are made of, from theirs
  kSumGradients,       // over all ranks
  kStep,               // of the optimizer
  kFetchComputed,      // the aggregates of computed rows from their owners (ComputedHalo)
  kTakeComputed,       // the computed rows of a matrix with halo rows
  kPlaceComputed,      // computed rows times their factors among the halo rows of the same value
  // Values that wait for backward in host memory (offload.hpp). Copies run beside computing, from
  // the first operation of a pair to the second.
  kStore,        // begins to copy a value to host memory; names what lies there then
  kFinishStore,  // waits for that: from here on the value itself may go
  kFetch,        // begins to copy it back
  kFinishFetch,  // waits for that, in the place of what is fetched
};

// Which rows of its inputs a row of the result needs.
enum class Reach : std::uint8_t {
  kRow,     // the same row
  kHalo,    // rows of neighbours, so messages
  kSum,     // all rows of this rank, into a small value; may be added to range by range
  kWhole,   // the same, but only all at once
  kRanks,   // all ranks, which wait for each other
  kBeside,  // all rows, of what the device copies beside its computing: a segment of its own
  kSmall,   // none
};

// What the rows of a value stand for.
enum class RowsOf : std::uint8_t {
  kNodes,  // inner nodes, and halo rows behind them where neighbours are read
  kEdges,  // in-edges of inner nodes, then the nodes themselves
  kHalo,   // forward halo rows, and behind them those that other ranks return (HaloReturn)
};

struct OpTraits {
  const char* name;
  Reach reach;
  bool has_rows;   // see Operation::has_rows
  bool may_be_in;  // its value may lie where its first input lies
  RowsOf rows_of = RowsOf::kNodes;
};
const OpTraits& traits_of(OpKind kind);

// dropout(f(.)), the end of a layer.
struct Activation {
  ActivationFunction function = ActivationFunction::kNone;
  double dropout = 0;
  RandomStream stream = RandomStream::kDropout;
  int site = 0;  // keys the random numbers

  bool absent() const { return function == ActivationFunction::kNone && dropout == 0; }
  bool operator==(const Activation&) const = default;
};

// What an operation does to each row that it has computed, before it writes it: fuse puts here what
// would follow as operations of their own.
struct Tail {
  Value statistics = kNoValue;  // of a norm, with gamma
  Value gamma = kNoValue;
  Value bias = kNoValue;  // or a norm's shift
  Activation activation = {};

  bool absent() const { return statistics == kNoValue && bias == kNoValue && activation.absent(); }
  bool operator==(const Tail&) const = default;
};

// Which root of a degree rows are multiplied by.
enum class DegreeRoot : std::uint8_t {
  kSource,  // out-degree^-1/2
  kTarget,  // in-degree^1/2
};

// Of an operation on heads.
struct AttentionOptions {
  AttentionScore score = AttentionScore::kAdditive;
  int heads = 1;
  bool with_self = true;  // nodes attend to themselves
  double dropout = 0;     // of coefficients
  int site = 0;           // keys the random numbers
  bool operator==(const AttentionOptions&) const = default;
};

struct Operation {
  OpKind kind = OpKind::kFeatures;
  std::vector<Value> inputs = {};
  std::int64_t columns = 0;  // of its value, or, of a sum, of what it sums
  int scope = 0;
  // Of constants alone: computed once, by the first pass (Program::constants).
  bool constant = false;
  int parameter = -1;  // read, or whose gradient is added to
  // Of a norm: parameter is gamma's, this is beta's. Of kAggregateEdges and kLinearByType: a
  // weight's and a bias's. Of attention: this is that of the weight of features of edges, if it
  // reads them itself (AttentionEdges).
  int second_parameter = -1;
  int norm = -1;            // which batch norm
  bool transposed = false;  // linear: by W^T; kSortByType
  // Of a weight: the first of its rows that it multiplies with; as many as its input has columns.
  std::int64_t first_row = 0;
  // An aggregate: by which operator, and the number of its messages in order of the forward pass,
  // the same backward.
  Normalisation normalisation = Normalisation::kSymmetric;
  Direction direction = Direction::kForward;
  int channel = -1;
  Tail tail = {};
  Value added_to = kNoValue;  // its result is added to this value and lies where that lies
  // A sum that applies the gradient of relu and dropout to its first input on the way: their
  // output; its value is that gradient then.
  Value through = kNoValue;
  float first_factor = 1;  // of a combination
  float second_factor = 1;
  bool ordered = false;    // an addition whose second term must be added to the first
  bool of_second = false;  // the gradient of a maximum: for the second of the two
  AttentionOptions attention = {};
  DegreeRoot degree_root = DegreeRoot::kSource;  // of kScaleByDegree, whose loops: attention
  std::int64_t relations = 1;                    // of kAggregateRelations
  PoolSpec pool = {};
  // Its value's rows have no gaps between them: an operator of relations reads them as rows of one.
  bool packed = false;
  // Its value has the parameters' type, also where others are stored in a narrower one.
  bool wide = false;
  // Boundary recomputation: it is run for computed rows, too, where its first input's rows may
  // lie in another value; or for halo rows that were computed.
  bool for_computed = false;
  Value computed_input = kNoValue;
  bool for_placed = false;
  bool fetches_rest = false;  // an aggregate: computed rows are not fetched
  // Of kStore, kFetch and kFinishFetch: rows of neighbours are copied, too; what the rows stand
  // for.
  bool with_halo = false;
  RowsOf copied_rows = RowsOf::kNodes;

  // True if its value is a matrix with a row per node.
  bool has_rows() const;
  RowsOf rows_of() const;
  // True for a halo operation: it reads rows of neighbours in its first input, so messages.
  bool needs_messages() const;
  // True if its messages are rows that ranks return to their owners, against the direction of the
  // forward ones (HaloReturn).
  bool returns_rows() const {
    return kind == OpKind::kAttendSources || kind == OpKind::kRelationsSources ||
           kind == OpKind::kPoolSources || kind == OpKind::kEdgesSources;
  }
  // Columns of the rows that travel for it.
  std::int64_t message_columns() const { return columns / relations; }
  // Of kAttend: the scores of rows that it reads, and of edges; kNoValue: none.
  Value source_scores() const {
    return attention.score == AttentionScore::kAdditive ? inputs[3] : kNoValue;
  }
  Value edge_scores() const { return inputs.size() > 4 ? inputs[4] : kNoValue; }
  // Of attention: true if it multiplies features of edges itself.
  bool multiplies_edge_features() const {
    return attention.score == AttentionScore::kGatv2 && second_parameter >= 0;
  }
  // True if backward reads the rows of neighbours again that came for it.
  bool keeps_halo() const {
    return kind == OpKind::kAttend || kind == OpKind::kPool || kind == OpKind::kAggregateEdges;
  }
  // From one row of its value to the next, in elements of its type.
  std::int64_t stride() const { return packed ? columns : padded_columns(columns); }
  bool operator==(const Operation&) const = default;
};

// Operations that belong together: a layer, forward or backward, what comes before the first one
// (kInput) or after the last one.
struct Scope {
  enum class Kind : std::uint8_t { kInput, kLayer, kHead, kLoss, kStep };
  Kind kind = Kind::kLayer;
  int layer = -1;
  Direction direction = Direction::kForward;
  bool operator==(const Scope&) const = default;
};
// True if traces tell a scope of this kind forward from one backward.
inline bool has_directions(const Scope& scope) {
  return scope.kind != Scope::Kind::kLoss && scope.kind != Scope::Kind::kStep;
}

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
};

struct DeclaredNorm {
  std::string name;  // e.g. "layers.0.norm"
  std::int64_t columns = 0;
};

// Multiply by the weight before the aggregate (F_out columns travel) or after it (F_in columns).
enum class MultiplyOrder { kMultiplyFirst, kAggregateFirst };

// The algebra of one layer, as a plan fixes it.
struct LayerAlgebra {
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool cache_aggregate = false;  // has no effect where the layer aggregates no constant
  auto operator<=>(const LayerAlgebra&) const = default;
};

// What became of one layer of a model.
struct ProgramLayer {
  Value output = kNoValue;
  LayerAlgebra algebra = {};       // as it is computed
  bool order_is_free = false;      // both orders give the layer
  bool input_is_constant = false;  // aggregated first, it can be kept
};

struct Program {
  std::vector<Operation> operations;
  std::vector<Scope> scopes;
  // In the order that keys their initial values.
  std::vector<DeclaredParameter> parameters;
  std::vector<DeclaredNorm> norms;  // batch norms
  std::vector<ProgramLayer> layers;
  std::vector<Value> outputs;  // that are read when the program has run
  Value logits = kNoValue;
  Value embeddings = kNoValue;  // what the last layer gets, or, where there is one, the head
  int wide_elements = 1;        // of the storage type, that a wide one takes (Operation::wide)

  const Operation& at(Value value) const { return operations[static_cast<std::size_t>(value)]; }
  Operation& at(Value value) { return operations[static_cast<std::size_t>(value)]; }
  int size() const { return static_cast<int>(operations.size()); }
  const Scope& scope_of(Value value) const {
    return scopes[static_cast<std::size_t>(at(value).scope)];
  }
  // Of the storage type, with padding, in a row of its value.
  std::int64_t row_elements(const Operation& op) const {
    return op.stride() * (op.wide ? wide_elements : 1);
  }
  // The first operation of the scope kLoss, or size().
  int forward_end() const;
};

// True if v is computed a second time in a pass: its messages use the buffers of the first.
inline bool is_made_again(const Program& program, Value v) {
  return v > program.forward_end() && program.scope_of(v).kind == Scope::Kind::kLayer &&
         program.scope_of(v).direction == Direction::kForward;
}

// What its parameters take on a rank with so many nodes; by default those that all ranks have
// alike, whose gradients are summed. pads_operands: see ParameterSizes.
ParameterSizes parameter_sizes(const Program& program, bool pads_operands, std::int64_t nodes = 0);

// Values that no operation computes.
inline bool is_leaf(OpKind kind) {
  return kind == OpKind::kFeatures || kind == OpKind::kNodeParameters || kind == OpKind::kParameter;
}

bool reads_edge_features(const Program& program);
// True if it needs means of them, for what nodes have with themselves.
bool reads_mean_edge_features(const Program& program);
bool reads_node_types(const Program& program);

// How many rows of its weight a product reads, or a weight gradient adds to.
std::int64_t weight_rows(const Program& program, const Operation& product);

// All values that an operation reads, whatever for.
std::vector<Value> reads_of(const Operation& operation);
// Calls `visit` with a reference to each of them, the first input first, of an operation that may
// be const.
template <typename AnyOperation, typename Visit>
void for_each_read(AnyOperation& operation, const Visit& visit) {
  for (auto& input : operation.inputs) visit(input);
  for (auto* value : {&operation.tail.statistics, &operation.tail.gamma, &operation.tail.bias,
                      &operation.added_to, &operation.through, &operation.computed_input}) {
    if (*value != kNoValue) visit(*value);
  }
}
// True if `holds` is true of one of them.
template <typename Predicate>
bool any_read(const Operation& operation, const Predicate& holds) {
  bool any = false;
  for_each_read(operation, [&](Value read) { any = any || holds(read); });
  return any;
}
// Calls `change` with a reference to each value that the program itself names.
template <typename Change>
void for_each_named(Program& program, const Change& change) {
  for (Value& value : program.outputs) change(value);
  for (ProgramLayer& layer : program.layers) change(layer.output);
  for (Value* value : {&program.logits, &program.embeddings}) {
    if (*value != kNoValue) change(*value);
  }
}
// By value: the operations that read it, in order.
std::vector<std::vector<Value>> readers_of(const Program& program);
// A line per operation: number and what it does. For people.
std::string to_string(const Program& program, Value value);
std::string to_string(const Program& program);

}  // namespace atl
