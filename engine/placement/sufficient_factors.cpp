#include "engine/placement/sufficient_factors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "engine/comm/transport.hpp"
#include "engine/placement/min_cut.hpp"
#include "engine/placement/sum_cost.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

constexpr std::int64_t kValueBytes = 4;

// The product over the rows of all other ranks, on the rank that takes longest for it.
double others_seconds(const EpochSetting& setting, const std::vector<std::int64_t>& rows,
                      std::int64_t inputs, std::int64_t outputs) {
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  double slowest = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    slowest = std::max(slowest,
                       gemm_seconds(setting.topology.devices[r], total - rows[r], inputs, outputs));
  }
  return slowest;
}

void check_factors(const FactorProblem& problem, const Topology& topology) {
  ATOLL_ASSERT(topology.ranks() == static_cast<int>(problem.rows.size()), "{} ranks, rows of {}",
               topology.ranks(), problem.rows.size());
  const auto columns = [&](int factor) {
    ATOLL_ASSERT(factor < static_cast<int>(problem.factors.size()), "factor {}", factor);
    return factor < 0 ? 1 : problem.factors[factor];
  };
  for (const WeightMatrix& weight : problem.weights) {
    ATOLL_ASSERT(columns(weight.input_factor) == weight.inputs, "{}", weight.name);
    ATOLL_ASSERT(columns(weight.output_factor) == weight.outputs, "{}", weight.name);
  }
}

class Costs {
 public:
  Costs(const FactorProblem& problem, const Topology& topology)
      : problem_(problem), topology_(topology), ranks_(topology.ranks()) {}

  double latency() const {
    double most = 0;
    topology_.for_each_pair(
        [&](int from, int to) { most = std::max(most, topology_.link(from, to).latency_s); });
    return most;
  }

  // Without latency: the scatter of blocks to those who add them up, and back to all.
  double all_reduce_seconds(const WeightMatrix& weight) const {
    const auto count = static_cast<std::size_t>(weight.inputs * weight.outputs);
    std::vector<double> blocks;
    for (int r = 0; r < ranks_; ++r) {
      blocks.push_back(static_cast<double>(reduce_block(count, r, ranks_).count) *
                       static_cast<double>(kValueBytes));
    }
    return step_seconds([&](int /*from*/, int to) { return blocks[to]; }) +
           step_seconds([&](int from, int /*to*/) { return blocks[from]; });
  }

  double factor_seconds(std::int64_t columns) const {
    return step_seconds([&](int from, int /*to*/) {
      return static_cast<double>(problem_.rows[from] * columns * kValueBytes);
    });
  }

  std::int64_t most_all_reduce_bytes(const WeightMatrix& weight) const {
    std::int64_t most = 0;
    for (int r = 0; r < ranks_; ++r) {
      most =
          std::max(most, all_reduce_bytes(weight.inputs * weight.outputs, kValueBytes, r, ranks_));
    }
    return most;
  }

  std::int64_t most_factor_bytes(const WeightMatrix& weight) const {
    std::int64_t columns = 0;
    for (const int factor : {weight.input_factor, weight.output_factor}) {
      if (factor >= 0) columns += problem_.factors[factor];
    }
    const std::int64_t rows = *std::ranges::max_element(problem_.rows);
    return rows * columns * kValueBytes * (ranks_ - 1);
  }

 private:
  // bytes(from, to) over all links at once.
  template <typename Bytes>
  double step_seconds(const Bytes& bytes) const {
    StepLoad load(topology_, /*counts_latency=*/false);
    topology_.for_each_pair([&](int from, int to) { load.send(from, to, bytes(from, to)); });
    return load.seconds();
  }

  const FactorProblem& problem_;
  const Topology& topology_;
  int ranks_;
};

// Variables: a weight is made from factors; a factor is sent; nothing is left to all-reduce.
CutProblem factor_cut(const FactorProblem& problem, const Costs& costs) {
  const int weights = static_cast<int>(problem.weights.size());
  const int factors = static_cast<int>(problem.factors.size());
  CutProblem cut;
  for (int w = 0; w < weights; ++w) {
    const WeightMatrix& weight = problem.weights[w];
    cut.if_zero.push_back(costs.all_reduce_seconds(weight));
    cut.if_one.push_back(weight.extra_compute_s);
    for (const int factor : {weight.input_factor, weight.output_factor}) {
      if (factor < 0) continue;
      cut.pairs.push_back({.low = weights + factor, .high = w, .weight = kForbidden});
    }
    cut.pairs.push_back({.low = w, .high = weights + factors, .weight = kForbidden});
  }
  for (const std::int64_t columns : problem.factors) {
    cut.if_zero.push_back(0);
    cut.if_one.push_back(costs.factor_seconds(columns) + costs.latency());
  }
  cut.if_zero.push_back(weights > 0 ? 2 * costs.latency() : 0.0);
  cut.if_one.push_back(0);
  return cut;
}

