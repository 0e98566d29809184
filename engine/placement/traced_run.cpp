#include "engine/placement/traced_run.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "base/json.hpp"
#include "base/median.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/models/model_options.hpp"
#include "engine/placement/epoch_tasks.hpp"
#include "engine/placement/simulator.hpp"

namespace atl {

namespace {

constexpr int kFirstEpochs = 2;  // that fill caches and buffers

// The phase that a span of the main thread is, or none.
std::optional<PhasePlace> place_of(const TraceEvent& event) {
  const std::optional<Phase> phase = phase_named(event.name);
  if (!phase) return std::nullopt;
  const bool backward = event.direction == "backward" || event.what == "batch norm gradient";
  return PhasePlace{*phase, event.tag.layer, backward};
}

bool counts(const TraceEvent& event) {
  return event.lane == kHostLane && event.tag.epoch > kFirstEpochs;
}

// By epoch: seconds of every phase of one rank, and of the whole.
struct RankEpochs {
  std::map<PhasePlace, std::map<int, double>> phase_s;
  std::map<int, double> epoch_s;
};

RankEpochs epochs_of(const RankTrace& rank) {
  RankEpochs result;
  std::map<int, double> in_spans;
  for (const TraceEvent& event : rank.events) {
    if (event.lane == kEpochLane && event.name == "epoch" && event.tag.epoch > kFirstEpochs) {
      result.epoch_s[event.tag.epoch] = event.duration_us() / 1e6;
    }
  }
  for (const TraceEvent& event : rank.events) {
    // Spans of evaluations have an epoch too, but lie behind it.
    if (!counts(event) || !result.epoch_s.contains(event.tag.epoch)) continue;
    const double seconds = event.duration_us() / 1e6;
    in_spans[event.tag.epoch] += seconds;
    if (const auto place = place_of(event)) result.phase_s[*place][event.tag.epoch] += seconds;
  }
  for (const auto& [epoch, seconds] : result.epoch_s) {
    result.phase_s[{Phase::kRest, -1, false}][epoch] = std::max(0.0, seconds - in_spans[epoch]);
  }
  return result;
}

// Measured seconds against those of the same phases in a simulated epoch.
class Fitting {
 public:
  Fitting(const TracedRun& run, const Topology& topology) : run_(run), topology_(topology) {
    if (topology.ranks() != static_cast<int>(run.phase_s.size())) {
      fail_input("the run has {} ranks, the topology {}", run.phase_s.size(), topology.ranks());
    }
  }

  // `together`: one factor for all ranks.
  PhaseCorrections fit(bool together) const {
    // The time that transfers take from computing depends on when they run, which depends on the
    // factors.
    constexpr int kRounds = 4;
    PhaseCorrections corrections(topology_.ranks(), static_cast<int>(std::ssize(run_.layers)));
    for (int round = 0; round < kRounds; ++round) {
      const auto simulated = simulate(corrections);
      std::map<PhasePlace, std::pair<double, double>> sums;
      for (int rank = 0; rank < topology_.ranks(); ++rank) {
        const auto& of_rank = simulated[static_cast<std::size_t>(rank)];
        for (const auto& [place, measured] : run_.phase_s[static_cast<std::size_t>(rank)]) {
          const auto found = of_rank.find(place);
          if (found == of_rank.end() || found->second <= 0) continue;
          if (together) {
            sums[place].first += measured;
            sums[place].second += found->second;
          } else {
            corrections.set(rank, place,
                            corrections.factor(rank, place) * measured / found->second);
          }
        }
      }
      for (const auto& [place, sum] : sums) {
        for (int rank = 0; rank < topology_.ranks(); ++rank) {
          corrections.set(rank, place, corrections.factor(rank, place) * sum.first / sum.second);
        }
      }
    }
    return corrections;
  }

 private:
  std::vector<std::map<PhasePlace, double>> simulate(const PhaseCorrections& corrections) const {
    const EpochSetting setting{topology_,   run_.model,   run_.partition,
                               corrections, run_.overlap, run_.gradient_sum};
    const TaskGraph graph = epoch_tasks(setting, run_.layers, TaskDetail::kPhases);
    Simulator simulator(topology_);
    const TaskTimes& times = simulator.run(graph);
    std::vector<std::map<PhasePlace, double>> seconds(run_.phase_s.size());
    for (TaskId id = 0; id < graph.size(); ++id) {
      const SimTask& task = graph.task(id);
      const std::optional<Phase> phase = phase_named(task.name);
      if (!phase) continue;
      const PhasePlace place{*phase, task.layer, std::string_view(task.direction) == "backward"};
      const auto t = static_cast<std::size_t>(id);
      seconds[static_cast<std::size_t>(std::max(task.rank, 0))][place] +=
          times.end_s[t] - times.start_s[t];
    }
    return seconds;
  }

