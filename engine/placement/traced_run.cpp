#include "engine/placement/traced_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "base/json.hpp"
#include "base/median.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/models/model_options.hpp"
#include "engine/placement/simulated_epoch.hpp"

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
  std::map<int, double> in_spans, end_us;
  for (const TraceEvent& event : rank.events) {
    if (event.lane == kEpochLane && event.name == "epoch" && event.tag.epoch > kFirstEpochs) {
      result.epoch_s[event.tag.epoch] = event.duration_us() / 1e6;
      end_us[event.tag.epoch] = event.end_us;
    }
  }
  for (const TraceEvent& event : rank.events) {
    if (!counts(event) || !result.epoch_s.contains(event.tag.epoch)) continue;
    // Spans of evaluations have the number of the epoch and the same names, but lie behind it.
    if (event.begin_us >= end_us[event.tag.epoch]) continue;
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
  PhaseCorrections fit(bool together, double network_speed = 1) const {
    // The time that transfers take from computing depends on when they run, which depends on the
    // factors.
    constexpr int kRounds = 4;
    PhaseCorrections corrections(topology_.ranks(), static_cast<int>(std::ssize(run_.layers)));
    corrections.set_network_speed(network_speed);
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

  // The speed of the network at which a replayed epoch takes what was measured.
  double network_speed() const {
    constexpr double kSlowest = 0.5, kFastest = 2, kExact = 1e-3;
    // Other errors must not look like a slow network: an epoch of which less than this share waits
    // for it says nothing about it.
    constexpr double kLeastShare = 0.2, kStep = 0.05;
    const double usual_s = replayed_s(1);
    if ((replayed_s(1 - kStep) / usual_s - 1) / kStep < kLeastShare) return 1;
    double slow = kSlowest, fast = kFastest;
    const bool explains = replayed_s(slow) >= run_.epoch_s && replayed_s(fast) <= run_.epoch_s;
    if (!explains) return 1;
    while (fast / slow > 1 + kExact) {
      const double speed = std::sqrt(slow * fast);
      (replayed_s(speed) > run_.epoch_s ? slow : fast) = speed;
    }
    return std::sqrt(slow * fast);
  }

 private:
  double replayed_s(double speed) const {
    const PhaseCorrections corrections = fit(/*together=*/false, speed);
    return mean_seconds(simulate_epochs(run_.setting(topology_, corrections), run_.layers,
                                        TaskDetail::kPhases, run_.share_sent));
  }

  std::vector<std::map<PhasePlace, double>> simulate(const PhaseCorrections& corrections) const {
    std::vector<std::map<PhasePlace, double>> seconds(run_.phase_s.size());
    for (const auto& [kind, graph, times] :
         simulate_epochs(run_.setting(topology_, corrections), run_.layers, TaskDetail::kPhases,
                         run_.share_sent)) {
      for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
        const SimTask& task = graph.task(id);
        const std::optional<Phase> phase = phase_named(task.name);
        if (!phase) continue;
        const PhasePlace place{*phase, task.layer, std::string_view(task.direction) == "backward"};
        const auto t = static_cast<std::size_t>(id);
        seconds[static_cast<std::size_t>(std::max(task.rank, 0))][place] +=
            kind.share * (times.end_s[t] - times.start_s[t]);
      }
    }
    return seconds;
  }

  const TracedRun& run_;
  const Topology& topology_;
};

// How its messages travelled.
void read_messages(const Json& metadata, const std::filesystem::path& path, TracedRun& run) {
  const auto json = json_field_or<Json>(metadata, "exchange", path, kExactMode);
  ExchangeOptions exchange =
      read_exchange(json, fmt::format("{}: field 'exchange'", path.string()));
  const bool is_plain =
      exchange.is_plain() && !json_field_or<bool>(metadata, "pipelined", path, false);
  if (!is_plain && json.is_string()) {
    fail_input(
        "{}: a run with --exchange {}, recorded without the options of that mode by an earlier "
        "version; record it again",
        path.string(), exchange.mode);
  }
  if (is_plain) return;
  run.exchange = std::move(exchange);
  if (const auto share = optional_number(metadata, "share_sent", path.string())) {
    run.share_sent = *share;
  }
}

