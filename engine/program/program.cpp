#include "engine/program/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace atl {

namespace {

// By OpKind.
constexpr auto kTraits = std::to_array<OpTraits>({
    {"features", Reach::kRow, true, false},
    {"node parameters", Reach::kRow, true, false},
    {"parameter", Reach::kSmall, false, false},
    {"copy", Reach::kRow, true, false},
    {"linear", Reach::kRow, true, false},
    {"weight gradient", Reach::kSum, false, false},
    {"node gradient", Reach::kSum, false, false},
    {"sort by type", Reach::kWhole, true, false},
    {"linear by type", Reach::kWhole, true, false},
    {"weight gradient by type", Reach::kWhole, false, false},
    {"bias gradient by type", Reach::kWhole, false, false},
    {"aggregate", Reach::kHalo, true, false},
    {"combine", Reach::kRow, true, true},
    {"bias", Reach::kRow, true, true},
    {"bias gradient", Reach::kSum, false, true},
    {"activate", Reach::kRow, true, true},
    {"activate backward", Reach::kRow, true, true},
    {"maximum", Reach::kRow, true, true},
    {"maximum gradient", Reach::kRow, true, true},
    {"scale", Reach::kRow, true, true},
    {"scale gradient", Reach::kSum, false, false},
    {"scale by degree", Reach::kRow, true, false},
    {"head dots", Reach::kRow, true, false},
    {"head dots backward", Reach::kRow, true, false},
    {"head mean", Reach::kRow, true, false},
    {"head mean backward", Reach::kRow, true, false},
    {"edge scores", Reach::kRow, true, false, RowsOf::kEdges},
    {"edge scores gradient", Reach::kSum, false, false},
    {"attend", Reach::kHalo, true, false},
    {"coefficients", Reach::kRow, true, false, RowsOf::kEdges},
    {"attend backward, targets", Reach::kRow, true, false},
    {"attend backward, halo rows", Reach::kRow, true, false, RowsOf::kHalo},
    {"attend backward, sources", Reach::kHalo, true, false},
    {"aggregate relations", Reach::kHalo, true, false},
    {"relations backward, halo rows", Reach::kRow, true, false, RowsOf::kHalo},
    {"relations backward, sources", Reach::kHalo, true, false},
    {"pool", Reach::kHalo, true, false},
    {"pool backward, targets", Reach::kRow, true, false},
    {"pool slope", Reach::kRow, true, false},
    {"pool backward, halo rows", Reach::kRow, true, false, RowsOf::kHalo},
    {"pool backward, sources", Reach::kHalo, true, false},
    {"aggregate edges", Reach::kHalo, true, false},
    {"edges backward, halo rows", Reach::kRow, true, false, RowsOf::kHalo},
    {"edges backward, sources", Reach::kHalo, true, false},
    {"edges backward, terms", Reach::kSum, false, false},
    {"layer norm", Reach::kRow, true, false},
    {"layer norm backward", Reach::kRow, true, true},
    {"moments", Reach::kWhole, false, false},
    {"statistics", Reach::kSmall, false, false},
    {"inverse deviation", Reach::kSmall, false, false},
    {"normalise", Reach::kRow, true, true},
    {"norm sums", Reach::kWhole, false, true},
    {"norm backward", Reach::kRow, true, true},
    {"sum over ranks", Reach::kRanks, false, false},
    {"loss", Reach::kWhole, true, false},
    {"zero gradients", Reach::kSmall, false, false},
    {"composed gradients", Reach::kSmall, false, false},
    {"sum gradients", Reach::kRanks, false, false},
    {"step", Reach::kSmall, false, false},
    {"fetch computed", Reach::kWhole, false, false},
    {"take computed", Reach::kRow, true, false},
    {"place computed", Reach::kRow, false, false},
    {"store", Reach::kBeside, false, false},
    {"finish store", Reach::kBeside, false, false},
    {"fetch", Reach::kBeside, true, false},
    {"finish fetch", Reach::kBeside, true, true},
});

bool has_kind(const Program& program, OpKind kind) {
  return std::ranges::find(program.operations, kind, &Operation::kind) != program.operations.end();
}

// Attention, or, `with_self`, such where nodes attend to themselves.
bool attends_by_edge_features(const Program& program, bool with_self) {
  return std::ranges::any_of(program.operations, [&](const Operation& op) {
    return (op.kind == OpKind::kEdgeScores || op.multiplies_edge_features()) &&
           (!with_self || op.attention.with_self);
  });
}

}  // namespace

