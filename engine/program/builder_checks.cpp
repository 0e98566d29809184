// Needs of the builder's operations on their arguments: a model's function may give anything.
#include <map>

#include "base/error.hpp"
#include "engine/program/builder.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

std::string name_of_layer(int layer, const std::string& convolution) {
  return convolution.empty() ? fmt::format("layer {}", layer)
                             : fmt::format("layer {} ({})", layer, convolution);
}

std::string Builder::place() const {
  if (program_.scopes.empty()) return "model";  // finished
  switch (program_.scopes.back().kind) {
    case Scope::Kind::kInput:
      return "input layer";
    case Scope::Kind::kHead:
      return "head";
    case Scope::Kind::kDecoder:
      return fmt::format("decoder layer {}", program_.scopes.back().layer);
    default:
      return name_of_layer(layer(), convolutions_.back());
  }
}

void Builder::refuse(const char* operation, const std::string& why) const {
  fail_option("{}: {}: {}", place(), operation, why);
}

bool Builder::has_rows(Value x) const {
  if (x < 0 || x >= program_.size()) return false;
  const Operation& op = program_.at(x);
  const bool any_reads_them = op.rows_of() == RowsOf::kNodes || op.rows_of() == RowsOf::kPairs;
  return op.has_rows() && any_reads_them && !op.packed && !op.wide;
}

std::string Builder::described(Value x) const {
  if (x == kNoValue) return "no value";
  if (x < 0 || x >= program_.size()) return fmt::format("value {}, which this model lacks", x);
  const Operation& op = program_.at(x);
  if (op.is(rules::kParameter)) {
    const DeclaredParameter& p = declared(x);
    return fmt::format("the parameter {} [{}, {}]", p.name, p.rows, p.columns);
  }
  const std::string name = op.rule->name;
  if (op.packed) return fmt::format("'{}', which only a product may read", name);
  if (op.wide) return fmt::format("'{}', which only attend may read", name);
  return fmt::format("'{}' of {} columns", name, op.columns);
}

void Builder::check_rows(const char* operation, const char* argument, Value x) const {
  if (has_rows(x)) return;
  refuse(operation,
         fmt::format("{} is {}; needed is a value with a row per node", argument, described(x)));
}

void Builder::check_same_columns(const char* operation, Value a, Value b) const {
  check_rows(operation, "a", a);
  check_rows(operation, "b", b);
  if (program_.at(a).columns == program_.at(b).columns) return;
  refuse(operation, fmt::format("a has {} columns, b has {}; needed are as many of each",
                                program_.at(a).columns, program_.at(b).columns));
}

bool Builder::is_parameter(Value x) const {
  return x >= 0 && x < program_.size() && program_.at(x).is(rules::kParameter);
}

const DeclaredParameter& Builder::declared(Value x) const {
  return program_.parameters[static_cast<std::size_t>(program_.at(x).parameter)];
}

void Builder::check_parameter(const char* operation, const char* argument, Value x,
                              std::int64_t rows, std::int64_t columns) const {
  const auto fits = [](std::int64_t needed, std::int64_t found) {
    return needed == kAnyCount || needed == found;
  };
  if (is_parameter(x) && fits(rows, declared(x).rows) && fits(columns, declared(x).columns)) return;
  const auto text = [](std::int64_t count) {
    return count == kAnyCount ? "any" : fmt::format("{}", count);
  };
  refuse(operation, fmt::format("{} is {}; needed is a parameter [{}, {}]", argument, described(x),
                                text(rows), text(columns)));
}

void Builder::check_product(Value x, Value weight) const {
  constexpr const char* kName = "linear";
  // Relations side by side are what products are for.
  if (x < 0 || x >= program_.size() || !program_.at(x).packed) check_rows(kName, "x", x);
  check_parameter(kName, "weight", weight, program_.at(x).columns, kAnyCount);
  const DeclaredParameter& p = declared(weight);
  if (p.initialisation == Initialisation::kGlorotUniform || p.composition.present()) return;
  refuse(kName, fmt::format("weight is {}; needed is one that weight, stacked_weight or "
                            "composed_weight gave",
                            described(weight)));
}

void Builder::check_count(const char* operation, const char* argument, std::int64_t count,
                          std::int64_t in_dataset) const {
  if (count < 1) {
    refuse(operation, fmt::format("{} is {}; allowed are 1 and more", argument, count));
  }
  if (in_dataset == kAnyCount || count == in_dataset) return;
  refuse(operation, fmt::format("{} is {}; the dataset has {}", argument, count, in_dataset));
}

void Builder::check_heads(const char* operation, Value x, int heads) const {
  check_count(operation, "heads", heads);
  if (program_.at(x).columns % heads == 0) return;
  refuse(operation,
         fmt::format("{} columns can't be divided among {} heads", program_.at(x).columns, heads));
}

void Builder::check_dropout(const char* operation, double rate) const {
  if (rate >= 0 && rate < 1) return;
  refuse(operation, fmt::format("dropout is {}; allowed are 0 to below 1", rate));
}

