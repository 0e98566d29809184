#include "engine/plan/planned_job.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "datasets/dataset.hpp"
#include "engine/exchange/expected_messages.hpp"
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
// ranks. Where epochs differ: the mean. Infinity, with a warning, if the job needs more memory than
// there is.
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
  if (expected_messages(job.options.exchange_options()).kinds.size() == 1) return median(times);
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

// As many epochs as it takes for all kinds of them to come, but not for ever.
int epochs_of_trial(const TrainOptions& options, int asked) {
  constexpr int kMost = 20;
  const ExpectedMessages expected = expected_messages(options.exchange_options());
  return expected.kinds.size() == 1 ? asked : std::max(asked, std::min(expected.cycle, kMost));
}

std::string to_text(double trial_ms, const char* unit) {
  return std::isinf(trial_ms) ? "too little memory" : fmt::format("{:.1f} {}", trial_ms, unit);
}

}  // namespace

TrainOptions with_exchange_of(const Plan& plan, TrainOptions options) {
  if (!plan.exchange.is_null()) read_exchange_json(plan.exchange, "field 'exchange'", options);
  return options;
}

void follow_plan(const Plan& plan, const PlanChoice& choice, TrainJob& job) {
  std::filesystem::path folder = std::move(job.partition.parts_dir);
  job.partition = plan.partition;
  job.partition.parts_dir = std::move(folder);
  job.partition.parts_file = choice.parts_file;
  TrainOptions& options = job.options;
  options.model = planned_model(std::move(options.model), plan.layers);
  options.sum_choice = SumChoice::kRanks;
  options.gradient_sum = plan.gradient_sum;
  options.group_ranks = {.number = plan.group_ranks};
  if (plan.stages) {
    options.group_ranks = {};  // see TrainOptions::ranks_of_part()
    options.stages.count = {.all = true};
    options.stages.first_layer = plan.stages->first_layer;
    options.stages.chunks = plan.stages->chunks;
    options.stages.stale_from = plan.stages->stale_from;
  }
  options = with_exchange_of(plan, std::move(options));
  const BitChoice bits =
      planned_exchange(options.exchange_options(), plan.layers).message_bits.bits;
  if (plan.exchange.is_null() && std::ranges::min(bits.widths) < 32) options.exchange = kModeOfBits;
  if (exchange_mode(options.exchange).takes_bits()) options.message_bits.bits = bits;
}

TrainJob planned_job(const TrainJob& asked, const PlanChoice& choice, int trial_epochs,
                     Transport& transport) {
  Plan plan;
  on_all_ranks(transport, [&] {
    plan = read_plan(choice.file);
    // One rank reads the dataset, all of them the plan.
    const bool opens = transport.rank() == 0;
    require_plan_fits(plan, choice.file,
                      opens ? Dataset::open(choice.dataset).info().checksum : plan.dataset_checksum,
                      transport.size(), planned_options(asked.options),
                      layer_count(asked.options.model));
    require_parts_file_fits(choice, plan);
    if (plan.stages && !asked.options.stages.stale) {
      fail_option(
          "--plan {}: its layers are in stages, which read rows of the last epoch, so losses are "
          "others than without it; add --stale on if that is wanted",
          choice.file.string());
    }
  });
  // The mode stays whatever the trial says: it changes what is computed.
  TrainJob unplanned = asked;
  unplanned.options = with_exchange_of(plan, asked.options);
  TrainJob planned = unplanned;
  follow_plan(plan, choice, planned);
  check_options(planned.options);  // with the mode of the plan
  if (transport.rank() == 0) {
    log::info("{}: {:.1f} ms per epoch expected, {:.1f} ms without the plan", choice.file.string(),
              plan.predicted_ms, plan.default_ms);
  }
  // A run's options say what it computes, not how long some epochs took.
  if (trial_epochs == 0 || plan.stages) return planned;
  trial_epochs = epochs_of_trial(unplanned.options, trial_epochs);
  const double with_plan =
      trial_ms(planned, "with the plan", choice.dataset, trial_epochs, transport);
  const double without =
      trial_ms(unplanned, "without the plan", choice.dataset, trial_epochs, transport);
  const bool drops = without < with_plan;
  if (transport.rank() == 0) {
    const std::string found =
        fmt::format("{}: {} with the plan, {} without it ({} epochs each)", choice.file.string(),
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
