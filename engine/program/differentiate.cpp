#include "engine/program/differentiate.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "engine/program/gradients.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

std::size_t slot_of(Value value) { return static_cast<std::size_t>(value); }

}  // namespace

Gradients::Gradients(Program& program)
    : program_(program),
      forward_size_(program.size()),
      readers_(readers_of(program)),
      trained_(program.operations.size(), false),
      gradients_(program.operations.size(), kNoValue) {
  for (Value v = 0; v < forward_size_; ++v) {
    const Operation& op = program_.at(v);
    trained_[slot_of(v)] =
        op.rule->is_trained || any_read(op, [&](Value read) { return trained_[slot_of(read)]; });
  }
}

void Gradients::run(PartOfEpoch part) {
  const auto forward_scopes = static_cast<int>(program_.scopes.size());
  begin_scope({Scope::Kind::kLoss, -1, Direction::kBackward});
  // Before the loss, inside which another program may add to gradients.
  if (part == PartOfEpoch::kWhole) append({.rule = &rules::kZeroGradients});
  const Value logits = program_.logits;
  const Operation of = program_.at(logits);
  gradients_[slot_of(logits)] = append({.rule = &rules::kLoss,
                                        .inputs = {logits},
                                        .columns = of.columns,
                                        .packed = of.packed,
                                        .wide = of.wide});
  for (int scope = forward_scopes - 1; scope >= 0; --scope) back_through(scope);
  if (part == PartOfEpoch::kLoss) return;
  begin_scope({Scope::Kind::kStep, -1, Direction::kBackward});
  const bool composes = std::ranges::any_of(program_.parameters,
                                            [](const auto& p) { return p.composition.present(); });
  if (composes) append({.rule = &rules::kComposedGradients});
  append({.rule = &rules::kSumGradients});
  append({.rule = &rules::kStep});
}

Value Gradients::append(Operation operation) {
  const bool is_room = operation.is(rules::kCoefficients);
  ATOLL_ASSERT(is_room || operation.rule->lower != nullptr, "'{}' computes nothing",
               operation.rule->name);
  return program_.append(std::move(operation));
}

bool Gradients::has_gradient(Value value) const {
  return trained_[slot_of(value)] && program_.at(value).rule->has_rows;
}

Value& Gradients::once(Value reader) { return once_.try_emplace(reader, kNoValue).first->second; }

void Gradients::back_through(int scope) {
  const Scope forward = program_.scopes[static_cast<std::size_t>(scope)];
  begin_scope({forward.kind, forward.layer, Direction::kBackward});
  // The scope's own values, then, latest first, what they read of earlier scopes.
  std::set<Value, std::greater<>> own;
  std::set<Value, std::greater<>> earlier;
  for (Value v = 0; v < forward_size_; ++v) {
    if (program_.at(v).scope != scope) continue;
    if (has_gradient(v)) own.insert(v);
    for (const Value read : reads_of(program_.at(v))) {
      if (program_.at(read).scope != scope && has_gradient(read)) earlier.insert(read);
    }
  }
  for (const Value v : own) {
    add_terms(v, scope);
    const Rule& rule = *program_.at(v).rule;
    if (rule.parameters != nullptr && of(v) != kNoValue) rule.parameters(*this, v);
  }
  for (const Value v : earlier) add_terms(v, scope);
}

// Adds what readers in `scope` pass down to the gradient of v.
void Gradients::add_terms(Value v, int scope) {
  for (const Value reader : readers_[slot_of(v)]) {
    if (program_.at(reader).scope != scope || of(reader) == kNoValue) continue;
    const std::vector<Value> inputs = program_.at(reader).inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != v) continue;
      const Rule& rule = *program_.at(reader).rule;
      ATOLL_ASSERT(rule.through != nullptr, "no gradient through {}", rule.name);
      const Value term = rule.through(*this, reader, i);
      if (term == kNoValue) continue;
      const auto* sum = std::get_if<Combination>(&program_.at(reader).attributes);
      const float factor = sum == nullptr ? 1 : i == 0 ? sum->first_factor : sum->second_factor;
      add_term(gradients_[slot_of(v)], term, factor, columns(v));
    }
  }
}

// sum += factor * term, in this order.
void Gradients::add_term(Value& sum, Value term, float factor, std::int64_t columns) {
  Combination combination{.ordered = true};
  std::vector<Value> inputs;
  if (sum != kNoValue) {
    inputs = {sum, term};
    combination.second_factor = factor;
  } else if (factor != 1) {
    inputs = {term};
    combination.first_factor = factor;
  } else {
    sum = term;
    return;
  }
  sum = append({.rule = &rules::kCombine,
                .inputs = std::move(inputs),
                .columns = columns,
                .attributes = combination});
}

void differentiate(Program& program, PartOfEpoch part) { Gradients(program).run(part); }

}  // namespace atl