  const TracedRun& run_;
  const Topology& topology_;
};

}  // namespace

TracedRun read_traced_run(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "trace.json";
  const Json json = read_json(path, kMostTraceBytes);
  const Trace trace = parse_trace(json, path.string());
  const Json metadata = json_field<Json>(json, "metadata", path);
  TracedRun run;
  run.model = read_trace_model(json_field<Json>(metadata, "model", path), path);
  run.partition = parse_quality(json_field<Json>(metadata, "partition", path), path);
  run.overlap = json_field<bool>(metadata, "overlap", path);
  const auto exchange = json_field_or<std::string>(metadata, "exchange", path, kExactMode);
  const ExchangeMode* mode = find_exchange_mode(exchange);
  const auto pipelined = json_field_or<bool>(metadata, "pipelined", path, false);
  if (mode == nullptr || pipelined || !mode->sends_all() || mode->differences) {
    fail_input(
        "{}: a run with --exchange {}{}; only modes can be predicted that use each message in the "
        "epoch that sends it, and keep no rows",
        path.string(), exchange, pipelined ? ", pipelined" : "");
  }
  for (const Json& layer : json_field<Json>(metadata, "layers", path)) {
    run.layers.push_back(
        {{read_order(layer, path), json_field<bool>(layer, "cached_aggregate", path)},
         json_field<double>(layer, "bits", path)});
  }
  read_recomputation(json_field_or<Json>(metadata, "recomputation", path, nullptr),
                     static_cast<int>(trace.ranks.size()), path, run.layers);
  run.gradient_sum = parse_sum_route(json_field_or<Json>(metadata, "gradient_sum", path, nullptr),
                                     static_cast<int>(trace.ranks.size()),
                                     fmt::format("{}: field 'gradient_sum'", path.string()));
  if (std::ssize(run.layers) != layer_count(run.model) ||
      run.partition.parts.size() != trace.ranks.size()) {
    fail_input("{}: {} ranks and {} layers, but parts of {} ranks and plans of {} layers",
               path.string(), trace.ranks.size(), layer_count(run.model),
               run.partition.parts.size(), run.layers.size());
  }
  std::vector<RankEpochs> ranks;
  for (const RankTrace& rank : trace.ranks) ranks.push_back(epochs_of(rank));
  std::vector<double> epoch_s;
  for (const auto& [epoch, seconds] : ranks.front().epoch_s) {
    double slowest = seconds;
    for (const RankEpochs& rank : ranks) {
      const auto found = rank.epoch_s.find(epoch);
      if (found != rank.epoch_s.end()) slowest = std::max(slowest, found->second);
    }
    epoch_s.push_back(slowest);
  }
  if (epoch_s.empty()) {
    fail_input("{}: no epoch after the first {}, which are not typical; record more epochs",
               path.string(), kFirstEpochs);
  }
  run.epochs = static_cast<int>(epoch_s.size());
  run.epoch_s = median(epoch_s);
  run.phase_s.resize(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const auto& [place, by_epoch] : ranks[r].phase_s) {
      if (place.phase == Phase::kAllReduce && r > 0) continue;
      std::vector<double> seconds;
      for (const auto& [epoch, own] : by_epoch) {
        double s = own;
        if (place.phase == Phase::kAllReduce) {
          for (const RankEpochs& other : ranks) {
            const auto found = other.phase_s.find(place);
            if (found != other.phase_s.end() && found->second.contains(epoch)) {
              s = std::min(s, found->second.at(epoch));
            }
          }
        }
        seconds.push_back(s);
      }
      run.phase_s[r][place] = median(seconds);
    }
  }
  return run;
}

PhaseCorrections corrections_of(const TracedRun& run, const Topology& topology) {
  return Fitting(run, topology).fit(/*together=*/false);
}

PhaseCorrections common_corrections(const TracedRun& run, const Topology& topology) {
  PhaseCorrections corrections = Fitting(run, topology).fit(/*together=*/true);
  for (std::size_t p = 0; p < kPhaseNames.size(); ++p) {
    double measured_s = 0;
    double expected_s = 0;
    std::set<PhasePlace> known;
    for (int rank = 0; rank < topology.ranks(); ++rank) {
      for (const auto& [place, seconds] : run.phase_s[static_cast<std::size_t>(rank)]) {
        if (place.phase != static_cast<Phase>(p)) continue;
        known.insert(place);
        measured_s += seconds;
        expected_s += seconds / corrections.factor(rank, place);
      }
    }
    if (expected_s <= 0) continue;
    // Another plan may have this phase where the run had none.
    for (int layer = -1; layer < static_cast<int>(run.layers.size()); ++layer) {
      for (const bool backward : {false, true}) {
        const PhasePlace place{static_cast<Phase>(p), layer, backward};
        if (known.contains(place)) continue;
        for (int rank = 0; rank < topology.ranks(); ++rank) {
          corrections.set(rank, place, measured_s / expected_s);
        }
      }
    }
  }
  return corrections;
}

}  // namespace atl
