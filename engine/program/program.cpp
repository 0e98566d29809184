#include "engine/program/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace atl {

namespace {

// The computation of the forward pass: its operations without the copies beside them.
std::vector<Operation> forward_operations(const Program& program) {
  std::vector<Operation> operations;
  std::vector<Value> places(program.operations.size(), kNoValue);
  for (Value v = 0; v < program.forward_end(); ++v) {
    Operation op = program.at(v);
    if (op.rule->reach == Reach::kBeside) continue;
    for_each_read(op, [&](Value& read) { read = places[static_cast<std::size_t>(read)]; });
    places[static_cast<std::size_t>(v)] = static_cast<Value>(operations.size());
    operations.push_back(std::move(op));
  }
  return operations;
}

}  // namespace

Value Program::append(Operation operation) {
  operation.scope = static_cast<int>(scopes.size()) - 1;
  const bool any_rows = operation.rule->rows_of == RowsOf::kNodes;
  if (any_rows && !operation.inputs.empty() &&
      at(operation.inputs[0]).rows_of() == RowsOf::kPairs) {
    operation.rows = RowsOf::kPairs;
  }
  return append_unchanged(std::move(operation));
}

Value Program::append_unchanged(Operation operation) {
  operations.push_back(std::move(operation));
  return size() - 1;
}

int Program::forward_end() const {
  for (Value v = 0; v < size(); ++v) {
    if (scope_of(v).kind == Scope::Kind::kLoss) return v;
  }
  return size();
}

ParameterSizes parameter_sizes(const Program& program, bool pads_operands, std::int64_t nodes) {
  ParameterSizes sizes(pads_operands);
  for (const DeclaredParameter& p : program.parameters) {
    if (p.composition.present()) {
      sizes.add_composed(p.rows, p.columns, p.composition);
    } else {
      sizes.add(p.per_node ? nodes : p.rows, p.columns);
    }
  }
  return sizes;
}

bool same_forward(const Program& a, const Program& b) {
  return forward_operations(a) == forward_operations(b);
}

bool reads(const Program& program, GraphData data) {
  return std::ranges::any_of(program.operations,
                             [&](const Operation& op) { return op.reads(data); });
}

bool only_adds_neighbours(const Program& program) {
  return std::ranges::all_of(program.operations, [](const Operation& op) {
    return !op.needs_messages() || op.rule->adds_neighbours;
  });
}

std::int64_t weight_rows(const Program& program, const Operation& product) {
  return product.as<Product>().transposed ? product.columns : program.at(product.inputs[0]).columns;
}

std::vector<Value> reads_of(const Operation& operation) {
  std::vector<Value> reads;
  reads.reserve(8);
  for_each_read(operation, [&](Value value) { reads.push_back(value); });
  return reads;
}

std::vector<std::vector<Value>> readers_of(const Program& program) {
  std::vector<std::vector<Value>> readers(program.operations.size());
  for (Value v = 0; v < program.size(); ++v) {
    for_each_read(program.at(v), [&](Value read) {
      auto& list = readers[static_cast<std::size_t>(read)];
      if (list.empty() || list.back() != v) list.push_back(v);
    });
  }
  return readers;
}

std::string to_string(const Program& program, Value value) {
  const Operation& op = program.at(value);
  const auto* combination = std::get_if<Combination>(&op.attributes);
  const bool adds = combination != nullptr && combination->adds() && op.inputs.size() == 2;
  std::string text = fmt::format("%{} = {}", value, adds ? "add" : op.rule->name);
  if (op.rule->print != nullptr) op.rule->print(op, text);
  for (const Value input : op.inputs) text += fmt::format(" %{}", input);
  if (combination != nullptr && !adds) {
    text += fmt::format(" times {}", combination->first_factor);
    if (op.inputs.size() > 1) text += fmt::format(", {}", combination->second_factor);
  }
  if (op.parameter >= 0) {
    text += " '" + program.parameters[static_cast<std::size_t>(op.parameter)].name + "'";
  }
  const auto* product = std::get_if<Product>(&op.attributes);
  if (product != nullptr && product->first_row > 0) {
    text += fmt::format(" from row {}", product->first_row);
  }
  const auto add_value = [&](const char* what, Value other) {
    if (other != kNoValue) text += fmt::format(", {} %{}", what, other);
  };
  add_value("through activation", op.decided.through);
  add_value("added to", op.decided.added_to);
  add_value("normalise", op.tail.statistics);
  if (op.tail.statistics != kNoValue) text += fmt::format(" %{}", op.tail.gamma);
  add_value("bias", op.tail.bias);
  const Activation& activation = op.tail.activation;
  if (activation.function != ActivationFunction::kNone) {
    text += fmt::format(", {}", to_string(activation.function));
  }
  if (activation.dropout > 0) text += fmt::format(", dropout {}", activation.dropout);
  if (op.constant) text += ", once";
  if (op.decided.for_computed) text += ", computed rows too";
  if (op.decided.for_placed) text += ", placed rows too";
  const auto* copied = std::get_if<Copied>(&op.attributes);
  if (copied != nullptr && copied->with_halo) text += ", halo rows too";
  return text;
}

std::string to_string(const Program& program) {
  std::string text;
  int scope = -1;
  for (Value v = 0; v < program.size(); ++v) {
    if (program.at(v).scope != scope) {
      scope = program.at(v).scope;
      const Scope& s = program.scopes[static_cast<std::size_t>(scope)];
      text += s.kind == Scope::Kind::kInput  ? "input\n"
              : s.kind == Scope::Kind::kHead ? fmt::format("head {}\n", to_string(s.direction))
              : s.kind == Scope::Kind::kLoss ? "loss\n"
              : s.kind == Scope::Kind::kDecoder
                  ? fmt::format("decoder {} {}\n", s.layer, to_string(s.direction))
              : s.kind == Scope::Kind::kStep
                  ? "step\n"
                  : fmt::format("layer {} {}\n", s.layer, to_string(s.direction));
    }
    text += "  " + to_string(program, v) + "\n";
  }
  return text;
}

}  // namespace atl
