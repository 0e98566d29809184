#include "launch/plan_trial.hpp"

#include <limits>

#include "base/log.hpp"
#include "base/median.hpp"
#include "engine/training/rank_job.hpp"

namespace atl {

namespace {

// Median of the epochs after those that fetch what is kept and size what grows; the same on all
// ranks. Infinity if the job doesn't fit into memory.
double trial_ms(PlannedJob job, const std::filesystem::path& dataset, int epochs,
                Transport& transport) {
  constexpr int kFirstEpochs = 2;
  job.options.run_dir.clear();
  job.options.trace = false;
  std::vector<double> times;
  try {
    RankJob rank_job(transport, dataset, job.partition, job.options);
    for (int epoch = 1; epoch <= kFirstEpochs + epochs; ++epoch) {
      const double ms = rank_job.trainer().run_epoch(epoch).epoch_ms;
      if (epoch > kFirstEpochs) times.push_back(ms);
    }
  } catch (const Error& error) {
    // Thrown on all ranks before the first epoch.
    if (error.kind() != ErrorKind::kMemory || !times.empty()) throw;
    return std::numeric_limits<double>::infinity();
  }
  return median(times);
}

}  // namespace

PlannedJob tried_job(const TrainFlags& flags, int epochs, Transport& transport) {
  PlannedJob planned = planned_job(flags, transport);
  if (flags.plan.empty() || epochs == 0) return planned;
  const PlannedJob unplanned = unplanned_job(flags);
  const double with_plan = trial_ms(planned, flags.dataset, epochs, transport);
  const double without = trial_ms(unplanned, flags.dataset, epochs, transport);
  const bool drops = without < with_plan;
  if (transport.rank() == 0) {
    const std::string found = fmt::format(
        "{}: {:.1f} ms per epoch with the plan, {:.1f} ms without it (medians of {} epochs)",
        flags.plan, with_plan, without, epochs);
    if (drops) {
      log::warn("{}; the plan is dropped, --plan-trial 0 keeps it", found);
    } else {
      log::info("{}", found);
    }
  }
  return drops ? unplanned : planned;
}

}  // namespace atl