void Builder::check_in_layer(const char* operation) const {
  if (program_.scopes.back().kind == Scope::Kind::kLayer) return;
  refuse(operation, "only a layer may read rows of neighbours");
}

void Builder::check_attention(const AttentionOptions& options, Value z, Value t, Value vector,
                              Value of_edges) const {
  constexpr const char* kName = "attend";
  check_in_layer(kName);
  check_rows(kName, "z", z);
  check_heads(kName, z, options.heads);
  check_dropout(kName, options.dropout);
  if (!is_trained(z)) {
    refuse(kName, fmt::format("z is {}, which depends on no parameter; give it a product of its "
                              "own",
                              described(z)));
  }
  const std::int64_t columns = program_.at(z).columns;
  const auto is = [&](Value x, const Rule& kind) {
    return x >= 0 && x < program_.size() && program_.at(x).is(kind) &&
           program_.at(x).columns == options.heads;
  };
  if (options.score == AttentionScore::kAdditive) {
    if (!is(t, rules::kHeadDots)) {
      refuse(kName,
             fmt::format("t is {}; needed is head_dots of {} heads", described(t), options.heads));
    }
  } else {
    check_rows(kName, "t", t);
    if (program_.at(t).columns != columns) {
      refuse(kName, fmt::format("t has {} columns, z has {}; needed are as many of each",
                                program_.at(t).columns, columns));
    }
  }
  if (options.score == AttentionScore::kDot) {
    if (vector != kNoValue || of_edges != kNoValue) {
      refuse(kName, fmt::format("{} is {}; scores of dot need none",
                                vector != kNoValue ? "vector" : "of_edges",
                                described(vector != kNoValue ? vector : of_edges)));
    }
    return;
  }
  check_parameter(kName, "vector", vector, options.heads, columns / options.heads);
  if (of_edges == kNoValue) return;
  if (options.score == AttentionScore::kGatv2) {
    check_parameter(kName, "of_edges", of_edges, edges_.features, columns);
  } else if (!is(of_edges, rules::kEdgeScores) ||
             program_.at(of_edges).as<AttentionOptions>().with_self != options.with_self) {
    refuse(kName, fmt::format("of_edges is {}; needed is edge_scores with the same options",
                              described(of_edges)));
  }
}

void Builder::check_own(const Rule& rule, std::span<const Value> inputs) const {
  if (rule.name == nullptr || rule.lower == nullptr) {
    refuse("own_operation", "the rule lacks a name or lower");
  }
  if (rule.reach != Reach::kRow || !rule.has_rows || rule.rows_of != RowsOf::kNodes) {
    refuse("own_operation",
           fmt::format("'{}' must work on rows of nodes, each from the same row", rule.name));
  }
  const bool fuses = rule.adds || rule.takes_tail || rule.is_tail || rule.sums_gradient;
  const bool has_halo = rule.part != Part::kNone || rule.keeps_halo || rule.fills_halo != nullptr;
  if (rule.is_leaf || fuses || has_halo || (rule.span != nullptr && *rule.span != '\0')) {
    refuse("own_operation",
           fmt::format("the rule of '{}' says more than name, may_be_in, lower, through and print",
                       rule.name));
  }
  if (inputs.empty()) refuse("own_operation", fmt::format("'{}' reads nothing", rule.name));
  bool trained = false;
  for (const Value input : inputs) {
    check_rows(rule.name, "an input", input);
    trained = trained || is_trained(input);
  }
  if (trained && rule.through == nullptr) {
    refuse("own_operation",
           fmt::format("the rule of '{}' lacks through, which a value that depends on parameters "
                       "needs",
                       rule.name));
  }
}

// Backward reads the rows of neighbours that came for some aggregates once more: other messages
// must not have overwritten them. And it goes through relations by the one product that reads them.
void Builder::check_readers() const {
  std::map<Value, int> aggregates;
  std::map<Value, int> products;  // by what relations give
  for (const Operation& op : program_.operations) {
    if (op.needs_messages()) ++aggregates[op.inputs[0]];
    if (op.is(rules::kLinear) && program_.at(op.inputs[0]).packed) ++products[op.inputs[0]];
  }
  const auto refuse_value = [&](Value v, const std::string& why) {
    const int of = program_.scope_of(v).layer;
    fail_option("{}: '{}' {}", name_of_layer(of, convolutions_[static_cast<std::size_t>(of)]),
                program_.at(v).rule->name, why);
  };
  for (Value v = 0; v < program_.size(); ++v) {
    const Operation& op = program_.at(v);
    if (op.packed && products[v] != 1) {
      refuse_value(v, fmt::format("is read by {} products; needed is one", products[v]));
    }
    if (!op.rule->keeps_halo || aggregates[op.inputs[0]] == 1) continue;
    refuse_value(v, fmt::format("reads a value that {} aggregates read; allowed is one: give each "
                                "a product of its own",
                                aggregates[op.inputs[0]]));
  }
}

}  // namespace atl