// The epochs by which a run is judged: all of them, or where epochs differ the last ones that make
// up whole cycles. Throws Error{kInput} if there are too few.
std::vector<int> judged_epochs(const RankEpochs& rank, const ExpectedMessages& expected,
                               const std::filesystem::path& path) {
  std::vector<int> epochs;
  for (const auto& [epoch, seconds] : rank.epoch_s) epochs.push_back(epoch);
  const std::size_t cycle =
      expected.kinds.size() > 1 ? static_cast<std::size_t>(expected.cycle) : 1;
  if (epochs.size() < cycle) {
    fail_input(
        "{}: {} epochs after the first {}, which are not typical; {} epochs send all messages, so "
        "record more",
        path.string(), epochs.size(), kFirstEpochs, cycle);
  }
  epochs.erase(epochs.begin(), epochs.begin() + static_cast<std::ptrdiff_t>(epochs.size() % cycle));
  return epochs;
}

// Seconds of a sum over ranks in an epoch, of the rank that came last.
double shortest_seconds(const std::vector<RankEpochs>& ranks, const PhasePlace& place, int epoch) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const RankEpochs& rank : ranks) {
    const auto found = rank.phase_s.find(place);
    if (found != rank.phase_s.end() && found->second.contains(epoch)) {
      shortest = std::min(shortest, found->second.at(epoch));
    }
  }
  return shortest;
}

void set_seconds(const std::vector<RankEpochs>& ranks, const std::filesystem::path& path,
                 TracedRun& run) {
  const ExpectedMessages expected = run.exchange ? expected_messages(*run.exchange, run.share_sent)
                                                 : ExpectedMessages{{EpochKind{}}};
  const bool alike = expected.kinds.size() == 1;
  const auto typical = [&](const std::vector<double>& seconds) {
    return alike ? median(seconds)
                 : std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                       static_cast<double>(seconds.size());
  };
  const std::vector<int> epochs = judged_epochs(ranks.front(), expected, path);
  if (epochs.empty()) {
    fail_input("{}: no epoch after the first {}, which are not typical; record more epochs",
               path.string(), kFirstEpochs);
  }
  std::vector<double> epoch_s;
  for (const int epoch : epochs) {
    double slowest = 0;
    for (const RankEpochs& rank : ranks) {
      const auto found = rank.epoch_s.find(epoch);
      if (found != rank.epoch_s.end()) slowest = std::max(slowest, found->second);
    }
    epoch_s.push_back(slowest);
  }
  run.epochs = static_cast<int>(epoch_s.size());
  run.epoch_s = typical(epoch_s);
  run.phase_s.resize(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const auto& [place, by_epoch] : ranks[r].phase_s) {
      const bool sum = place.phase == Phase::kAllReduce;
      if (sum && r > 0) continue;
      std::vector<double> seconds;
      for (const auto& [epoch, own] : by_epoch) {
        if (!std::ranges::binary_search(epochs, epoch)) continue;
        seconds.push_back(sum ? shortest_seconds(ranks, place, epoch) : own);
      }
      if (!seconds.empty()) run.phase_s[r][place] = typical(seconds);
    }
  }
}

}  // namespace

EpochSetting TracedRun::setting(const Topology& topology,
                                const PhaseCorrections& corrections) const {
  return {.topology = topology,
          .model = model,
          .partition = partition,
          .corrections = corrections,
          .overlap = overlap,
          .gradient_sum = gradient_sum,
          .exchange = exchange ? &*exchange : nullptr,
          .arrival = arrival};
}

