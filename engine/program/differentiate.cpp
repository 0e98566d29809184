#include "engine/program/differentiate.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"

namespace atl {

namespace {

class Differentiation {
 public:
  explicit Differentiation(Program& program)
      : program_(program),
        forward_size_(program.size()),
        readers_(readers_of(program)),
        trained_(program.operations.size(), false),
        gradients_(program.operations.size(), kNoValue) {
    for (Value v = 0; v < forward_size_; ++v) {
      const Operation& op = program_.at(v);
      trained_[index(v)] = op.kind == OpKind::kParameter || op.kind == OpKind::kNodeParameters ||
                           any_read(op, [&](Value read) { return trained_[index(read)]; });
    }
  }

  void run() {
    const auto forward_scopes = static_cast<int>(program_.scopes.size());
    begin_scope({Scope::Kind::kLoss, -1, Direction::kBackward});
    // Before the loss, which may add to gradients of parameters that only it reads.
    append({.kind = OpKind::kZeroGradients});
    const Value logits = program_.logits;
    gradients_[index(logits)] =
        append({.kind = OpKind::kLoss, .inputs = {logits}, .columns = program_.at(logits).columns});
    for (int scope = forward_scopes - 1; scope >= 0; --scope) back_through(scope);
    begin_scope({Scope::Kind::kStep, -1, Direction::kBackward});
    const bool composes = std::ranges::any_of(
        program_.parameters, [](const auto& p) { return p.composition.present(); });
    if (composes) append({.kind = OpKind::kComposedGradients});
    append({.kind = OpKind::kSumGradients});
    append({.kind = OpKind::kStep});
  }

 private:
  static std::size_t index(Value value) { return static_cast<std::size_t>(value); }

  void begin_scope(Scope scope) { program_.scopes.push_back(scope); }

  Value append(Operation operation) {
    operation.scope = static_cast<int>(program_.scopes.size()) - 1;
    program_.operations.push_back(std::move(operation));
    return program_.size() - 1;
  }

  bool has_gradient(Value value) const {
    return trained_[index(value)] && traits_of(program_.at(value).kind).has_rows;
  }

  void back_through(int scope) {
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
      add_parameter_gradient(v);
    }
    for (const Value v : earlier) add_terms(v, scope);
  }

