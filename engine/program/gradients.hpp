// Backward of a program as it is written: rules append the operations that gradients go through.
#pragma once

#include <map>

#include "engine/program/differentiate.hpp"

namespace atl {

class Gradients {
 public:
  explicit Gradients(Program& program);
  // Appends loss, backward and, of a whole epoch, step.
  void run(PartOfEpoch part);

  Operation at(Value value) const { return program_.at(value); }  // a copy: appending moves them
  Operation& change(Value value) { return program_.at(value); }
  std::int64_t columns(Value value) const { return program_.at(value).columns; }
  // True if values that are not wide have the parameters' type, too.
  bool all_are_wide() const { return program_.wide_elements == 1; }
  // The gradient of a value of the forward pass, so far; kNoValue: none.
  Value of(Value value) const { return gradients_[static_cast<std::size_t>(value)]; }
  // True if it depends on a parameter and has rows.
  bool has_gradient(Value value) const;
  Value append(Operation operation);
  // The value that a rule has appended once for `reader`, whichever of its inputs came first; at
  // first kNoValue.
  Value& once(Value reader);

 private:
  void begin_scope(Scope scope) { program_.scopes.push_back(scope); }
  void back_through(int scope);
  void add_terms(Value v, int scope);
  void add_term(Value& sum, Value term, float factor, std::int64_t columns);

  Program& program_;
  int forward_size_;
  std::vector<std::vector<Value>> readers_;  // of forward values
  std::vector<bool> trained_;                // by forward value: it depends on a parameter
  std::vector<Value> gradients_;             // by forward value, so far
  std::map<Value, Value> once_;
};

// Rule::through of operations whose gradient is that of their result.
inline Value pass_on(Gradients& gradients, Value reader, std::size_t /*i*/) {
  return gradients.of(reader);
}
// Rule::parameters of those whose parameters get theirs on the way to the gradient of the first
// input, unless that needs none.
inline void on_the_way(Gradients& gradients, Value v) {
  const Operation op = gradients.at(v);
  if (!gradients.has_gradient(op.inputs[0])) op.rule->through(gradients, v, 0);
}

}  // namespace atl
