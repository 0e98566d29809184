#include "engine/program/place_halo.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "engine/program/operations/rules.hpp"

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
    for_each_named(program_, rename);
    program_.operations.insert(program_.operations.begin() + before + 1, std::move(operation));
    return before + 1;
  }

 private:
  Program& program_;
};

}  // namespace

bool compute_halo_rows(Program& program) {
  const auto is_kept = [](const Operation& op) { return op.is(rules::kAggregate) && op.constant; };
  if (program.layers.size() < 2 || std::ranges::count_if(program.operations, is_kept) != 1) {
    return false;
  }
  const auto first = std::ranges::find_if(program.operations, is_kept);
  const auto aggregate = static_cast<Value>(first - program.operations.begin());
  const Value output = program.layers.front().output;
  const int forward_end = program.forward_end();

  // Rows of the first layer's output follow from the aggregate and from the features.
  std::set<Value> computed = {output};
  bool reads_features = false;
  for (Value v = output; v > aggregate; --v) {
    if (!computed.contains(v)) continue;
    const Operation& made = program.at(v);
    // Rows of neighbours of a halo node are not here.
    if (made.scope != program.at(aggregate).scope || made.needs_messages()) return false;
    for (const Value read : reads_of(program.at(v))) {
      const Operation& op = program.at(read);
      if (op.is(rules::kFeatures)) {
        if (program.at(v).inputs.front() != read) return false;
        reads_features = true;
      } else if (op.has_rows()) {
        if (read < aggregate) return false;
        computed.insert(read);
      }
    }
  }
  // The features' halo rows are those that the aggregate got, which a symmetric one has scaled.
  const bool has_features = !has_column_factors(first->messages.normalisation);
  if (output == aggregate || !computed.contains(aggregate) || (reads_features && !has_features)) {
    return false;
  }
  // Products between the layer's output and the aggregates that read it.
  std::set<Value> placed;
  bool is_fetched = false;
  for (Value v = output + 1; v < forward_end; ++v) {
    Operation& op = program.at(v);
    if (op.is(rules::kAggregate) && (op.inputs[0] == output || placed.contains(op.inputs[0]))) {
      op.decided.fetches_rest = is_fetched = true;
    }
    const bool is_product = op.is(rules::kLinear) && op.inputs[0] == output &&
                            op.decided.added_to == kNoValue && op.tail.absent();
    if (!is_product) continue;
    const bool is_aggregated =
        std::ranges::any_of(program.operations, [&](const Operation& reader) {
          return reader.is(rules::kAggregate) && reader.inputs[0] == v;
        });
    if (is_aggregated) placed.insert(v);
  }
  if (!is_fetched) return false;
  for (const Value v : computed) program.at(v).decided.for_computed = true;
  for (const Value v : placed) program.at(v).decided.for_placed = true;

  // From the back, so that numbers in front stay.
  Insertion insertion(program);
  insertion.behind(
      output,
      {.rule = &rules::kPlaceComputed, .inputs = {output}, .columns = program.at(output).columns});
  if (reads_features) {
    const Value copy = program.at(aggregate).inputs[0];
    const Value taken = insertion.behind(aggregate, {.rule = &rules::kTakeComputed,
                                                     .inputs = {copy},
                                                     .columns = program.at(copy).columns,
                                                     .constant = true});
    for (Operation& op : program.operations) {
      const bool reads = op.decided.for_computed && !op.inputs.empty() &&
                         program.at(op.inputs[0]).is(rules::kFeatures);
      if (reads) op.decided.computed_input = taken;
    }
  }
  insertion.behind(aggregate, {.rule = &rules::kFetchComputed,
                               .inputs = {aggregate},
                               .columns = program.at(aggregate).columns,
                               .constant = true,
                               .messages = {.channel = program.at(aggregate).messages.channel}});
  return true;
}

}  // namespace atl
