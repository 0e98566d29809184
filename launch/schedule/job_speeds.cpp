#include "launch/schedule/job_speeds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/progress.hpp"
#include "engine/placement/simulated_epoch.hpp"
#include "engine/placement/sub_topology.hpp"
#include "launch/planned_graph.hpp"
#include "launch/version.hpp"

namespace atl {

namespace {

constexpr int kSpeedsFormat = 2;

// One factor holds for all ranks: for any number of them.
PhaseCorrections for_ranks(const PhaseCorrections& all, int ranks, int layers) {
  PhaseCorrections some(ranks, layers);
  for (std::size_t p = 0; p < kPhaseNames.size(); ++p) {
    for (int layer = -1; layer < layers; ++layer) {
      for (const bool backward : {false, true}) {
        const PhasePlace place{static_cast<Phase>(p), layer, backward};
        for (int rank = 0; rank < ranks; ++rank) some.set(rank, place, all.factor(0, place));
      }
    }
  }
  return some;
}

// The ranks of a run that was measured: one on each of the first hosts, or as many on each of all.
// Throws Error{kInput} where neither is possible.
Topology machine_of(const TracedRun& run, const Topology& topology) {
  const auto ranks = static_cast<int>(run.phase_s.size());
  const auto hosts = static_cast<int>(topology.hosts.size());
  JobPlacement placement;
  for (int host = 0; host < std::min(ranks, hosts); ++host) placement.hosts.push_back(host);
  placement.ranks_per_host = std::max(1, ranks / hosts);
  if (ranks > topology.ranks() || placement.ranks() != ranks) {
    fail_input(
        "--measured: the run has {} ranks, the topology {}; allowed are runs on one rank of each "
        "of up to {} hosts, or on as many of each host",
        ranks, topology.ranks(), hosts);
  }
  return sub_topology(topology, placement);
}

// How much longer an epoch of the run took than its phases make it: pauses between phases, which a
// processor under a quota takes where it likes.
double time_beside_phases(const TracedRun& run, const Topology& machine) {
  const PhaseCorrections corrections = corrections_of(run, machine);
  const auto epochs = simulate_epochs(run.setting(machine, corrections), run.layers,
                                      TaskDetail::kPhases, run.share_sent);
  return run.epoch_s / mean_seconds(epochs);
}

std::int64_t nodes_of(const PartitionQuality& partition) {
  std::int64_t nodes = 0;
  for (const auto& part : partition.parts) nodes += part.nodes;
  return nodes;
}

// Hosts by number: their names change no time.
Json machine_json(Topology machine) {
  for (std::size_t h = 0; h < machine.hosts.size(); ++h) {
    machine.hosts[h].name = std::to_string(h);
  }
  return to_json(machine);
}

}  // namespace

SimulatedSpeeds::SimulatedSpeeds(Setting setting)
    : setting_(std::move(setting)),
      hosts_(scheduled_hosts(setting_.topology)),
      measured_(setting_.trainings.trainings.size()) {
  for (const MeasuredRun& run : setting_.measured) {
    measured_on_.push_back(machine_of(run.traced, setting_.topology));
  }
  for (std::size_t t = 0; t < measured_.size(); ++t) {
    const ScheduledTraining& training = setting_.trainings.trainings[t];
    const ModelConfig model =
        model_for(training.dataset->info(), training.options.model, setting_.topology.ranks());
    for (std::size_t r = 0; r < setting_.measured.size(); ++r) {
      const TracedRun& run = setting_.measured[r].traced;
      if (!is_run_of(run, model)) continue;
      const bool has_columns = run.model.features == model.features &&
                               run.model.hidden == model.hidden &&
                               run.model.outputs == model.outputs;
      measured_[t].push_back(
          {r, nodes_of(run.partition) != training.dataset->info().nodes, !has_columns});
    }
  }
  try {
    read_table();
  } catch (const Error& error) {
    fail_input("{}; remove the file, and it is made again", error.what());
  }
}

void SimulatedSpeeds::read_table() {
  const std::filesystem::path& file = setting_.table;
  if (file.empty() || !is_there(file)) return;
  const Json json = read_json(file);
  const bool is_ours = json_field<int>(json, "format", file) == kSpeedsFormat &&
                       json_field<std::string>(json, "program", file) == program_commit();
  if (!is_ours) return;
  for (const Json& entry : json_field<Json>(json, "speeds", file)) {
    Known known{.speed = parse_speed(json_field<Json>(entry, "speed", file), file),
                .dataset = json_field<std::string>(entry, "dataset", file),
                .hosts = json_field<std::size_t>(entry, "hosts", file),
                .ranks_per_host = json_field<int>(entry, "ranks_per_host", file)};
    const bool fits =
        !known.speed.refusal.empty() || (known.speed.epoch_card_s.size() == known.hosts &&
                                         known.speed.evaluation_card_s.size() == known.hosts);
    if (!fits) {
      fail_input("{}: a speed on {} hosts has figures of other numbers of cards", file.string(),
                 known.hosts);
    }
    known_.emplace(json_field<std::string>(entry, "key", file), std::move(known));
  }
}

void SimulatedSpeeds::save() {
  cuts_saved_ = cuts_.made();
  if (setting_.table.empty() || !is_new_) return;
  Json speeds = Json::array();
  for (const auto& [key, known] : known_) {
    speeds.push_back({{"key", key},
                      {"dataset", known.dataset},
                      {"hosts", known.hosts},
                      {"ranks_per_host", known.ranks_per_host},
                      {"speed", to_json(known.speed)}});
  }
  write_json(setting_.table,
             {{"format", kSpeedsFormat}, {"program", program_commit()}, {"speeds", speeds}});
  is_new_ = false;
}

JobPlacement SimulatedSpeeds::canonical(const JobPlacement& placement) const {
  JobPlacement first{.hosts = {}, .ranks_per_host = placement.ranks_per_host};
  std::map<int, std::size_t> taken;  // by kind: hosts that were looked at
  for (const int host : placement.hosts) {
    const int kind = hosts_.at(static_cast<std::size_t>(host)).kind;
    std::size_t& next = taken[kind];
    while (hosts_[next].kind != kind) ++next;
    first.hosts.push_back(static_cast<int>(next++));
  }
  return first;
}

const SimulatedSpeed& SimulatedSpeeds::speed_of(std::size_t training,
                                                const JobPlacement& placement) {
  const Place place(training, placement.ranks_per_host, placement.hosts);
  if (const auto found = places_.find(place); found != places_.end()) return *found->second;
  const JobPlacement first = canonical(placement);
  const SimulatedSpeed& speed =
      first == placement ? simulate(training, placement) : speed_of(training, first);
  places_.emplace(place, &speed);
  return speed;
}

std::optional<std::size_t> SimulatedSpeeds::nearest_run(std::size_t training, int ranks) const {
  const auto distance = [&](const Measure& measure) {
    return std::tuple(measure.of_other_graph, measure.of_other_columns,
                      std::abs(measured_on_[measure.run].ranks() - ranks));
  };
  const Measure* nearest = nullptr;
  for (const Measure& measure : measured_[training]) {
    if (nearest == nullptr || distance(measure) <= distance(*nearest)) nearest = &measure;
  }
  return nearest == nullptr ? std::nullopt : std::optional(nearest->run);
}

const SimulatedSpeed& SimulatedSpeeds::simulate(std::size_t t, const JobPlacement& placement) {
  const ScheduledTraining& training = setting_.trainings.trainings[t];
  const Topology machine = sub_topology(setting_.topology, placement);
  const std::optional<std::size_t> run = nearest_run(t, machine.ranks());
  std::string by;
  if (run) {
    const TracedRun& traced = setting_.measured[*run].traced;
    by = fmt::format("{} ms in {} epochs on {} ranks", 1000 * traced.epoch_s, traced.epochs,
                     measured_on_[*run].ranks());
  }
  const Json identity = {
      {"training", training.identity}, {"machine", machine_json(machine)}, {"by", by}};
  const std::string key = to_hex(checksum(std::string_view(identity.dump())));
  if (!known_.contains(key)) {
    const Activity activity(fmt::format("simulating epochs of {} on {} ranks",
                                        training.dataset->info().name, machine.ranks()));
    Measured measured;
    if (run) {
      measured = measured_by(setting_.measured[*run].traced, measured_on_[*run]);
      const ModelConfig model =
          model_for(training.dataset->info(), training.options.model, machine.ranks());
      measured.corrections = for_ranks(measured.corrections, machine.ranks(), layer_count(model));
    }
    Known known;
    known.speed = simulated_speed(training, machine, cuts_, measured);
    if (run) {
      const double factor = time_beside_phases(setting_.measured[*run].traced, measured_on_[*run]);
      known.speed.epoch_s *= factor;
      known.speed.evaluation_s *= factor;
    }
    known.dataset = training.dataset->info().name;
    known.hosts = placement.hosts.size();
    known.ranks_per_host = placement.ranks_per_host;
    known_.emplace(key, std::move(known));
    ++simulated_;
    is_new_ = true;
    if (cuts_.made() > cuts_saved_) save();  // a cut may take minutes
  }
  return known_.at(key).speed;
}

double SimulatedSpeeds::evaluations_per_epoch(int job) const {
  return static_cast<double>(at(job).evaluations) / static_cast<double>(at(job).epochs);
}

double SimulatedSpeeds::epoch_s(int job, const JobPlacement& placement) {
  const SimulatedSpeed& speed = speed_of(at(job).training, placement);
  return speed.epoch_s + evaluations_per_epoch(job) * speed.evaluation_s;
}

std::vector<double> SimulatedSpeeds::card_shares(int job, const JobPlacement& placement) {
  const SimulatedSpeed& speed = speed_of(at(job).training, placement);
  std::vector<double> shares(placement.hosts.size(), 0);
  if (!speed.refusal.empty()) return shares;
  const double evaluations = evaluations_per_epoch(job);
  const double seconds = epoch_s(job, placement);
  for (std::size_t h = 0; h < shares.size(); ++h) {
    const double card_s = speed.epoch_card_s.at(h) + evaluations * speed.evaluation_card_s.at(h);
    shares[h] = std::min(1.0, card_s / seconds);
  }
  return shares;
}

std::optional<double> SimulatedSpeeds::start_s(int job) const {
  double sum_s = 0;
  int runs = 0;
  for (const Measure& measure : measured_[at(job).training]) {
    const std::optional<double>& start_s = setting_.measured[measure.run].start_s;
    if (measure.of_other_graph || !start_s) continue;
    sum_s += *start_s;
    ++runs;
  }
  return runs == 0 ? std::nullopt : std::optional(sum_s / runs);
}

std::vector<std::size_t> SimulatedSpeeds::unused_runs() const {
  std::vector<std::size_t> unused;
  for (std::size_t run = 0; run < setting_.measured.size(); ++run) {
    const bool is_used = std::ranges::any_of(measured_, [&](const auto& measures) {
      return std::ranges::count(measures, run, &Measure::run) > 0;
    });
    if (!is_used) unused.push_back(run);
  }
  return unused;
}

std::string SimulatedSpeeds::refusal(int job) const {
  std::string refusal;
  std::size_t most = 0;
  for (const auto& [place, speed] : places_) {
    const auto& [training, each, hosts] = place;
    const std::size_t ranks = hosts.size() * static_cast<std::size_t>(each);
    if (training != at(job).training || ranks < most) continue;
    most = ranks;
    refusal = speed->refusal;
  }
  return refusal;
}

}  // namespace atl
