#include "launch/plan_trial.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "base/log.hpp"
#include "base/median.hpp"
#include "engine/training/host_share.hpp"
#include "engine/training/rank_job.hpp"

namespace atl {

namespace {

// Median of the epochs after those that fetch what is kept and size what grows; the same on all
// ranks. Infinity, with a warning, if the job needs more memory than there is.
double trial_ms(PlannedJob job, const std::string& name, const std::filesystem::path& dataset,
                int epochs, Transport& transport) {
  constexpr int kFirstEpochs = 2;
  job.options.run_dir.clear();
  job.options.trace = false;
  std::optional<RankJob> rank_job;
  try {
    rank_job.emplace(transport, dataset, job.partition, job.options);
  } catch (const TooLittleMemory& error) {
    if (transport.rank() == 0) log::warn("{}: {}", name, error.what());
    return std::numeric_limits<double>::infinity();
  }
  std::vector<double> times;
  for (int epoch = 1; epoch <= kFirstEpochs + epochs; ++epoch) {
    const double ms = rank_job->trainer().run_epoch(epoch).epoch_ms;
    if (epoch > kFirstEpochs) times.push_back(ms);
  }
  return median(times);
}

std::string to_text(double trial_ms, const char* unit) {
  return std::isinf(trial_ms) ? "too little memory" : fmt::format("{:.1f} {}", trial_ms, unit);
}

}  // namespace

PlannedJob tried_job(const TrainFlags& flags, int epochs, Transport& transport) {
  PlannedJob planned = planned_job(flags, transport);
  if (flags.plan.empty() || epochs == 0) return planned;
  const PlannedJob unplanned = unplanned_job(flags);
  const double with_plan = trial_ms(planned, "with the plan", flags.dataset, epochs, transport);
  const double without = trial_ms(unplanned, "without the plan", flags.dataset, epochs, transport);
  const bool drops = without < with_plan;
  if (transport.rank() == 0) {
    const std::string found =
        fmt::format("{}: {} with the plan, {} without it (medians of {} epochs)", flags.plan,
                    to_text(with_plan, "ms per epoch"), to_text(without, "ms"), epochs);
    if (drops) {
      log::warn("{}; the plan is dropped, --plan-trial 0 keeps it", found);
    } else {
      log::info("{}", found);
    }
  }
  return drops ? unplanned : planned;
}

}  // namespace atl