const OpTraits& traits_of(OpKind kind) { return kTraits[static_cast<std::size_t>(kind)]; }

bool Operation::has_rows() const { return traits_of(kind).has_rows || through != kNoValue; }

RowsOf Operation::rows_of() const {
  const bool fetched = kind == OpKind::kFetch || kind == OpKind::kFinishFetch;
  return fetched ? copied_rows : traits_of(kind).rows_of;
}

bool Operation::needs_messages() const { return traits_of(kind).reach == Reach::kHalo; }

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

bool reads_edge_features(const Program& program) {
  return has_kind(program, OpKind::kAggregateEdges) || attends_by_edge_features(program, false);
}

bool reads_mean_edge_features(const Program& program) {
  return attends_by_edge_features(program, true);
}

bool reads_node_types(const Program& program) { return has_kind(program, OpKind::kLinearByType); }

std::int64_t weight_rows(const Program& program, const Operation& product) {
  return product.transposed ? product.columns : program.at(product.inputs[0]).columns;
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
  const bool adds = op.kind == OpKind::kCombine && op.inputs.size() == 2 && op.first_factor == 1 &&
                    op.second_factor == 1;
  std::string text = fmt::format("%{} = {}", value, adds ? "add" : traits_of(op.kind).name);
  if (op.transposed) text += " transposed";
  if (op.of_second) text += " of second";
  if (op.kind == OpKind::kScaleByDegree) {
    text += op.degree_root == DegreeRoot::kSource ? " out^-1/2" : " in^1/2";
  }
  if (op.kind == OpKind::kAggregate) {
    text += fmt::format(" {} {} channel {}", to_string(op.normalisation), to_string(op.direction),
                        op.channel);
  }
  if (op.kind == OpKind::kAttend) {
    text += fmt::format(" {} heads {} channel {}", to_string(op.attention.score),
                        op.attention.heads, op.channel);
    if (op.attention.dropout > 0) text += fmt::format(" dropout {}", op.attention.dropout);
  }
  if (op.kind == OpKind::kAggregateRelations) {
    text += fmt::format(" {} channel {}", op.relations, op.channel);
  }
  if (op.kind == OpKind::kPool) {
    text += fmt::format(" {}", to_string(op.pool.kind));
    if (op.pool.kind == PoolKind::kSoftmax) text += fmt::format(" of {} x", op.pool.sharpness);
    if (op.pool.kind == PoolKind::kPowerMean) text += fmt::format(" of {}", op.pool.sharpness);
    text += fmt::format(" channel {}", op.channel);
  }
  if (op.returns_rows() || op.kind == OpKind::kAggregateEdges) {
    text += fmt::format(" channel {}", op.channel);
  }
  for (const Value input : op.inputs) text += fmt::format(" %{}", input);
  if (op.kind == OpKind::kCombine && !adds) {
    text += fmt::format(" times {}", op.first_factor);
    if (op.inputs.size() > 1) text += fmt::format(", {}", op.second_factor);
  }
  if (op.parameter >= 0) {
    text += " '" + program.parameters[static_cast<std::size_t>(op.parameter)].name + "'";
  }
  if (op.first_row > 0) text += fmt::format(" from row {}", op.first_row);
  if (op.through != kNoValue) text += fmt::format(", through activation %{}", op.through);
  if (op.added_to != kNoValue) text += fmt::format(", added to %{}", op.added_to);
  if (op.tail.statistics != kNoValue) {
    text += fmt::format(", normalise %{} %{}", op.tail.statistics, op.tail.gamma);
  }
  if (op.tail.bias != kNoValue) text += fmt::format(", bias %{}", op.tail.bias);
  if (op.tail.activation.function != ActivationFunction::kNone) {
    text += fmt::format(", {}", to_string(op.tail.activation.function));
  }
  if (op.tail.activation.dropout > 0) {
    text += fmt::format(", dropout {}", op.tail.activation.dropout);
  }
  if (op.constant) text += ", once";
  if (op.for_computed) text += ", computed rows too";
  if (op.for_placed) text += ", placed rows too";
  if (op.with_halo) text += ", halo rows too";
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
              : s.kind == Scope::Kind::kStep
                  ? "step\n"
                  : fmt::format("layer {} {}\n", s.layer, to_string(s.direction));
    }
    text += "  " + to_string(program, v) + "\n";
  }
  return text;
}

}  // namespace atl