std::string megabytes(std::int64_t bytes) {
  const double mb = static_cast<double>(bytes) / 1e6;
  if (mb >= 9.95) return fmt::format("{:.0f} MB", mb);
  if (mb >= 0.001) return fmt::format("{:.2g} MB", mb);
  return fmt::format("{} bytes", bytes);
}

std::string compare_bytes(const WeightChoice& choice) {
  return fmt::format("all-reduce {} {}, factors {} {}",
                     choice.send_factors ? "would send" : "sends",
                     megabytes(choice.all_reduce_bytes),
                     choice.send_factors ? "send" : "would send", megabytes(choice.factor_bytes));
}

std::string make_sentence(const WeightChoice& choice) {
  const bool fewer = choice.factor_bytes < choice.all_reduce_bytes;
  // Latency, products over all rows, or factors that other weights need anyway.
  const char* besides = fewer == choice.send_factors ? "" : ", but bytes are not all";
  return compare_bytes(choice) + besides + (choice.send_factors ? ": worth it" : ": not worth it");
}

std::string make_summary(const FactorProblem& problem, const FactorPlan& plan) {
  const auto pays = std::ranges::count_if(
      plan.weights, [](const WeightChoice& choice) { return choice.send_factors; });
  const std::string count = fmt::format("SFB pays for {} of {} weights", pays, plan.weights.size());
  if (pays > 0) {
    return fmt::format("{}: synchronisation takes {:.3g} ms instead of {:.3g} ms", count,
                       1e3 * plan.seconds, 1e3 * plan.all_reduce_s);
  }
  if (plan.weights.empty()) return count;
  if (problem.rows.size() == 1) return count + " because one rank has nothing to send";
  // Where it is nearest to paying.
  const auto nearest = std::ranges::min_element(plan.weights, {}, [](const WeightChoice& choice) {
    return static_cast<double>(choice.factor_bytes) /
           static_cast<double>(std::max<std::int64_t>(choice.all_reduce_bytes, 1));
  });
  return fmt::format("{} because even for {} {}", count,
                     problem.weights[nearest - plan.weights.begin()].name, nearest->sentence);
}

}  // namespace

FactorProblem factor_problem(const EpochSetting& setting, std::span<const LayerPlan> layers) {
  const Program program = model_program(planned_model(setting.model, layers), Pass::kTraining);
  FactorProblem problem;
  const RankMap map = setting.map();
  for (int rank = 0; rank < map.ranks(); ++rank) {
    const auto part = static_cast<std::size_t>(map.part_of(rank));
    problem.rows.push_back(map.share(rank, {0, setting.partition.parts[part].nodes}).size());
  }
  std::map<Value, int> factors;
  const auto factor = [&](Value value) {
    const auto [place, is_new] = factors.try_emplace(value, std::ssize(problem.factors));
    if (is_new) problem.factors.push_back(program.at(value).columns);
    return place->second;
  };
  for (const Operation& op : program.operations) {
    if (!op.is(rules::kWeightGradient)) continue;
    const DeclaredParameter& weight = program.parameters[static_cast<std::size_t>(op.parameter)];
    // A weight that several values are multiplied with has rows of its own for each.
    const std::int64_t inputs = weight_rows(program, op);
    problem.weights.push_back({weight.name, inputs, weight.columns, factor(op.inputs[0]),
                               factor(op.inputs[1]),
                               others_seconds(setting, problem.rows, inputs, weight.columns)});
  }
  // As they were declared: backward goes through the layers from the last one.
  const auto declared = [&](const WeightMatrix& weight) {
    return std::ranges::find(program.parameters, weight.name, &DeclaredParameter::name) -
           program.parameters.begin();
  };
  std::ranges::sort(problem.weights, {}, declared);
  return problem;
}

FactorPlan plan_sufficient_factors(const FactorProblem& problem, const Topology& topology) {
  check_factors(problem, topology);
  const Costs costs(problem, topology);
  const CutProblem cut = factor_cut(problem, costs);
  const CutSolution solution = minimise_cut(cut);
  FactorPlan plan;
  plan.seconds = solution.cost;
  plan.all_reduce_s = cut.if_zero.back();
  for (std::size_t w = 0; w < problem.weights.size(); ++w) {
    plan.all_reduce_s += cut.if_zero[w];
    WeightChoice choice{.send_factors = solution.x[w] != 0,
                        .all_reduce_bytes = costs.most_all_reduce_bytes(problem.weights[w]),
                        .factor_bytes = costs.most_factor_bytes(problem.weights[w]),
                        .sentence = {}};
    choice.sentence = make_sentence(choice);
    plan.weights.push_back(std::move(choice));
  }
  plan.summary = make_summary(problem, plan);
  return plan;
}

}  // namespace atl
