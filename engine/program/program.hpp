// One pass of a model over the graph as data: operations in an order that can be run. It is
// differentiated (differentiate.hpp), improved (fuse.hpp), put in order around its messages
// (schedule.hpp), laid into memory (allocate.hpp) and run (network.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/operation.hpp"
#include "engine/program/parameters.hpp"

namespace atl {

// Operations that belong together: a layer, forward or backward, what comes before the first one
// (kInput) or after the last one; or, in a program of pairs, a layer of their decoder.
struct Scope {
  enum class Kind : std::uint8_t { kInput, kLayer, kHead, kDecoder, kLoss, kStep };
  Kind kind = Kind::kLayer;
  int layer = -1;
  Direction direction = Direction::kForward;
  bool operator==(const Scope&) const = default;
};
// True if traces tell a scope of this kind forward from one backward.
inline bool has_directions(const Scope& scope) {
  return scope.kind != Scope::Kind::kLoss && scope.kind != Scope::Kind::kStep;
}

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

// The outcome of one layer of a model.
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
  // Appends it to the last scope. If it works on any rows, they are pairs if its first input's are.
  Value append(Operation operation);
  // Appends it as it is.
  Value append_unchanged(Operation operation);
  const Scope& scope_of(Value value) const {
    return scopes[static_cast<std::size_t>(at(value).scope)];
  }
  // Elements of the storage type, with padding, in a row of its value.
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

// Memory that its parameters take on a rank with so many nodes; by default those that all ranks
// have alike, whose gradients are summed. pads_operands: see ParameterSizes.
ParameterSizes parameter_sizes(const Program& program, bool pads_operands, std::int64_t nodes = 0);

// True if any operation reads it.
bool reads(const Program& program, GraphData data);

// True if no operation reads rows of neighbours one by one.
bool only_adds_neighbours(const Program& program);

// Whether the forward passes of both compute the same, whatever is copied beside them.
bool same_forward(const Program& a, const Program& b);

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
                      &operation.decided.added_to, &operation.decided.through,
                      &operation.decided.computed_input}) {
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
