#include "engine/program/stages.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/work.hpp"

namespace atl {

namespace {

// Seconds of a call, about: stages are compared with one another, on one machine.
double cost_of(const SpanWork& work) {
  constexpr double kFlops = 50e9;
  constexpr double kBytes = 10e9;
  return std::max(work.flops / kFlops, work.bytes / kBytes);
}

// Operations of the whole epoch stand on every stage.
bool is_everywhere(const Program& program, Value v) {
  return program.scope_of(v).kind == Scope::Kind::kStep || program.at(v).is(rules::kZeroGradients);
}

// Computed by each stage that reads it, and not sent.
bool comes_first(const Program& program, Value v) {
  const Scope& scope = program.scope_of(v);
  return !program.at(v).rule->is_leaf && scope.kind == Scope::Kind::kInput &&
         scope.direction == Direction::kForward;
}

bool is_of_input_backward(const Program& program, Value v) {
  const Scope& scope = program.scope_of(v);
  return !program.at(v).rule->is_leaf && scope.kind == Scope::Kind::kInput &&
         scope.direction == Direction::kBackward;
}

// Gradients of what comes first that are sums over layers, as of the first row in GCNII. All that
// is made of them is linear in them, and gradients of parameters are added up over ranks. So each
// stage takes its own terms back to the input, and sends them to nobody.
class InputSums {
 public:
  explicit InputSums(const Program& program) : program_(program), readers_(readers_of(program)) {
    const auto takes_back = [&](Value reader) { return is_of_input_backward(program, reader); };
    for (Value v = program.forward_end() + 1; v < program.size(); ++v) {
      const std::span<const Value> readers = read_by(v);
      if (takes_back(v) || !program.at(v).has_rows() || std::ranges::none_of(readers, takes_back)) {
        continue;
      }
      if (!std::ranges::all_of(readers, takes_back)) {
        // A layer needs it, too, of all stages: then the first stage has the input alone.
        sums_.clear();
        return;
      }
      std::vector<Value>& sum = sums_.emplace_back(1, v);
      for (Value term = before(v); term != kNoValue; term = before(term)) sum.push_back(term);
    }
  }

  // No: the first stage alone takes gradients back to the input.
  bool any() const { return !sums_.empty(); }
  // By layer: whether it has terms.
  std::vector<bool> layers() const {
    std::vector<bool> layers(program_.layers.size(), false);
    for (const std::vector<Value>& sum : sums_) {
      for (const Value v : sum) {
        const int layer = program_.scope_of(v).layer;
        layers[layer < 0 ? layers.size() - 1 : static_cast<std::size_t>(layer)] = true;
      }
    }
    return layers;
  }
  bool has_terms(const StageCut& cut, int stage) const {
    return std::ranges::any_of(
        sums_, [&](const std::vector<Value>& sum) { return last_on(sum, cut, stage) != kNoValue; });
  }
  // Whether it would be sent from one stage to another to be added to there.
  bool is_partial(Value v) const {
    return std::ranges::any_of(sums_, [&](const std::vector<Value>& sum) {
      return std::ranges::find(sum.begin() + 1, sum.end(), v) != sum.end();
    });
  }
  // Before its layers: sums that begin on this stage, and on later ones in the whole program.
  std::vector<Fill> begins(const StageCut& cut, int stage) const {
    std::vector<Fill> fills;
    for (const std::vector<Value>& sum : sums_) {
      for (std::size_t i = 1; i < sum.size(); ++i) {
        if (is_on(sum[i - 1], cut, stage) && !is_on(sum[i], cut, stage)) {
          fills.push_back({kNoValue, sum[i]});
        }
      }
    }
    return fills;
  }
  // Behind its layers: what the gradients of the input read.
  std::vector<Fill> ends(const StageCut& cut, int stage) const {
    std::vector<Fill> fills;
    for (const std::vector<Value>& sum : sums_) {
      const Value own = last_on(sum, cut, stage);
      if (own != sum.front()) fills.push_back({own, sum.front()});
    }
    return fills;
  }

