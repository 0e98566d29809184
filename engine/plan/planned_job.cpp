#include "engine/plan/planned_job.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "datasets/dataset.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/host_share.hpp"
#include "engine/training/option_table.hpp"
#include "engine/training/rank_job.hpp"

namespace atl {

namespace {

// --parts-file beside a plan is the file that the plan's cut was read from, also where the
// partition is there and nobody reads it.
void require_parts_file_fits(const PlanChoice& choice, const Plan& plan) {
  if (choice.parts_file.empty()) return;
  const std::string file = choice.file.string();
  if (plan.partition.method != "file") {
    fail_option("--parts-file: {} found, but the cut of {} is made by --method {}; leave it out",
                choice.parts_file, file, plan.partition.method);
  }
  const std::string found = parts_file_checksum(choice.parts_file);
  if (found == plan.partition.parts_checksum) return;
  fail_input("{}: checksum {} found; {} was made for the file with checksum {}", choice.parts_file,
             found, file, plan.partition.parts_checksum);
}

// Median of the epochs after those that fetch what is kept and size what grows; the same on all
// ranks. Infinity, with a warning, if the job needs more memory than there is.
double trial_ms(TrainJob job, const std::string& name, const std::filesystem::path& dataset,
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

void follow_plan(const Plan& plan, const PlanChoice& choice, TrainJob& job) {
  std::filesystem::path folder = std::move(job.partition.parts_dir);
  job.partition = plan.partition;
  job.partition.parts_dir = std::move(folder);
  job.partition.parts_file = choice.parts_file;
  TrainOptions& options = job.options;
  options.model = planned_model(std::move(options.model), plan.layers);
  options.gradient_sum = plan.gradient_sum;
  BitChoice bits{.by = BitChoice::By::kFixed};
  for (const LayerPlan& layer : plan.layers) bits.widths.push_back(static_cast<int>(layer.bits));
  if (std::ranges::min(bits.widths) < 32) {
    options.exchange = kModeOfBits;
    options.message_bits.bits = std::move(bits);
  }
}

TrainJob planned_job(const TrainJob& unplanned, const PlanChoice& choice, int trial_epochs,
                     Transport& transport) {
  Plan plan;
  on_all_ranks(transport, [&] {
    plan = read_plan(choice.file);
    // One rank reads the dataset, all of them the plan.
    const bool opens = transport.rank() == 0;
    require_plan_fits(plan, choice.file,
                      opens ? Dataset::open(choice.dataset).info().checksum : plan.dataset_checksum,
                      transport.size(), planned_options(unplanned.options));
    require_parts_file_fits(choice, plan);
  });
  TrainJob planned = unplanned;
  follow_plan(plan, choice, planned);
  if (transport.rank() == 0) {
    log::info("{}: {:.1f} ms per epoch expected, {:.1f} ms without the plan", choice.file.string(),
              plan.predicted_ms, plan.default_ms);
  }
  if (trial_epochs == 0) return planned;
  const double with_plan =
      trial_ms(planned, "with the plan", choice.dataset, trial_epochs, transport);
  const double without =
      trial_ms(unplanned, "without the plan", choice.dataset, trial_epochs, transport);
  const bool drops = without < with_plan;
  if (transport.rank() == 0) {
    const std::string found = fmt::format(
        "{}: {} with the plan, {} without it (medians of {} epochs)", choice.file.string(),
        to_text(with_plan, "ms per epoch"), to_text(without, "ms"), trial_epochs);
    if (drops) {
      log::warn("{}; the plan is dropped, --plan-trial 0 keeps it", found);
    } else {
      log::info("{}", found);
    }
  }
  return drops ? unplanned : planned;
}

}  // namespace atl
