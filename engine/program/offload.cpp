#include "engine/program/offload.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// A value that is stored; scopes by their place in the program.
struct Candidate {
  Value value = kNoValue;
  int complete = 0;        // scope that writes it, or in which the halo rows arrive that are stored
  int last_read = 0;       // scope that reads it last before the loss
  int first_read = 0;      // scope that reads it first afterwards
  bool with_halo = false;  // backward reads the rows of neighbours again
};

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// In order of the scopes in which they are complete.
std::vector<Candidate> candidates_of(const Program& program) {
  const Value loss = program.forward_end();
  std::vector<Candidate> found;
  if (loss == program.size()) return found;
  const auto readers = readers_of(program);
  for (Value v = 0; v < loss; ++v) {
    const Operation& op = program.at(v);
    const Scope::Kind scope = program.scope_of(v).kind;
    const bool is_of_layer = scope == Scope::Kind::kLayer || scope == Scope::Kind::kInput;
    if (!is_of_layer || !op.has_rows() || op.constant || op.rule->is_leaf || op.is(rules::kCopy) ||
        op.decided.for_computed || op.decided.for_placed || op.decided.fetches_rest ||
        std::ranges::find(program.outputs, v) != program.outputs.end()) {
      continue;
    }
    Candidate candidate{.value = v, .complete = op.scope, .last_read = op.scope};
    bool is_read_again = false;
    bool is_gone = false;  // another operation adds to it, or needs computed rows of it
    for (const Value reader : readers[index(v)]) {
      const Operation& by = program.at(reader);
      is_gone =
          is_gone || by.decided.added_to == v || by.decided.for_computed || by.decided.for_placed;
      if (reader < loss) {
        candidate.last_read = std::max(candidate.last_read, by.scope);
        if (by.keeps_halo_of(v)) {
          candidate.complete = by.scope;
          candidate.with_halo = true;
        }
      } else if (!is_read_again) {
        candidate.first_read = by.scope;
        is_read_again = true;
      }
    }
    // At the loss, where memory is fullest, it is away: copied out a scope after it is made, and
    // back a scope before it is read.
    const int loss_scope = program.at(loss).scope;
    const int away = std::max(candidate.last_read, candidate.complete + 1);
    if (!is_read_again || is_gone || away >= loss_scope || candidate.first_read < loss_scope + 2) {
      continue;
    }
    found.push_back(candidate);
  }
  std::ranges::stable_sort(found, {}, &Candidate::complete);
  return found;
}

// Those scopes, without repetition.
std::vector<int> scopes_of(const std::vector<Candidate>& candidates) {
  std::vector<int> scopes;
  for (const Candidate& candidate : candidates) {
    if (scopes.empty() || scopes.back() != candidate.complete) scopes.push_back(candidate.complete);
  }
  return scopes;
}

class Offloader {
 public:
  Offloader(Program& program, int layers) : program_(program) {
    std::vector<Candidate> candidates = candidates_of(program);
    const std::vector<int> scopes = scopes_of(candidates);
    const int all = static_cast<int>(scopes.size());
    layers = std::min(layers, all);
    std::vector<int> chosen;
    for (int i = 0; i < layers; ++i) {
      chosen.push_back(scopes[index(static_cast<int>(std::int64_t{i} * all / layers))]);
    }
    for (const Candidate& candidate : candidates) {
      const auto at = std::ranges::find(chosen, candidate.complete);
      if (at == chosen.end()) continue;
      const int distance = at + 1 == chosen.end() ? 1 : at[1] - at[0];
      stores_[candidate.complete].push_back(candidate);
      finishes_stores_[candidate.complete + distance].push_back(candidate);
      const int loss = program.at(program.forward_end()).scope;
      const int ahead = std::min(distance, candidate.first_read - loss - 1);
      fetches_[candidate.first_read - ahead].push_back(candidate);
      finishes_fetches_[candidate.first_read].push_back(candidate);
    }
  }

  void run() {
    if (stores_.empty()) return;
    const Program before = program_;
    const Value loss = before.forward_end();
    renamed_.assign(before.operations.size(), kNoValue);
    program_.operations.clear();
    Value v = 0;
    for (int scope = 0; scope < static_cast<int>(before.scopes.size()); ++scope) {
      begin_scope(before, scope);
      for (; v < before.size() && before.at(v).scope == scope; ++v) {
        Operation op = before.at(v);
        for_each_read(op, [&](Value& read) {
          const auto fetched = fetched_.find(read);
          const bool again = v >= loss && fetched != fetched_.end();
          read = again ? fetched->second : renamed_[index(read)];
        });
        renamed_[index(v)] = program_.append_unchanged(std::move(op));
      }
      end_scope(scope);
    }
    ATOLL_ASSERT(v == before.size());
    for_each_named(program_, [&](Value& value) { value = renamed_[index(value)]; });
  }

 private:
  using ByScope = std::map<int, std::vector<Candidate>>;

  static const std::vector<Candidate>& of(const ByScope& all, int scope) {
    static const std::vector<Candidate> none;
    const auto found = all.find(scope);
    return found == all.end() ? none : found->second;
  }

  // Copies run in the order in which they begin, and who waits for one waits for all before: so
  // what is waited for comes first.
  void begin_scope(const Program& before, int scope) {
    for (const Candidate& c : of(finishes_fetches_, scope)) {
      Operation op = program_.at(fetching_.at(c.value));
      op.rule = &rules::kFinishFetch;
      op.inputs = {fetching_.at(c.value)};
      op.scope = scope;
      fetched_[c.value] = program_.append_unchanged(std::move(op));
    }
    for (const Candidate& c : of(fetches_, scope)) {
      const Operation& source = before.at(c.value);
      fetching_[c.value] = program_.append_unchanged({.rule = &rules::kFetch,
                                                      .inputs = {stored_.at(c.value)},
                                                      .columns = source.columns,
                                                      .rows = source.rows_of(),
                                                      .scope = scope,
                                                      .attributes = Copied{c.with_halo},
                                                      .packed = source.packed,
                                                      .wide = source.wide});
    }
  }

  void end_scope(int scope) {
    for (const Candidate& c : of(finishes_stores_, scope)) {
      const Value value = renamed_[index(c.value)];
      program_.append_unchanged({.rule = &rules::kFinishStore,
                                 .inputs = {stored_.at(c.value), value},
                                 .columns = program_.at(value).columns,
                                 .scope = scope});
    }
    for (const Candidate& c : of(stores_, scope)) {
      const Value value = renamed_[index(c.value)];
      stored_[c.value] = program_.append_unchanged({.rule = &rules::kStore,
                                                    .inputs = {value},
                                                    .columns = program_.at(value).columns,
                                                    .rows = program_.at(value).rows_of(),
                                                    .scope = scope,
                                                    .attributes = Copied{c.with_halo}});
    }
  }

  Program& program_;
  ByScope stores_, finishes_stores_;    // by the scope at whose end
  ByScope fetches_, finishes_fetches_;  // by the scope at whose start
  std::vector<Value> renamed_;          // by value before
  // Values before to those that store them, fetch them, and are what was fetched.
  std::map<Value, Value> stored_, fetching_, fetched_;
};

}  // namespace

int layers_to_offload(const Program& program) {
  return static_cast<int>(scopes_of(candidates_of(program)).size());
}

void offload_values(Program& program, const Offloading& offloading) {
  if (offloading.any()) Offloader(program, offloading.layers).run();
}

}  // namespace atl