 private:
  std::span<const Value> read_by(Value v) const { return readers_[static_cast<std::size_t>(v)]; }
  // To which the terms of its own are added, by nobody else; none: kNoValue.
  Value before(Value v) const {
    const Operation& op = program_.at(v);
    if (!op.tail.absent() || op.decided.through != kNoValue) return kNoValue;
    Value before = op.decided.added_to;
    if (before == kNoValue && op.is(rules::kCombine) && op.inputs.size() == 2 &&
        op.as<Combination>().first_factor == 1) {
      before = op.inputs[0];
    }
    // Once, and nobody else.
    const auto reads =
        std::ranges::count(op.inputs, before) + (op.decided.added_to == before ? 1 : 0);
    if (before == kNoValue || reads != 1 || read_by(before).size() != 1) return kNoValue;
    return before > program_.forward_end() ? before : kNoValue;
  }
  bool is_on(Value v, const StageCut& cut, int stage) const {
    return cut.stage_of(program_.scope_of(v)) == stage;
  }
  // The sum over the layers of this stage.
  Value last_on(const std::vector<Value>& sum, const StageCut& cut, int stage) const {
    const auto found = std::ranges::find_if(sum, [&](Value v) { return is_on(v, cut, stage); });
    return found == sum.end() ? kNoValue : *found;
  }

  const Program& program_;
  std::vector<std::vector<Value>> readers_;
  std::vector<std::vector<Value>> sums_;  // each as it grows, the last one first
};

// Work that several stages have: what comes first, where they read it, and its gradients.
class SharedWork {
 public:
  SharedWork(const Program& program, int stages, const StageSeconds& seconds)
      : layers_(program.layers.size()) {
    const std::vector<bool> with_terms = InputSums(program).layers();
    std::vector<std::vector<bool>> read_by(program.operations.size(), with_terms);
    for (Value v = program.size(); v-- > 0;) {
      const Operation& op = program.at(v);
      if (op.rule->is_leaf) continue;
      const Scope& scope = program.scope_of(v);
      std::vector<bool>& own = read_by[static_cast<std::size_t>(v)];
      if (comes_first(program, v)) {
        own.assign(layers_, false);
      } else if (is_of_input_backward(program, v)) {
        own.front() = true;
      } else {
        own.assign(layers_, false);
        own[scope.kind == Scope::Kind::kLayer ? static_cast<std::size_t>(scope.layer)
                                              : layers_ - 1] = true;
      }
    }
    for (Value v = program.size(); v-- > 0;) {
      if (program.at(v).rule->is_leaf) continue;
      const std::vector<bool>& own = read_by[static_cast<std::size_t>(v)];
      for_each_read(program.at(v), [&](Value read) {
        if (!comes_first(program, read)) return;
        std::vector<bool>& layers = read_by[static_cast<std::size_t>(read)];
        for (std::size_t l = 0; l < layers_; ++l) layers[l] = layers[l] || own[l];
      });
    }
    for (Value v = 0; v < program.size(); ++v) {
      const bool is_shared = comes_first(program, v) || is_of_input_backward(program, v);
      if (!is_shared || program.at(v).constant) continue;
      Work& work = work_.emplace_back(Work{{}, std::vector<int>(layers_ + 1, 0)});
      for (int s = 0; s < stages; ++s) work.seconds.push_back(seconds(s, {v, Rows::kAll}));
      const std::vector<bool>& layers = read_by[static_cast<std::size_t>(v)];
      for (std::size_t l = 0; l < layers_; ++l) {
        work.layers_before[l + 1] = work.layers_before[l] + (layers[l] ? 1 : 0);
      }
    }
  }

  // That a stage of these layers takes for it.
  double seconds_of(std::size_t stage, std::size_t from, std::size_t end) const {
    double sum = 0;
    for (const Work& work : work_) {
      if (work.layers_before[end] > work.layers_before[from]) sum += work.seconds[stage];
    }
    return sum;
  }

