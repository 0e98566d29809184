// One operation of a program, and the rule that says everything about operations of its kind.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/philox.hpp"
#include "engine/exchange/distributed_operator.hpp"
#include "kernels/attention.hpp"
#include "kernels/pool.hpp"

namespace atl {

class Gradients;
class Requests;
class Views;
struct Operation;

// The number of an operation, which is that of the value it writes: each writes one new value.
using Value = int;
inline constexpr Value kNoValue = -1;

// Which rows of its inputs a row of the result needs.
enum class Reach : std::uint8_t {
  kRow,     // the same row
  kHalo,    // rows of neighbours, so messages
  kSum,     // all rows of this rank, into a small value; may be added to range by range
  kWhole,   // the same, but only all at once
  kRanks,   // all ranks, which wait for each other
  kGroup,   // the same row, of all ranks of a part, which wait for each other
  kBeside,  // all rows, of what the device copies beside its computing: a segment of its own
  kSmall,   // none
};

// The things that rows of a value stand for.
enum class RowsOf : std::uint8_t {
  kNodes,  // inner nodes, and halo rows behind them where neighbours are read
  kEdges,  // in-edges of inner nodes, then the nodes themselves
  kHalo,   // forward halo rows, and behind them those that other ranks return (HaloReturn)
  kPairs,  // pairs of nodes, by a list of each block of pairs (PairViews)
  kEnds,   // both ends of these pairs, by node
  kPart,   // inner nodes of a part that several ranks hold, whose columns they share
};
inline constexpr std::size_t kRowsOfKinds = static_cast<std::size_t>(RowsOf::kPart) + 1;

// The parts of an operation along edges whose coefficients only the reader of a row knows
// (operations/neighbourhood.hpp).
enum class Part : std::uint8_t {
  kNone,
  kForward,
  kTargets,  // the half of the gradient along in-edges
  kHalo,     // what halo rows get, for their owners
  kSources,  // the half along out-edges, with the rows that other ranks return
  kTerms,    // the gradient of what stands along edges
};

// Parts of the dataset that operations read beside rows and edges.
enum class GraphData : std::uint8_t {
  kEdgeFeatures,
  kMeanEdgeFeatures,  // means of a row's in-edges, for what nodes have with themselves
  kNodeTypes,
  kRelations,
  kDegrees,  // along in-edges and along out-edges
};

// Everything that is said about a kind of operation; a program's own kinds have rules, too.
struct Rule {
  const char* name;
  Reach reach = Reach::kRow;
  bool has_rows = true;    // see Operation::has_rows
  bool may_be_in = false;  // its value may lie where its first input lies
  // It reaches all rows because they change places: each row of its value follows from one row of
  // each input, though of another node.
  bool moves_rows = false;
  RowsOf rows_of = RowsOf::kNodes;
  Part part = Part::kNone;
  // It adds to gradients on the way, or, of sources, what other ranks return: its marginal rows are
  // computed all at once.
  bool sums = false;
  // Libraries add up its products in an order that may depend on how many rows there are: the same.
  bool is_product = false;
  // It does nothing with rows of neighbours but add them up, so messages may be partial sums.
  bool adds_neighbours = false;
  bool is_leaf = false;     // no operation computes its value
  bool is_trained = false;  // of a leaf: gradients are wanted of what depends on it
  // Span in traces where it stands outside of messages; kNoSpan: none; null: by its scope.
  const char* span = nullptr;

  // Its part in fuse: it can be added to another value as it is written; it can end with a
  // Tail; it can become part of the operation before it; it sums a gradient that relu may be
  // applied to on the way.
  bool adds = false;
  bool takes_tail = false;
  bool is_tail = false;
  bool sums_gradient = false;

  // Backward reads the rows of neighbours again that came for it; and its result.
  bool keeps_halo = false;
  bool keeps_result = false;

  // The value, beside its first input, whose halo rows it computes from what arrives. Null: none.
  Value (*fills_halo)(const Operation&) = nullptr;

