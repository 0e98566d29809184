#include "launch/schedule/scheduled_training.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "engine/training/option_table.hpp"
#include "launch/planned_graph.hpp"
#include "launch/train_check.hpp"

namespace atl {

namespace {

struct DecidedOption {
  std::string_view name;
  std::string_view instead;
};
// Options of train that a list for a schedule can't have.
constexpr std::array kDecidedOptions = {
    DecidedOption{"ranks", "the schedule decides it, within least-ranks and most-ranks"},
    DecidedOption{"transport", "ranks are processes that the schedule starts"},
    DecidedOption{"plan", "it is for one number of ranks, which the schedule decides"},
    DecidedOption{"snapshot-every", "the schedule decides it, so that jobs can move"},
};

// Options that change no epoch's time.
constexpr std::array<std::string_view, 8> kTimelessOptions = {
    "epochs", "eval-every",   "patience",         "lr",
    "target", "weight-decay", "checkpoint-every", "max-time"};

std::string place_of(const ListedJob& job, const std::filesystem::path& list) {
  return fmt::format("{}: group '{}'", list.string(), job.group);
}

void require_undecided(const ListedJob& job, const std::string& place) {
  if (!job.launcher.empty()) {
    fail_option("{}: launcher: '{}'; a schedule starts its jobs itself: allowed is none", place,
                fmt::join(job.launcher, " "));
  }
  for (const DecidedOption& decided : kDecidedOptions) {
    if (!job.options.contains(std::string(decided.name))) continue;
    fail_option("{}: option '{}' has no place in a schedule: {}", place, decided.name,
                decided.instead);
  }
}

std::string doubt_about(const TrainOptions& options, const std::string& place) {
  std::vector<std::string> found = options_beside_plans(options);
  if (options.blocks.deals()) found.insert(found.begin(), options.blocks.option());
  if (options.stages.any()) found.insert(found.begin(), options.stages.option());
  if (found.empty()) return "";
  return fmt::format(
      "{}: {} found, but a schedule simulates epochs on the whole graph with the messages of "
      "--exchange, so real epochs of these jobs take other times than it expects",
      place, fmt::join(found, " "));
}

class TrainingReader {
 public:
  explicit TrainingReader(const std::filesystem::path& list) : list_(list) {}

  ScheduledTrainings::Job read(const ListedJob& job) {
    Json asked = job.identity();
    asked.erase("seed");
    const auto [place, is_new] = known_.try_emplace(asked.dump());
    if (is_new) {
      const std::string where = place_of(job, list_);
      require_undecided(job, where);
      try {
        place->second = read_new(job, where);
      } catch (const Error& error) {
        const bool is_placed = std::string_view(error.what()).starts_with(where);
        throw is_placed ? error : Error(error.kind(), where + ": " + error.what());
      }
    }
    return place->second;
  }

  std::vector<ScheduledTraining> trainings;

 private:
  ScheduledTrainings::Job read_new(const ListedJob& job, const std::string& where) {
    const CheckedTraining words(job.train_words(), where);
    ScheduledTraining training{.dataset = dataset_in(job.dataset),
                               .options = words.flags().resolve(),
                               .partition = words.flags().resolve_partition(),
                               .identity = {}};
    const DatasetInfo& info = training.dataset->info();
    model_for(info, training.options.model, 1);  // what no training has is said now
    Json options = Json::object();
    for (const auto& [name, value] : job.options) {
      if (std::ranges::count(kTimelessOptions, name) == 0) options[name] = value.value_or("");
    }
    training.identity = {{"dataset", info.checksum},
                         {"options", options},
                         {"model", planned_options(training.options)},
                         {"partition", to_json(training.partition)}};
    const auto known =
        std::ranges::find(trainings, training.identity, &ScheduledTraining::identity);
    const std::int64_t epochs = training.options.optimizer.epochs;
    const int every = training.options.eval_every;
    const ScheduledTrainings::Job read{static_cast<std::size_t>(known - trainings.begin()), epochs,
                                       every == 0 ? 1 : (epochs + every - 1) / every,
                                       doubt_about(training.options, where)};
    if (known == trainings.end()) trainings.push_back(std::move(training));
    return read;
  }

  std::shared_ptr<const Dataset> dataset_in(const std::string& folder) {
    std::shared_ptr<const Dataset>& dataset = datasets_[folder];
    if (dataset == nullptr) dataset = std::make_shared<const Dataset>(Dataset::open(folder));
    return dataset;
  }

  const std::filesystem::path& list_;
  std::map<std::string, ScheduledTrainings::Job> known_;  // by what was asked for, but the seed
  std::map<std::string, std::shared_ptr<const Dataset>> datasets_;
};

}  // namespace

ScheduledTrainings read_trainings(std::span<const ListedJob> jobs,
                                  const std::filesystem::path& list) {
  if (jobs.size() > kMostScheduledJobs) {
    fail_option("{}: found {} jobs; allowed in a schedule are up to {}", list.string(), jobs.size(),
                kMostScheduledJobs);
  }
  TrainingReader reader(list);
  ScheduledTrainings result;
  for (const ListedJob& job : jobs) result.jobs.push_back(reader.read(job));
  result.trainings = std::move(reader.trainings);
  return result;
}

SchedulableJob schedulable_job(const ListedJob& job, std::int64_t epochs, int slots) {
  return {.name = job.title(),
          .arrival_s = job.needs.arrival_s,
          .epochs = epochs,
          .least_ranks = job.needs.least_ranks,
          .most_ranks = std::min(job.needs.most_ranks.value_or(slots), slots),
          .priority = job.needs.priority};
}

std::vector<SchedulableJob> schedulable_jobs(std::span<const ListedJob> jobs,
                                             const ScheduledTrainings& trainings, int slots,
                                             const std::filesystem::path& list) {
  std::vector<SchedulableJob> result;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const ListedJob& job = jobs[j];
    if (job.needs.least_ranks > slots) {
      fail_option("{}: least-ranks is {}; allowed are 1 to {}, the slots of all hosts",
                  place_of(job, list), job.needs.least_ranks, slots);
    }
    result.push_back(schedulable_job(job, trainings.jobs[j].epochs, slots));
  }
  return result;
}

}  // namespace atl