 private:
  struct Work {
    std::vector<double> seconds;     // by stage
    std::vector<int> layers_before;  // by layer: how many of the layers before it need it
  };
  std::size_t layers_;
  std::vector<Work> work_;
};

// By value: whether the stage runs it.
std::vector<bool> run_by(const Program& program, const StageCut& cut, int stage) {
  std::vector<bool> runs(program.operations.size(), false);
  const bool takes_back = InputSums(program).has_terms(cut, stage);
  for (Value v = program.size(); v-- > 0;) {
    const Operation& op = program.at(v);
    if (op.rule->is_leaf) continue;
    const auto i = static_cast<std::size_t>(v);
    const bool is_own = cut.stage_of(program.scope_of(v)) == stage && !comes_first(program, v);
    if (is_everywhere(program, v) || is_own || (takes_back && is_of_input_backward(program, v))) {
      runs[i] = true;
    }
    if (!runs[i]) continue;
    // Each stage that reads them computes for itself what comes before the first layer, and
    // constants.
    for_each_read(op, [&](Value read) {
      const Operation& from = program.at(read);
      if (from.rule->is_leaf || !(comes_first(program, read) || from.constant)) return;
      runs[static_cast<std::size_t>(read)] = true;
    });
  }
  return runs;
}

void require_by_rows(const Program& program, Value v) {
  const Operation& op = program.at(v);
  const Scope& scope = program.scope_of(v);
  // Backward compares rows of neighbours with what was made of them.
  if (op.is(rules::kPool)) {
    fail_option(
        "--stages: layer {} pools rows of neighbours (--aggregator max, softmax or power), for "
        "which "
        "all of them must be of one epoch; allowed are mean, sum and attention",
        scope.layer);
  }
  const bool by_rows = op.rule->reach == Reach::kRow || op.rule->reach == Reach::kHalo ||
                       op.rule->reach == Reach::kSum;
  if (op.rule->is_leaf || op.constant || by_rows || is_everywhere(program, v) ||
      scope.kind == Scope::Kind::kLoss) {
    return;
  }
  fail_option(
      "--stages: '{}' of {} needs all nodes at once, and stages compute chunk by chunk; allowed "
      "are models without batch norms and weights per type of node, with --norm layer or none",
      op.rule->name, scope.layer < 0 ? "the input" : fmt::format("layer {}", scope.layer));
}

// A value that is written and read while one chunk passes through one half of the stage needs its
// place for that time alone, and another one may have it then: what it holds of other chunks is
// not needed any more, or not yet. All others last: rows of chunks that neighbours read an epoch
// later, those that wait for backward, and those that come or go.
void set_instants(const Program& program, const Crossings& crossings, int stage, Stage& result) {
  constexpr int kElsewhere = -1;
  std::vector<int>& instants = result.schedule.instants;
  instants.assign(program.operations.size(), kElsewhere);
  result.schedule.computed_instants = instants;
  std::vector<bool> lasts(program.operations.size(), false);
  const auto at = [](Value v) { return static_cast<std::size_t>(v); };
  // The loss is a half of its own: what it reads and writes lasts.
  std::vector<Value> backward = result.backward;  // with that of the input
  backward.insert(backward.end(), result.input_backward.begin(), result.input_backward.end());
  int now = 1;
  for (const std::vector<Value>* half : {&result.forward, &result.loss, &backward}) {
    const int begin = now;
    for (const Value v : *half) {
      instants[at(v)] = now++;
      const Operation& op = program.at(v);
      const Rule& rule = *op.rule;
      for_each_read(op, [&](Value read) {
        if (instants[at(read)] < begin) lasts[at(read)] = true;
      });
      if (rule.reach != Reach::kHalo && rule.part == Part::kNone) continue;
      for (const Value read : op.inputs) lasts[at(read)] = true;
    }
  }
  for (const auto* values : {&crossings.forward, &crossings.backward}) {
    for (const Crossing& crossing : *values) {
      if (crossing.from == stage || crossing.to == stage) lasts[at(crossing.value)] = true;
    }
  }
  for (const auto* fills : {&result.sums_begin, &result.sums_end}) {
    for (const Fill& fill : *fills) {
      lasts[at(fill.to)] = true;
      if (fill.from != kNoValue) lasts[at(fill.from)] = true;
    }
  }
  for (const Block& block : result.schedule.prologue) {
    for (const Call& call : block.calls) instants[at(call.value)] = 0;
  }
  for (Value v = 0; v < program.size(); ++v) {
    if (!lasts[at(v)] || program.at(v).constant || program.at(v).rule->is_leaf) continue;
    instants[at(v)] = std::max(instants[at(v)], 0);
    result.schedule.lasting.push_back(v);
  }
}

// Nothing else may read what fills write, or get it from another stage.
void require_own_fills(const Program& program, const Crossings& crossings, int stage,
                       const Stage& of) {
  const std::vector<std::vector<Value>> readers = readers_of(program);
  for (const auto* fills : {&of.sums_begin, &of.sums_end}) {
    for (const Fill& fill : *fills) {
      const bool ends = fills == &of.sums_end;
      for (const Value v : of.backward) {
        const auto& read_by = readers[static_cast<std::size_t>(fill.to)];
        const bool reads = std::ranges::find(read_by, v) != read_by.end();
        ATOLL_ASSERT(!reads || (!ends && read_by.size() == 1), "stage {}: {} reads {}", stage,
                     to_string(program, v), fill.to);
      }
      for (const Crossing& crossing : crossings.backward) {
        ATOLL_ASSERT(crossing.value != fill.to || (crossing.from != stage && crossing.to != stage),
                     "stage {} gets or sends {}", stage, fill.to);
      }
    }
  }
}

}  // namespace

int StageCut::stage_of(int layer) const {
  const auto after = std::ranges::upper_bound(first_layer, layer);
  return static_cast<int>(after - first_layer.begin()) - 1;
}

int StageCut::stage_of(const Scope& scope) const {
  switch (scope.kind) {
    case Scope::Kind::kInput:
      return 0;
    case Scope::Kind::kLayer:
      return stage_of(scope.layer);
    case Scope::Kind::kHead:
    case Scope::Kind::kDecoder:
    case Scope::Kind::kLoss:
    case Scope::Kind::kStep:
      break;
  }
  return stages() - 1;
}

namespace {

void require_stages(const Program& training, int stages) {
  const auto layers = static_cast<int>(training.layers.size());
  if (layers < stages) {
    fail_option(
        "--stages: {} ranks, and the model has {} layer{}, of which each stage needs one; allowed "
        "are "
        "1 to {} ranks",
        stages, layers, layers == 1 ? "" : "s", layers);
  }
  for (Value v = 0; v < training.size(); ++v) require_by_rows(training, v);
}

}  // namespace

StageCut given_stages(const Program& training, std::vector<int> first_layer) {
  require_stages(training, static_cast<int>(first_layer.size()));
  return {std::move(first_layer)};
}

StageCut cut_into_stages(const Program& training, int stages, const StageSeconds& seconds) {
  require_stages(training, stages);
  const auto layers = static_cast<int>(training.layers.size());
  // By stage and layer: what it would take for all layers before. The last stage also has what
  // comes behind the layers.
  const auto all = static_cast<std::size_t>(layers);
  std::vector<std::vector<double>> before(static_cast<std::size_t>(stages),
                                          std::vector<double>(all + 1, 0.0));
  for (Value v = 0; v < training.size(); ++v) {
    const Operation& op = training.at(v);
    const Scope& scope = training.scope_of(v);
    if (op.rule->is_leaf || op.constant || is_everywhere(training, v)) continue;
    if (scope.kind == Scope::Kind::kInput) continue;
    const int layer = scope.kind == Scope::Kind::kLayer ? scope.layer : layers - 1;
    for (int s = 0; s < stages; ++s) {
      before[static_cast<std::size_t>(s)][static_cast<std::size_t>(layer) + 1] +=
          seconds(s, {v, Rows::kAll});
    }
  }
  for (std::vector<double>& of_stage : before) {
    std::partial_sum(of_stage.begin(), of_stage.end(), of_stage.begin());
  }
  const SharedWork shared(training, stages, seconds);
  const auto takes = [&](std::size_t stage, std::size_t from, std::size_t end) {
    return before[stage][end] - before[stage][from] + shared.seconds_of(stage, from, end);
  };
  // least[l]: the slowest of the first stages, which have the first l layers.
  std::vector<double> least(all + 1, 0.0);
  for (std::size_t end = 1; end <= all; ++end) least[end] = takes(0, 0, end);
  std::vector<std::vector<std::size_t>> begins;  // by stage but the first: where it begins
  for (std::size_t s = 1; s < before.size(); ++s) {
    std::vector<double> with(all + 1, std::numeric_limits<double>::infinity());
    std::vector<std::size_t>& begin = begins.emplace_back(all + 1, 0);
    for (std::size_t end = s + 1; end <= all; ++end) {
      for (std::size_t from = s; from < end; ++from) {
        const double slowest = std::max(least[from], takes(s, from, end));
        if (slowest < with[end]) {
          with[end] = slowest;
          begin[end] = from;
        }
      }
    }
    least = std::move(with);
  }
  StageCut cut{std::vector<int>(before.size(), 0)};
  std::size_t end = all;
  for (std::size_t s = begins.size(); s-- > 0;) {
    end = begins[s][end];
    cut.first_layer[s + 1] = static_cast<int>(end);
  }
  return cut;
}

StageCut cut_into_stages(const Program& training, const RankShape& shape, DType dtype, int stages) {
  return cut_into_stages(training, stages, [&](int /*stage*/, const Call& call) {
    return cost_of(work_of(training, call, shape, dtype));
  });
}

Stage make_stage(const Program& training, const StageCut& cut, const Crossings& crossings,
                 int stage) {
  Stage result;
  const std::vector<bool> runs = run_by(training, cut, stage);
  const Value loss = training.forward_end();
  std::vector<Block>& prologue = result.schedule.prologue;
  for (Value v = 0; v < training.size(); ++v) {
    if (!runs[static_cast<std::size_t>(v)]) continue;
    const Operation& op = training.at(v);
    const Scope& scope = training.scope_of(v);
    if (op.constant) {
      if (prologue.empty()) prologue.push_back({.name = "prepare central", .scope = op.scope});
      prologue.back().calls.push_back({v, Rows::kAll});
    } else if (scope.kind == Scope::Kind::kStep) {
      result.step.push_back(v);
    } else if (scope.kind == Scope::Kind::kLoss) {
      result.loss.push_back(v);
    } else if (is_of_input_backward(training, v)) {
      result.input_backward.push_back(v);
    } else if (op.rows_of() != RowsOf::kHalo) {  // there are no halo rows
      (v < loss ? result.forward : result.backward).push_back(v);
    }
  }
  if (!result.input_backward.empty()) {
    const InputSums sums(training);
    result.sums_begin = sums.begins(cut, stage);
    result.sums_end = sums.ends(cut, stage);
  }
  require_own_fills(training, crossings, stage, result);
  set_instants(training, crossings, stage, result);
  return result;
}

Crossings find_crossings(const Program& training, const StageCut& cut) {
  std::vector<std::vector<bool>> runs;
  for (int stage = 0; stage < cut.stages(); ++stage) runs.push_back(run_by(training, cut, stage));
  const std::vector<std::vector<Value>> readers = readers_of(training);
  const InputSums sums(training);
  const Value loss = training.forward_end();
  Crossings crossings;
  for (Value v = 0; v < training.size(); ++v) {
    const Operation& op = training.at(v);
    if (op.rule->is_leaf || !op.has_rows() || is_everywhere(training, v)) continue;
    if (is_of_input_backward(training, v) || sums.is_partial(v)) continue;
    const int from = cut.stage_of(training.scope_of(v));
    for (int to = 0; to < cut.stages(); ++to) {
      const auto t = static_cast<std::size_t>(to);
      if (runs[t][static_cast<std::size_t>(v)]) continue;
      const bool reads =
          std::ranges::any_of(readers[static_cast<std::size_t>(v)], [&](Value reader) {
            // Each stage has sums of its own for these.
            const bool has_own = sums.any() && v > loss && is_of_input_backward(training, reader);
            return !has_own && runs[t][static_cast<std::size_t>(reader)];
          });
      if (!reads) continue;
      const bool forward = v < loss;
      ATOLL_ASSERT(forward ? from < to : from > to, "stage {} sends {} to {}", from,
                   to_string(training, v), to);
      (forward ? crossings.forward : crossings.backward).push_back({v, from, to});
    }
  }
  return crossings;
}

const char* stage_span_of(const Program& training, Value v) {
  return training.at(v).needs_messages() ? "spmm central" : span_of(training, v);
}

std::int64_t sorted_edge_bytes(const Program& training, const RankRows& rows) {
  constexpr std::int64_t kPerEdge = 28;
  const bool sorts = std::ranges::any_of(
      training.operations, [](const Operation& op) { return op.rule->part != Part::kNone; });
  return sorts ? kPerEdge * rows.edges : 0;
}

std::vector<std::int64_t> chunks_of_rows(const CsrView& edges, int chunks) {
  // A row is multiplied by weights, which takes as long as to add up so many rows of neighbours.
  constexpr std::int64_t kEdgesOfRow = 64;
  const std::int64_t rows = edges.rows();
  const auto work_before = [&](std::int64_t row) {
    return edges.row_ptr[row] - edges.row_ptr[0] + kEdgesOfRow * row;
  };
  std::vector<std::int64_t> ends;
  std::int64_t row = 0;
  for (int chunk = 1; chunk <= chunks; ++chunk) {
    const double until = static_cast<double>(work_before(rows)) * chunk / chunks;
    while (row < rows && static_cast<double>(work_before(row)) < until) ++row;
    ends.push_back(chunk == chunks ? rows : row);
  }
  return ends;
}

}  // namespace atl