  // Adds what readers in `scope` pass down to the gradient of v.
  void add_terms(Value v, int scope) {
    for (const Value reader : readers_[index(v)]) {
      if (program_.at(reader).scope != scope || gradients_[index(reader)] == kNoValue) continue;
      const std::vector<Value> inputs = program_.at(reader).inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != v) continue;
        const Value term = gradient_through(reader, i);
        if (term == kNoValue) continue;
        const Operation& by = program_.at(reader);
        const float factor = by.kind != OpKind::kCombine ? 1
                             : i == 0                    ? by.first_factor
                                                         : by.second_factor;
        add_term(gradients_[index(v)], term, factor, program_.at(v).columns);
      }
    }
  }

  // sum += factor * term, in this order.
  void add_term(Value& sum, Value term, float factor, std::int64_t columns) {
    Operation op{.kind = OpKind::kCombine, .columns = columns, .ordered = true};
    if (sum != kNoValue) {
      op.inputs = {sum, term};
      op.second_factor = factor;
    } else if (factor != 1) {
      op.inputs = {term};
      op.first_factor = factor;
    } else {
      sum = term;
      return;
    }
    sum = append(op);
  }

  // What the gradient of `reader` gives for its input number i, but for its factor; kNoValue:
  // nothing.
  Value gradient_through(Value reader, std::size_t i) {
    const Operation op = program_.at(reader);
    const Value v = op.inputs[i];
    const Value dy = gradients_[index(reader)];
    const std::int64_t columns = program_.at(v).columns;
    switch (op.kind) {
      case OpKind::kLinear:
        return append({.kind = OpKind::kLinear,
                       .inputs = {dy, op.inputs[1]},
                       .columns = columns,
                       .parameter = op.parameter,
                       .transposed = true,
                       .first_row = op.first_row});
      case OpKind::kSortByType:
        return append({.kind = OpKind::kSortByType,
                       .inputs = {dy},
                       .columns = columns,
                       .transposed = !op.transposed});
      case OpKind::kAggregate:
        return append({.kind = OpKind::kAggregate,
                       .inputs = {dy},
                       .columns = columns,
                       .normalisation = op.normalisation,
                       .direction = Direction::kBackward,
                       .channel = op.channel});
      case OpKind::kCopy:
      case OpKind::kCombine:
      case OpKind::kBias:
        return dy;
      case OpKind::kActivate:
        return through_activation(op, reader, dy);
      case OpKind::kMaximum:
        return append({.kind = OpKind::kMaximumGradient,
                       .inputs = {dy, op.inputs[0], op.inputs[1]},
                       .columns = columns,
                       .of_second = i == 1});
      case OpKind::kScale:
        return append({.kind = OpKind::kScale,
                       .inputs = {dy, op.inputs[1]},
                       .columns = columns,
                       .parameter = op.parameter});
      case OpKind::kScaleByDegree:
        return append({.kind = OpKind::kScaleByDegree,
                       .inputs = {dy},
                       .columns = columns,
                       .attention = op.attention,
                       .degree_root = op.degree_root});
      case OpKind::kHeadDots:
        return append({.kind = OpKind::kHeadDotsBackward,
                       .inputs = {dy, v, op.inputs[1]},
                       .columns = columns,
                       .parameter = op.parameter,
                       .attention = op.attention});
      case OpKind::kHeadMean:
        return append({.kind = OpKind::kHeadMeanBackward,
                       .inputs = {dy},
                       .columns = columns,
                       .attention = op.attention});
      case OpKind::kAttend:
        // The gradient of its scores of sources is in that of z.
        return i == 0   ? through_sources(reader, dy)
               : i == 1 ? through_targets(reader, dy)
                        : kNoValue;
      case OpKind::kAggregateRelations:
        return through_relations(op, dy, columns);
      case OpKind::kPool:
        return through_pool(op, reader, dy);
      case OpKind::kAggregateEdges:
        return through_edges(op, dy);
      case OpKind::kLayerNorm:
        return append({.kind = OpKind::kLayerNormBackward,
                       .inputs = {dy, v, op.inputs[1]},
                       .columns = columns,
                       .parameter = op.parameter,
                       .second_parameter = op.second_parameter});
      case OpKind::kNormalise:
        return through_batch_norm(op, dy, v);
      case OpKind::kMoments:  // what depends on them is in the gradient through kNormalise
        return kNoValue;
      default:
        ATOLL_ASSERT(false, "no gradient through {}", traits_of(op.kind).name);
    }
    return kNoValue;
  }

  // Dropout alone keeps nothing: its gradient falls by the same random numbers.
  Value through_activation(const Operation& activate, Value y, Value dy) {
    const Activation& activation = activate.tail.activation;
    Operation op{.kind = OpKind::kActivate,
                 .inputs = {dy},
                 .columns = activate.columns,
                 .tail = {.activation = activation}};
    if (activation.function == ActivationFunction::kNone) return append(op);
    op.kind = OpKind::kActivateBackward;
    op.inputs.push_back(activation.function == ActivationFunction::kGelu ? activate.inputs[0] : y);
    return append(op);
  }

  // What both halves of the gradient of attention have in common.
  Operation part_of_attention(OpKind kind, const Operation& attend) const {
    return {.kind = kind,
            .columns = attend.columns,
            .parameter = attend.parameter,
            .second_parameter = attend.second_parameter,
            .normalisation = attend.normalisation,
            .direction = Direction::kBackward,
            .channel = attend.channel,
            .attention = attend.attention};
  }

  // The half along the in-edges, which comes first whichever is asked for first.
  Value through_targets(Value reader, Value dy) {
    const auto made = targets_.find(reader);
    if (made != targets_.end()) return made->second;
    const Operation attend = program_.at(reader);
    Operation room = part_of_attention(OpKind::kCoefficients, attend);
    room.parameter = room.second_parameter = -1;
    room.columns = 2 * std::int64_t{attend.attention.heads};
    room.wide = true;
    const Value coefficients = append(room);
    Operation targets = part_of_attention(OpKind::kAttendTargets, attend);
    const Operation& t = program_.at(attend.inputs[1]);
    targets.columns = t.columns;
    targets.wide = t.wide;
    targets.inputs = {dy, coefficients};
    targets.inputs.insert(targets.inputs.end(), attend.inputs.begin(), attend.inputs.end());
    return targets_[reader] = append(targets);
  }

  // The half along the out-edges, with the rows that travel back.
  Value through_sources(Value reader, Value dy) {
    const Value targets = through_targets(reader, dy);
    const Operation attend = program_.at(reader);
    // The targets' half is read for the coefficients, which it has filled.
    std::vector<Value> reads = {dy, program_.at(targets).inputs[1], targets};
    reads.insert(reads.end(), attend.inputs.begin(), attend.inputs.end());
    Operation halo = part_of_attention(OpKind::kAttendHalo, attend);
    halo.inputs = reads;
    reads.insert(reads.begin(), append(halo));
    Operation sources = part_of_attention(OpKind::kAttendSources, attend);
    sources.inputs = reads;
    return append(sources);
  }

  Value through_relations(const Operation& aggregate, Value dy, std::int64_t columns) {
    ATOLL_ASSERT(program_.at(dy).kind == OpKind::kLinear, "{}", to_string(program_, dy));
    program_.at(dy).packed = true;
    Operation part{.kind = OpKind::kRelationsHalo,
                   .inputs = {dy},
                   .columns = columns,
                   .normalisation = aggregate.normalisation,
                   .direction = Direction::kBackward,
                   .channel = aggregate.channel};
    const Value halo = append(part);
    part.kind = OpKind::kRelationsSources;
    part.inputs = {halo, dy};
    return append(part);
  }

  Value through_pool(const Operation& pool, Value y, Value dy) {
    const Value x = pool.inputs[0];
    Operation part{.kind = OpKind::kPoolTargets,
                   .inputs = {dy, y, x},
                   .columns = pool.columns,
                   .parameter = pool.parameter,
                   .normalisation = pool.normalisation,
                   .direction = Direction::kBackward,
                   .channel = pool.channel,
                   .pool = pool.pool,
                   .wide = true};
    const Value g = append(part);
    part.wide = false;
    part.kind = OpKind::kPoolHalo;
    part.inputs = {g, y, x};
    const Value halo = append(part);
    part.kind = OpKind::kPoolSources;
    part.inputs = {halo, g, y, x};
    return append(part);
  }

  Operation part_of_edges(OpKind kind, const Operation& aggregate,
                          std::vector<Value> gradients) const {
    gradients.insert(gradients.end(), aggregate.inputs.begin(), aggregate.inputs.end());
    return {.kind = kind,
            .inputs = std::move(gradients),
            .columns = aggregate.columns,
            .parameter = aggregate.parameter,
            .second_parameter = aggregate.second_parameter,
            .normalisation = aggregate.normalisation,
            .direction = Direction::kBackward,
            .channel = aggregate.channel};
  }

  Value through_edges(const Operation& aggregate, Value dy) {
    const Value halo = append(part_of_edges(OpKind::kEdgesHalo, aggregate, {dy}));
    return append(part_of_edges(OpKind::kEdgesSources, aggregate, {halo, dy}));
  }

  Value through_batch_norm(const Operation& normalise, Value dy, Value x) {
    Operation part{.columns = normalise.columns,
                   .parameter = normalise.parameter,
                   .second_parameter = normalise.second_parameter,
                   .norm = normalise.norm};
    part.kind = OpKind::kNormSums;
    part.inputs = {dy, x, normalise.tail.statistics};
    const Value sums = append(part);
    part.kind = OpKind::kSumRanks;
    part.inputs = {sums};
    const Value all = append(part);
    part.kind = OpKind::kNormBackward;
    part.inputs = {dy, x, normalise.tail.statistics, normalise.tail.gamma, all};
    return append(part);
  }

  void add_parameter_gradient(Value v) {
    const Operation op = program_.at(v);
    const Value dy = gradients_[index(v)];
    if (dy == kNoValue) return;
    if (op.kind == OpKind::kNodeParameters) {
      append({.kind = OpKind::kNodeGradient,
              .inputs = {dy},
              .columns = op.columns,
              .parameter = op.parameter});
    } else if (op.kind == OpKind::kLinear) {
      append({.kind = OpKind::kWeightGradient,
              .inputs = {op.inputs[0], dy},
              .columns = op.columns,
              .parameter = op.parameter,
              .first_row = op.first_row});
    } else if (op.kind == OpKind::kLinearByType) {
      append({.kind = OpKind::kWeightGradientByType,
              .inputs = {op.inputs[0], dy},
              .columns = op.columns,
              .parameter = op.parameter});
      append({.kind = OpKind::kBiasGradientByType,
              .inputs = {dy},
              .columns = op.columns,
              .parameter = op.second_parameter});
    } else if (op.kind == OpKind::kBias) {
      append({.kind = OpKind::kBiasGradient,
              .inputs = {dy},
              .columns = op.columns,
              .parameter = op.parameter});
    } else if (op.kind == OpKind::kLayerNorm || op.kind == OpKind::kNormalise ||
               op.kind == OpKind::kHeadDots) {
      // On the way to the gradient of what it normalises, unless that needs none.
      if (!has_gradient(op.inputs[0])) gradient_through(v, 0);
    } else if (op.kind == OpKind::kAggregateEdges) {
      append(part_of_edges(OpKind::kEdgesTerms, op, {dy}));
    } else if (op.kind == OpKind::kAttend && op.edge_scores() != kNoValue) {
      const Value targets = through_targets(v, dy);
      append({.kind = OpKind::kEdgeScoresGradient,
              .inputs = {program_.at(targets).inputs[1], targets},
              .columns = op.attention.heads,
              .parameter = program_.at(op.edge_scores()).parameter,
              .attention = op.attention});
    } else if (op.kind == OpKind::kPool && op.parameter >= 0) {
      const Value slope = append({.kind = OpKind::kPoolSlope,
                                  .inputs = {v, op.inputs[0]},
                                  .columns = op.columns,
                                  .parameter = op.parameter,
                                  .normalisation = op.normalisation,
                                  .direction = Direction::kBackward,
                                  .channel = op.channel,
                                  .pool = op.pool});
      append({.kind = OpKind::kScaleGradient,
              .inputs = {slope, dy},
              .columns = op.columns,
              .parameter = op.parameter});
    } else if (op.kind == OpKind::kScale) {
      append({.kind = OpKind::kScaleGradient,
              .inputs = {op.inputs[0], dy},
              .columns = op.columns,
              .parameter = op.parameter});
    }
  }

  Program& program_;
  int forward_size_;
  std::vector<std::vector<Value>> readers_;  // of forward values
  std::vector<bool> trained_;                // by forward value: it depends on a parameter
  std::vector<Value> gradients_;             // by forward value, so far
  std::map<Value, Value> targets_;           // by kAttend: its kAttendTargets
};

}  // namespace

void differentiate(Program& program) { Differentiation(program).run(); }

}  // namespace atl
