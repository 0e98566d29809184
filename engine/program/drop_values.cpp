#include "engine/program/drop_values.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace atl {

namespace {

class Dropper {
 public:
  Dropper(Program& program, const Dropping& dropping)
      : program_(program),
        dropping_(dropping),
        runs_(runs_of(dropping, static_cast<int>(program.layers.size()))),
        loss_(program.forward_end()) {}

  void run() {
    find_kept();
    find_needed();
    const Program before = program_;
    renamed_.assign(before.operations.size(), kNoValue);
    program_.operations.clear();
    program_.scopes.clear();
    int scope = -1;
    for (Value v = 0; v < before.size(); ++v) {
      if (before.at(v).scope != scope) {
        scope = before.at(v).scope;
        const Scope& is = before.scopes[index(scope)];
        const bool begins_run = is.kind == Scope::Kind::kLayer && v >= loss_ &&
                                runs_[index(is.layer)] > 0 &&
                                (index(is.layer) + 1 == runs_.size() ||
                                 runs_[index(is.layer)] != runs_[index(is.layer) + 1]);
        if (begins_run) compute_again(before, runs_[index(is.layer)]);
        program_.scopes.push_back(is);
      }
      append(before.at(v), v, run_of(before, v));
    }
    for_each_named(program_, [&](Value& value) { value = renamed_[index(value)]; });
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  // 0 for what belongs to no run that drops.
  int run_of(const Program& program, Value v) const {
    const Scope& scope = program.scope_of(v);
    return scope.kind == Scope::Kind::kLayer ? runs_[index(scope.layer)] : 0;
  }

  bool can_be_made_again(Value v) const {
    const Operation& op = program_.at(v);
    return v < loss_ && run_of(program_, v) > 0 && op.has_rows() && !op.constant &&
           !op.decided.for_computed && !op.decided.for_placed && !op.decided.fetches_rest;
  }

  // Values that are not dropped although its layer drops.
  void find_kept() {
    kept_.assign(program_.operations.size(), false);
    const auto keep = [&](Value v) { kept_[index(v)] = true; };
    for (Value v = 0; v < program_.size(); ++v) {
      if (!can_be_made_again(v)) keep(v);
    }
    for (Value v = 0; v < loss_; ++v) {
      const Operation& op = program_.at(v);
      if (dropping_.keeps_aggregates && aggregates(v)) keep(v);
      // Backward reads rows of neighbours again: they came with messages.
      if (op.rule->keeps_result) keep(v);
      for (const Value read : op.inputs) {
        if (op.keeps_halo_of(read)) keep(read);
      }
    }
    for (const Value output : program_.outputs) keep(output);
    // Also what another run reads, or what comes after the layers.
    for (Value v = 0; v < program_.size(); ++v) {
      for (const Value read : reads_of(program_.at(v))) {
        if (read < loss_ && run_of(program_, v) != run_of(program_, read)) keep(read);
      }
    }
    // The value that an operation adds to is gone when it has run.
    for (Value v = 0; v < loss_; ++v) {
      const Value gone = program_.at(v).decided.added_to;
      if (gone == kNoValue || !kept_[index(gone)] || !can_be_made_again(gone)) continue;
      kept_[index(gone)] = false;
      if (can_be_made_again(v)) keep(v);
    }
  }

  bool aggregates(Value v) const {
    const Operation& op = program_.at(v);
    return op.needs_messages() ||
           (op.decided.added_to != kNoValue && aggregates(op.decided.added_to));
  }

  // Dropped values that backward reads, and what these are made of.
  void find_needed() {
    needed_.assign(program_.operations.size(), false);
    const auto need = [&](Value read) {
      if (read < loss_ && !kept_[index(read)]) needed_[index(read)] = true;
    };
    for (Value v = loss_; v < program_.size(); ++v) {
      for (const Value read : reads_of(program_.at(v))) need(read);
    }
    for (Value v = loss_ - 1; v >= 0; --v) {
      if (!needed_[index(v)]) continue;
      for (const Value read : reads_of(program_.at(v))) {
        if (run_of(program_, read) == run_of(program_, v)) need(read);
      }
    }
  }

  // Also an empty scope for a layer that has nothing to do: programs of one model have the same
  // scopes, whatever the orders of its layers.
  void compute_again(const Program& before, int run) {
    int scope = -1;
    for (Value v = 0; v < loss_; ++v) {
      if (run_of(before, v) != run) continue;
      if (before.at(v).scope != scope) {
        scope = before.at(v).scope;
        program_.scopes.push_back(before.scopes[index(scope)]);
      }
      if (needed_[index(v)]) append(before.at(v), v, run, &again_);
    }
  }

  void append(Operation op, Value old, int run, std::map<Value, Value>* into = nullptr) {
    const bool reads_again = into != nullptr || (old >= loss_ && run > 0);
    for_each_read(op, [&](Value& read) {
      const auto again = again_.find(read);
      read = reads_again && again != again_.end() ? again->second : renamed_[index(read)];
    });
    op.scope = static_cast<int>(program_.scopes.size()) - 1;
    const Value made = program_.append_unchanged(std::move(op));
    if (into != nullptr) {
      (*into)[old] = made;
    } else {
      renamed_[index(old)] = made;
    }
  }

  Program& program_;
  const Dropping dropping_;
  std::vector<int> runs_;  // by layer
  Value loss_;
  std::vector<bool> kept_, needed_;  // by value before
  std::vector<Value> renamed_;       // by value before
  std::map<Value, Value> again_;     // dropped values before to those that are made again
};

}  // namespace

std::vector<int> runs_of(const Dropping& dropping, int layers) {
  std::vector<int> runs(static_cast<std::size_t>(layers), 0);
  if (!dropping.any()) return runs;
  int run = 0;
  int left = dropping.last_run;
  for (std::size_t l = runs.size(); l-- > 0; --left) {
    if (left == 0) {
      ++run;
      left = dropping.last_run + run / 2;
    }
    runs[l] = run;
  }
  return runs;
}

void drop_values(Program& program, const Dropping& dropping) {
  if (dropping.any()) Dropper(program, dropping).run();
}

}  // namespace atl
