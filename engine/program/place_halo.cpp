#include "engine/program/place_halo.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace atl {

namespace {

// Puts operations between those of a program.
class Insertion {
 public:
  explicit Insertion(Program& program) : program_(program) {}

  // `operation` comes right behind `before` and belongs to its scope.
  Value behind(Value before, Operation operation) {
    operation.scope = program_.at(before).scope;
    const auto renamed = [&](Value v) { return v > before ? v + 1 : v; };
    const auto rename = [&](Value& value) { value = renamed(value); };
    for (Operation& op : program_.operations) for_each_read(op, rename);
    for (Value& value : program_.outputs) rename(value);
    for (Value& value : program_.layer_outputs) rename(value);
    program_.operations.insert(program_.operations.begin() + before + 1, std::move(operation));
    return before + 1;
  }

 private:
  Program& program_;
};

}  // namespace

bool compute_halo_rows(Program& program) {
  const auto first = std::ranges::find_if(program.operations, [](const Operation& op) {
    return op.kind == OpKind::kAggregate && op.constant;
  });
  if (first == program.operations.end() || program.layer_outputs.size() < 2) return false;
  const auto aggregate = static_cast<Value>(first - program.operations.begin());
  const Value output = program.layer_outputs.front();
  const int forward_end = program.forward_end();

  // Rows of the first layer that follow from the aggregate, and inputs that do not.
  std::set<Value> computed = {aggregate};
  std::set<Value> elsewhere;
  for (Value v = aggregate + 1; v <= output; ++v) {
    Operation& op = program.at(v);
    const auto reads = reads_of(op);
    const bool follows =
        op.scope == program.at(output).scope && traits_of(op.kind).has_rows &&
        (op.added_to != kNoValue
             ? computed.contains(op.added_to)
             : std::ranges::any_of(reads, [&](Value read) { return computed.contains(read); }));
    if (!follows) continue;
    computed.insert(v);
    const Value input = op.inputs.front();
    if (!computed.contains(input)) elsewhere.insert(input);
  }
  ATOLL_ASSERT(computed.contains(output));
  // Products between the layer's output and the aggregates that read it.
  std::set<Value> placed;
  for (Value v = output + 1; v < forward_end; ++v) {
    Operation& op = program.at(v);
    if (op.kind == OpKind::kAggregate &&
        (op.inputs[0] == output || placed.contains(op.inputs[0]))) {
      op.fetches_rest = true;
    }
    const bool is_product = op.kind == OpKind::kLinear && op.inputs[0] == output &&
                            op.added_to == kNoValue && op.tail.absent();
    if (!is_product) continue;
    const bool is_aggregated =
        std::ranges::any_of(program.operations, [&](const Operation& reader) {
          return reader.kind == OpKind::kAggregate && reader.inputs[0] == v;
        });
    if (is_aggregated) placed.insert(v);
  }
  for (const Value v : computed) program.at(v).for_computed = true;
  for (const Value v : placed) program.at(v).for_placed = true;

  // From the back, so that numbers in front stay.
  Insertion insertion(program);
  insertion.behind(
      output,
      {.kind = OpKind::kPlaceComputed, .inputs = {output}, .columns = program.at(output).columns});
  ATOLL_ASSERT(elsewhere.size() <= 1);
  for (const Value input : elsewhere) {
    const Value copy = program.at(aggregate).inputs[0];
    const Value taken = insertion.behind(aggregate, {.kind = OpKind::kTakeComputed,
                                                     .inputs = {copy},
                                                     .columns = program.at(copy).columns,
                                                     .constant = true});
    for (Operation& op : program.operations) {
      if (op.for_computed && !op.inputs.empty() && op.inputs[0] == input &&
          op.kind == OpKind::kLinear) {
        op.computed_input = taken;
      }
    }
  }
  insertion.behind(aggregate, {.kind = OpKind::kFetchComputed,
                               .inputs = {aggregate},
                               .columns = program.at(aggregate).columns,
                               .constant = true,
                               .channel = program.at(aggregate).channel});
  return true;
}

}  // namespace atl
