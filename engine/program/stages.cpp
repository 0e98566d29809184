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

// The work that comes first, and which layers read it.
class FirstWork {
 public:
  FirstWork(const Program& program, int stages, const StageSeconds& seconds)
      : layers_(program.layers.size()) {
    std::vector<std::vector<bool>> read_by(program.operations.size());
    for (Value v = program.size(); v-- > 0;) {
      const Operation& op = program.at(v);
      if (op.rule->is_leaf) continue;
      const Scope& scope = program.scope_of(v);
      for_each_read(op, [&](Value read) {
        if (!comes_first(program, read)) return;
        std::vector<bool>& layers = read_by[static_cast<std::size_t>(read)];
        layers.resize(layers_);
        if (scope.kind == Scope::Kind::kLayer) {
          layers[static_cast<std::size_t>(scope.layer)] = true;
        } else if (comes_first(program, v)) {
          const std::vector<bool>& through = read_by[static_cast<std::size_t>(v)];
          for (std::size_t l = 0; l < through.size(); ++l) layers[l] = layers[l] || through[l];
        } else {  // backward, or behind the layers
          layers[scope.kind == Scope::Kind::kInput ? 0 : layers_ - 1] = true;
        }
      });
    }
    for (Value v = 0; v < program.size(); ++v) {
      if (!comes_first(program, v) || program.at(v).constant) continue;
      Work& work = work_.emplace_back(Work{{}, std::vector<int>(layers_ + 1, 0)});
      for (int s = 0; s < stages; ++s) work.seconds.push_back(seconds(s, {v, Rows::kAll}));
      const std::vector<bool>& layers = read_by[static_cast<std::size_t>(v)];
      for (std::size_t l = 0; l < layers_; ++l) {
        const bool reads = l < layers.size() && layers[l];
        work.readers_before[l + 1] = work.readers_before[l] + (reads ? 1 : 0);
      }
    }
  }

  // That a stage of these layers takes for it.
  double seconds_of(std::size_t stage, std::size_t from, std::size_t end) const {
    double sum = 0;
    for (const Work& work : work_) {
      if (work.readers_before[end] > work.readers_before[from]) sum += work.seconds[stage];
    }
    return sum;
  }

 private:
  struct Work {
    std::vector<double> seconds;      // by stage
    std::vector<int> readers_before;  // by layer: how many of the layers before it read it
  };
  std::size_t layers_;
  std::vector<Work> work_;
};

// By value: whether the stage runs it.
std::vector<bool> run_by(const Program& program, const StageCut& cut, int stage) {
  std::vector<bool> runs(program.operations.size(), false);
  for (Value v = program.size(); v-- > 0;) {
    const Operation& op = program.at(v);
    if (op.rule->is_leaf) continue;
    const auto i = static_cast<std::size_t>(v);
    if (is_everywhere(program, v) || cut.stage_of(program.scope_of(v)) == stage) runs[i] = true;
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
  int now = 1;
  for (const auto* half : {&result.forward, &result.loss, &result.backward}) {
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
  for (const Block& block : result.schedule.prologue) {
    for (const Call& call : block.calls) instants[at(call.value)] = 0;
  }
  for (Value v = 0; v < program.size(); ++v) {
    if (!lasts[at(v)] || program.at(v).constant || program.at(v).rule->is_leaf) continue;
    instants[at(v)] = std::max(instants[at(v)], 0);
    result.schedule.lasting.push_back(v);
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

StageCut cut_into_stages(const Program& training, int stages, const StageSeconds& seconds) {
  const auto layers = static_cast<int>(training.layers.size());
  if (layers < stages) {
    fail_option(
        "--stages: {} ranks, and the model has {} layer{}, of which each stage needs one; allowed "
        "are "
        "1 to {} ranks",
        stages, layers, layers == 1 ? "" : "s", layers);
  }
  // By stage and layer: what it would take for all layers before. The last stage also has what
  // comes behind the layers, the first one the gradients of what comes before them.
  const auto all = static_cast<std::size_t>(layers);
  std::vector<std::vector<double>> before(static_cast<std::size_t>(stages),
                                          std::vector<double>(all + 1, 0.0));
  for (Value v = 0; v < training.size(); ++v) {
    require_by_rows(training, v);
    const Operation& op = training.at(v);
    const Scope& scope = training.scope_of(v);
    if (op.rule->is_leaf || op.constant || is_everywhere(training, v)) continue;
    if (comes_first(training, v)) continue;
    const int layer = scope.kind == Scope::Kind::kLayer   ? scope.layer
                      : scope.kind == Scope::Kind::kInput ? 0
                                                          : layers - 1;
    for (int s = 0; s < stages; ++s) {
      before[static_cast<std::size_t>(s)][static_cast<std::size_t>(layer) + 1] +=
          seconds(s, {v, Rows::kAll});
    }
  }
  for (std::vector<double>& of_stage : before) {
    std::partial_sum(of_stage.begin(), of_stage.end(), of_stage.begin());
  }
  const FirstWork first(training, stages, seconds);
  const auto takes = [&](std::size_t stage, std::size_t from, std::size_t end) {
    return before[stage][end] - before[stage][from] + first.seconds_of(stage, from, end);
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
    } else if (op.rows_of() != RowsOf::kHalo) {  // there are no halo rows
      (v < loss ? result.forward : result.backward).push_back(v);
    }
  }
  set_instants(training, crossings, stage, result);
  return result;
}

Crossings find_crossings(const Program& training, const StageCut& cut) {
  std::vector<std::vector<bool>> runs;
  for (int stage = 0; stage < cut.stages(); ++stage) runs.push_back(run_by(training, cut, stage));
  std::vector<std::vector<Value>> readers(training.operations.size());
  for (Value v = 0; v < training.size(); ++v) {
    for_each_read(training.at(v),
                  [&](Value read) { readers[static_cast<std::size_t>(read)].push_back(v); });
  }
  const Value loss = training.forward_end();
  Crossings crossings;
  for (Value v = 0; v < training.size(); ++v) {
    const Operation& op = training.at(v);
    if (op.rule->is_leaf || !op.has_rows() || is_everywhere(training, v)) continue;
    const int from = cut.stage_of(training.scope_of(v));
    for (int to = 0; to < cut.stages(); ++to) {
      const auto t = static_cast<std::size_t>(to);
      if (runs[t][static_cast<std::size_t>(v)]) continue;
      const bool reads = std::ranges::any_of(
          readers[static_cast<std::size_t>(v)],
          [&](Value reader) { return runs[t][static_cast<std::size_t>(reader)]; });
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