  bool (*reads)(const Operation&, GraphData) = nullptr;  // null: nothing
  // Asks for the kernels that compute the rows at hand.
  void (*lower)(const Views&, Requests&) = nullptr;
  // The gradient that operation `reader` passes to its input number `i`; kNoValue: none. Null: no
  // gradient goes through it.
  Value (*through)(Gradients&, Value reader, std::size_t i) = nullptr;
  // Adds to the gradients of the parameters that it reads. Null: it reads none.
  void (*parameters)(Gradients&, Value v) = nullptr;
  void (*print)(const Operation&, std::string&) = nullptr;  // after its name
};
inline constexpr const char* kNoSpan = "";

// dropout(f(.)), the end of a layer.
struct Activation {
  ActivationFunction function = ActivationFunction::kNone;
  double dropout = 0;
  RandomStream stream = RandomStream::kDropout;
  int site = 0;  // keys the random numbers

  bool absent() const { return function == ActivationFunction::kNone && dropout == 0; }
  bool operator==(const Activation&) const = default;
};

// Work of an operation on each row that it has computed, before it writes it: fuse puts here what
// would follow as operations of their own.
struct Tail {
  Value statistics = kNoValue;  // of a batch norm, with gamma
  int norm = -1;                // its number
  Value gamma = kNoValue;
  Value bias = kNoValue;  // or a norm's shift
  Activation activation = {};

  bool absent() const { return statistics == kNoValue && bias == kNoValue && activation.absent(); }
  bool operator==(const Tail&) const = default;
};

// The messages of an operation that reads rows of neighbours, and what goes along its edges.
struct Messages {
  Normalisation normalisation = Normalisation::kSymmetric;
  Direction direction = Direction::kForward;
  int channel = -1;  // number among those of the forward pass, the same backward
  bool operator==(const Messages&) const = default;
};

// --- attributes: what single kinds know beside their inputs ------------------------------------

// x W or x W^T, by as many rows of W as x has columns.
struct Product {
  bool transposed = false;
  std::int64_t first_row = 0;
  bool operator==(const Product&) const = default;
};

// Rows put together by type, or, back, each in its place.
struct SortByType {
  bool back = false;
  bool operator==(const SortByType&) const = default;
};

// u a + v b.
struct Combination {
  float first_factor = 1;
  float second_factor = 1;
  bool ordered = false;  // the second term must be added to the first
  bool adds() const { return first_factor == 1 && second_factor == 1; }
  bool operator==(const Combination&) const = default;
};

// The gradient of the larger of two values.
struct MaximumGradient {
  bool of_second = false;
  bool operator==(const MaximumGradient&) const = default;
};

// The batch norm that statistics and sums belong to.
struct BatchNorm {
  int number = -1;
  bool operator==(const BatchNorm&) const = default;
};

// Each head's columns times a matrix of its own, or its transpose.
struct HeadProduct {
  std::int64_t heads = 1;
  bool transposed = false;
  bool operator==(const HeadProduct&) const = default;
};

struct AttentionOptions {
  AttentionScore score = AttentionScore::kAdditive;
  int heads = 1;
  bool with_self = true;  // nodes attend to themselves
  double dropout = 0;     // of coefficients
  int site = 0;           // keys the random numbers
  bool operator==(const AttentionOptions&) const = default;
};

// Which root of a degree rows are multiplied by.
enum class DegreeRoot : std::uint8_t {
  kSource,  // out-degree^-1/2
  kTarget,  // in-degree^1/2
};
struct DegreeScale {
  DegreeRoot root = DegreeRoot::kSource;
  bool with_self = true;  // as attention counts edges
  bool operator==(const DegreeScale&) const = default;
};

// How the columns of a value are divided among the ranks that hold a part (shard_columns.hpp):
// those of so many matrices side by side each by itself, in whole units.
struct Slices {
  std::int64_t matrices = 1;
  std::int64_t unit = kColumnPadding;
  bool packed = false;  // their rows have no gaps: Operation::packed
  bool operator==(const Slices&) const = default;
};

struct Relations {
  std::int64_t count = 1;
  bool operator==(const Relations&) const = default;
};

// A copy to or from host memory.
struct Copied {
  bool with_halo = false;  // rows of neighbours, too
  bool operator==(const Copied&) const = default;
};

// Numbers of a kind that is a program's own.
struct OwnNumbers {
  std::vector<double> numbers;
  bool operator==(const OwnNumbers&) const = default;
};

using Attributes = std::variant<std::monostate, Product, SortByType, Combination, MaximumGradient,
                                BatchNorm, HeadProduct, AttentionOptions, DegreeScale, Slices,
                                Relations, PoolSpec, Copied, OwnNumbers>;

// Decisions of transformations of the program about an operation.
struct Decisions {
  Value added_to = kNoValue;  // its result is added to this value and lies where that lies
  // A sum that applies the gradient of relu and dropout to its first input on the way: their
  // output; its value is that gradient then.
  Value through = kNoValue;
  // Boundary recomputation: it is run for computed rows, too, where its first input's rows may
  // lie in another value; or for halo rows that were computed.
  bool for_computed = false;
  Value computed_input = kNoValue;
  bool for_placed = false;
  bool fetches_rest = false;  // an aggregate: computed rows are not fetched
  bool operator==(const Decisions&) const = default;
};

struct Operation {
  const Rule* rule = nullptr;
  std::vector<Value> inputs = {};
  std::int64_t columns = 0;  // of its value, or, of a sum, of what it sums
  // The things that its rows stand for, where its rule works on any: those of what it reads, or
  // copies.
  RowsOf rows = RowsOf::kNodes;
  int scope = 0;
  bool constant = false;  // made of constants alone: computed once, by the first pass
  // Read, or added to in their gradients. A norm has gamma and beta, edges a weight and a bias; of
  // attention the second is the weight of features of edges, where it multiplies them itself.
  int parameter = -1;
  int second_parameter = -1;
  // From the first one on, the rows that it reads of a parameter with a row per head, and the
  // columns of what multiplies features of edges; negative: all.
  std::int64_t first_head = 0;
  std::int64_t heads_read = -1;
  std::int64_t first_column = 0;
  std::int64_t columns_read = -1;
  Messages messages = {};
  Attributes attributes = {};
  // Its value's rows have no gaps between them: an operator of relations reads them as rows of one.
  bool packed = false;
  // Its value has the parameters' type, also where others are stored in a narrower one.
  bool wide = false;
  Tail tail = {};
  Decisions decided = {};