TracedRun read_traced_run(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "trace.json";
  const Json json = read_json(path, kMostTraceBytes);
  const Trace trace = parse_trace(json, path.string());
  const Json metadata = json_field<Json>(json, "metadata", path);
  TracedRun run;
  run.model = read_trace_model(json_field<Json>(metadata, "model", path), path);
  // Earlier versions had no traces of several ranks for a part.
  run.model.column_share.ranks = json_field_or<int>(metadata, "ranks_per_part", path, 1);
  run.partition = parse_quality(json_field<Json>(metadata, "partition", path), path);
  run.overlap = json_field<bool>(metadata, "overlap", path);
  // Earlier versions did not say so.
  const bool by_arrival = json_field_or<bool>(metadata, "by_arrival", path, false);
  run.arrival = by_arrival ? Arrival::kOn : Arrival::kOff;
  read_messages(metadata, path, run);
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
  const int each = run.model.column_share.ranks;
  if (std::ssize(run.layers) != layer_count(run.model) || each < 1 ||
      std::ssize(run.partition.parts) * each != std::ssize(trace.ranks)) {
    fail_input("{}: {} ranks and {} layers, but {} parts on {} ranks each and plans of {} layers",
               path.string(), trace.ranks.size(), layer_count(run.model),
               run.partition.parts.size(), each, run.layers.size());
  }
  std::vector<RankEpochs> ranks;
  for (const RankTrace& rank : trace.ranks) ranks.push_back(epochs_of(rank));
  set_seconds(ranks, path, run);
  return run;
}

PhaseCorrections corrections_of(const TracedRun& run, const Topology& topology) {
  const Fitting fitting(run, topology);
  return fitting.fit(/*together=*/false, fitting.network_speed());
}

namespace {

// Seconds of some phases as measured, over those that are expected of them without corrections; 1
// if there are none. counts(place): whether a place is one of these phases.
template <typename Counts>
double factor_of(const TracedRun& run, const PhaseCorrections& corrections, const Counts& counts) {
  double measured_s = 0;
  double expected_s = 0;
  for (int rank = 0; rank < static_cast<int>(run.phase_s.size()); ++rank) {
    for (const auto& [place, seconds] : run.phase_s[static_cast<std::size_t>(rank)]) {
      if (!counts(place)) continue;
      measured_s += seconds;
      expected_s += seconds / corrections.factor(rank, place);
    }
  }
  return expected_s > 0 ? measured_s / expected_s : 1;
}

bool is_computing(Phase phase) {
  return is_row_work(phase) || phase == Phase::kSpmmCentral || phase == Phase::kSpmmMarginal;
}

}  // namespace

PhaseCorrections common_corrections(const TracedRun& run, const Topology& topology) {
  const Fitting fitting(run, topology);
  PhaseCorrections corrections = fitting.fit(/*together=*/true, fitting.network_speed());
  std::set<PhasePlace> known;
  for (const auto& of_rank : run.phase_s) {
    for (const auto& [place, seconds] : of_rank) known.insert(place);
  }
  const int layers = static_cast<int>(run.layers.size());
  std::vector<PhaseCorrections::RowWork> row_work;
  for (int layer = 0; layer < layers; ++layer) {
    auto& of_layer = row_work.emplace_back(run.layers[static_cast<std::size_t>(layer)].algebra);
    for (const bool backward : {false, true}) {
      of_layer.factors[backward ? 1 : 0] =
          factor_of(run, corrections, [&](const PhasePlace& place) {
            return place.layer == layer && place.backward == backward && is_row_work(place.phase);
          });
    }
  }
  // Another plan may have a phase where the run had none. Halo rows that nobody computed in the run
  // take the same kernels as others.
  const double computing =
      factor_of(run, corrections, [](const auto& place) { return is_computing(place.phase); });
  for (std::size_t p = 0; p < kPhaseNames.size(); ++p) {
    const auto phase = static_cast<Phase>(p);
    const auto has = [&](const PhasePlace& place) { return place.phase == phase; };
    const bool had = std::ranges::any_of(known, has);
    if (!had && phase != Phase::kRecompute) continue;
    const double others = had ? factor_of(run, corrections, has) : computing;
    for (int layer = -1; layer < layers; ++layer) {
      for (const bool backward : {false, true}) {
        const PhasePlace place{phase, layer, backward};
        if (known.contains(place)) continue;
        for (int rank = 0; rank < topology.ranks(); ++rank) corrections.set(rank, place, others);
      }
    }
  }
  corrections.set_row_work(std::move(row_work));
  return corrections;
}

}  // namespace atl
