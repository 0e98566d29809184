#include "engine/program/fuse.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

class Fusion {
 public:
  explicit Fusion(Program& program) : program_(program) {}

  void run() {
    readers_ = readers_of(program_);
    removed_.assign(program_.operations.size(), false);
    for (Value v = 0; v < program_.size(); ++v) {
      if (program_.at(v).is(rules::kCombine)) join_addition(v);
    }
    for (Value v = 0; v < program_.size(); ++v) join_to_producer(v);
    for (Value v = 0; v < program_.size(); ++v) join_to_sums(v);
    remove_joined();
  }

 private:
  bool is_output(Value v) const {
    return std::ranges::find(program_.outputs, v) != program_.outputs.end();
  }

  bool is_only_reader(Value reader, Value v) const {
    const auto& readers = readers_[static_cast<std::size_t>(v)];
    return readers.size() == 1 && readers.front() == reader && !is_output(v);
  }

  // The operation at `producer` happens at `v` instead, whose operation it replaces.
  void move_to(Value v, Value producer, Operation joined) {
    joined.scope = program_.at(v).scope;
    for_each_read(program_.at(producer), [&](Value read) {
      auto& list = readers_[static_cast<std::size_t>(read)];
      std::ranges::replace(list, producer, v);
      std::ranges::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
    });
    program_.at(v) = std::move(joined);
    readers_[static_cast<std::size_t>(producer)].clear();
    removed_[static_cast<std::size_t>(producer)] = true;
  }

  void join_addition(Value v) {
    const Operation& add = program_.at(v);
    if (add.inputs.size() < 2 || !add.as<Combination>().adds()) return;
    const auto is_aggregate = [&](Value x) { return program_.at(x).is(rules::kAggregate); };
    const bool ordered = add.as<Combination>().ordered;
    Value first = add.inputs[0];
    Value joined = add.inputs[1];
    if (!ordered && is_aggregate(first) != is_aggregate(joined) ? is_aggregate(first)
                                                                : !ordered && first > joined) {
      std::swap(first, joined);
    }
    const Operation& op = program_.at(joined);
    const bool joins = op.rule->adds && op.tail.absent() && op.decided.added_to == kNoValue &&
                       op.scope == add.scope && !op.constant && first != joined &&
                       !program_.at(first).constant && !program_.at(first).rule->is_leaf &&
                       is_only_reader(v, joined) && is_only_reader(v, first);
    if (!joins) return;
    Operation sum = op;
    sum.decided.added_to = first;
    move_to(v, joined, std::move(sum));
  }

  void join_to_producer(Value v) {
    const Operation& after = program_.at(v);
    if (!after.rule->is_tail) return;
    const Value producer = after.inputs[0];
    const Operation& before = program_.at(producer);
    // A tail has its parts in the order norm, bias, activation; all are written as scores.
    const bool in_order =
        after.is(rules::kScores) ||
        (after.is(rules::kActivate) ? before.tail.activation.absent() : before.tail.absent());
    // The result of a layer stays a value of its own, also where the next begins with a tail.
    const bool in_scope = before.scope == after.scope;
    if (!before.rule->takes_tail || !in_order || !in_scope || before.constant ||
        !is_only_reader(v, producer)) {
      return;
    }
    Operation joined = before;
    if (after.is(rules::kScores)) {
      joined.packed = joined.wide = true;
    } else if (after.is(rules::kActivate)) {
      joined.tail.activation = after.tail.activation;
    } else {
      joined.tail = after.tail;
    }
    move_to(v, producer, std::move(joined));
  }

  // Sums read the gradient of relu, with dropout or without, that nothing has summed before.
  void join_to_sums(Value v) {
    const Operation& sums = program_.at(v);
    if (!sums.rule->sums_gradient) return;
    const Value gradient = sums.inputs[0];
    const Operation& through = program_.at(gradient);
    const bool of_relu = through.is(rules::kActivateBackward) &&
                         through.tail.activation.function == ActivationFunction::kRelu;
    if (!of_relu || through.scope != sums.scope) return;
    Operation joined = sums;
    joined.inputs[0] = through.inputs[0];
    joined.decided.through = through.inputs[1];
    joined.tail.activation = through.tail.activation;
    // The sums come where the gradient was, before all that reads either.
    for (std::size_t reader = 0; reader < program_.operations.size(); ++reader) {
      for_each_read(program_.operations[reader], [&](Value& read) {
        if (read == v) read = gradient;
      });
    }
    program_.at(gradient) = std::move(joined);
    removed_[static_cast<std::size_t>(v)] = true;
  }

  void remove_joined() {
    std::vector<Value> renamed(program_.operations.size(), kNoValue);
    std::vector<Operation> kept;
    kept.reserve(program_.operations.size());
    for (std::size_t v = 0; v < program_.operations.size(); ++v) {
      if (removed_[v]) continue;
      renamed[v] = static_cast<Value>(kept.size());
      kept.push_back(std::move(program_.operations[v]));
    }
    const auto rename = [&](Value& value) { value = renamed[static_cast<std::size_t>(value)]; };
    for (Operation& op : kept) for_each_read(op, rename);
    for_each_named(program_, rename);
    program_.operations = std::move(kept);
  }

  Program& program_;
  std::vector<std::vector<Value>> readers_;
  std::vector<bool> removed_;
};

}  // namespace

void fuse(Program& program) { Fusion(program).run(); }

}  // namespace atl