  bool is(const Rule& kind) const { return rule == &kind; }
  template <typename Attribute>
  const Attribute& as() const {
    return std::get<Attribute>(attributes);
  }
  // True if its value is a matrix with rows.
  bool has_rows() const { return rule->has_rows || decided.through != kNoValue; }
  RowsOf rows_of() const { return rows != RowsOf::kNodes ? rows : rule->rows_of; }
  // True for a halo operation: it reads rows of neighbours in its first input, so messages.
  bool needs_messages() const { return rule->reach == Reach::kHalo; }
  // True if its messages are rows that ranks return to their owners, against the direction of the
  // forward ones (HaloReturn).
  bool returns_rows() const { return rule->part == Part::kSources; }
  Value fills_halo() const {
    return rule->fills_halo == nullptr ? kNoValue : rule->fills_halo(*this);
  }
  // True if halo rows that come for it must stay as they are until backward has read them.
  bool keeps_halo_of(Value value) const {
    return rule->keeps_halo && (inputs.front() == value || fills_halo() == value);
  }
  bool reads(GraphData data) const { return rule->reads != nullptr && rule->reads(*this, data); }
  // Columns of the rows that travel for it.
  std::int64_t message_columns() const {
    const auto* relations = std::get_if<Relations>(&attributes);
    const bool divides = relations != nullptr && rule->part == Part::kForward;
    return divides ? columns / relations->count : columns;
  }
  // From one row of its value to the next, in elements of its type.
  std::int64_t stride() const { return packed ? columns : padded_columns(columns); }
  bool operator==(const Operation&) const = default;
};

}  // namespace atl
