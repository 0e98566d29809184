#include "tests/benchmarks/schedule_lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/json.hpp"
#include "engine/placement/plan_space.hpp"
#include "engine/placement/policy/workload.hpp"
#include "engine/placement/random_draws.hpp"

namespace atl {
namespace {

constexpr double kStartSeconds = 10;  // processes, shards, the first snapshot
constexpr double kMostEpochSeconds = 60;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

struct Cluster {
  double card_bytes_per_s = 0;
  double spmm_bytes_per_s = 0;  // of a rank
};

// From two cores of a socket to all of it, with cards of 1 or 10 Gbit/s.
Cluster draw_cluster(RandomDraws& draws) {
  return {draws.chance(0.5) ? 1.25e8 : 1.25e9, draws.log_uniform(8e9, 1e11)};
}

// Equal ranks, which compute as much per byte of SpMM as those of docs/performance.md do.
Topology cluster_part(int hosts, int per_host, const Cluster& cluster) {
  const double card = cluster.card_bytes_per_s, spmm = cluster.spmm_bytes_per_s;
  Topology topology;
  for (int h = 0; h < hosts; ++h) {
    topology.hosts.push_back({fmt::format("host-{}", h), card, card});
  }
  for (int r = 0; r < hosts * per_host; ++r) {
    Device device;
    device.host = device.island = r / per_host;
    device.memory_bytes = 32e9;
    device.spmm_bytes_per_s = {{16, 0.6 * spmm}, {128, spmm}};
    device.gemm_flop_per_s = {{16, 6 * spmm}, {128, 25 * spmm}};
    device.elementwise_bytes_per_s = spmm;
    device.quantize_bytes_per_s = spmm / 4;
    topology.devices.push_back(device);
  }
  for (const Device& from : topology.devices) {
    for (const Device& to : topology.devices) {
      topology.links.push_back(from.host == to.host ? Link{5e-6, 5e9} : Link{1e-4, card});
    }
  }
  return topology;
}

struct Training {
  ModelConfig model;
  double nodes = 0;
  double degree = 0;
  double halo = 0;  // halo rows in 8 parts, by nodes
};

Training draw_training(RandomDraws& draws) {
  Training training;
  training.model.kind = draws.chance(0.5) ? "gcn" : "sage";
  training.model.layers = draws.between(2, 4);
  training.model.features = std::llround(draws.log_uniform(32, 512));
  training.model.hidden = std::llround(draws.log_uniform(32, 512));
  training.model.outputs = 40;
  training.model.norm = draws.chance(0.5) ? Norm::kBatch : Norm::kNone;
  training.nodes = draws.log_uniform(5e4, 5e6);
  training.degree = draws.log_uniform(5, 60);
  training.halo = draws.log_uniform(0.07, 1.2);  // from a mesh to graphs like arxiv and worse
  return training;
}

// Halo rows and marginal nodes grow with the number of parts as those of ogbn-arxiv do
// (docs/partition.md): 0.16, 0.41 and 0.74 of its nodes in 2, 4 and 8 parts.
PartitionQuality make_quality(const Training& training, int parts) {
  const double halo = training.halo * std::pow(std::log2(parts) / 3, 1.4);
  const double marginal = parts == 1 ? 0 : halo / (1 + 0.9 * halo);
  PartitionQuality quality;
  quality.shares.assign(index(parts), 1.0 / parts);
  const double nodes = training.nodes / parts;
  PartQuality part;
  part.nodes = std::llround(nodes);
  part.edges = std::llround(nodes * training.degree);
  part.central = std::llround(nodes * (1 - marginal));
  part.marginal_edges = std::llround(static_cast<double>(part.edges) * std::pow(marginal, 0.45));
  part.training_nodes = part.nodes / 2;
  part.cost = part.edges + kNodeCost * part.nodes;
  part.halo_forward = part.halo_backward = std::llround(nodes * halo);
  quality.parts.assign(index(parts), part);
  for (int to = 0; to < parts; ++to) {
    for (int from = 0; from < parts; ++from) {
      quality.forward_rows.push_back(to == from ? 0 : part.halo_forward / (parts - 1));
    }
  }
  quality.backward_rows = quality.forward_rows;
  return quality;
}

class SimulatedSpeeds final : public JobSpeeds {
 public:
  SimulatedSpeeds(std::vector<Training> trainings, const Cluster& cluster)
      : trainings_(std::move(trainings)), cluster_(cluster) {}

  double epoch_s(int job, const JobPlacement& placement) override {
    return known(job, placement).epoch_s;
  }
  std::vector<double> card_shares(int job, const JobPlacement& placement) override {
    return std::vector<double>(placement.hosts.size(), known(job, placement).card_share);
  }

 private:
  struct Speed {
    double epoch_s = kCantTrain;
    double card_share = 0;
  };
  using Key = std::array<int, 3>;  // job, hosts, ranks per host

  const Speed& known(int job, const JobPlacement& placement) {
    const Key key = {job, static_cast<int>(placement.hosts.size()), placement.ranks_per_host};
    const auto [entry, is_new] = known_.try_emplace(key);
    if (is_new) entry->second = simulate(trainings_[index(job)], key[1], key[2]);
    return entry->second;
  }

  Speed simulate(const Training& training, int hosts, int per_host) const {
    const Topology topology = cluster_part(hosts, per_host, cluster_);
    const std::vector<CutCandidate> cuts = {
        {"equal", {}, make_quality(training, topology.ranks())}};
    PlanSpace space(topology, training.model, cuts, {32});
    const std::vector<int> start = space.start();
    const PlanCost cost = space.evaluate(start);
    if (cost.missing_bytes > 0) return {};
    const Workload work =
        count_workload(topology, space.tasks(start, TaskDetail::kPhases), training.model.layers);
    const double fullest = *std::ranges::max_element(work.card_seconds);
    return {cost.seconds, hosts == 1 ? 0 : std::min(1.0, fullest / cost.seconds)};
  }

  std::vector<Training> trainings_;
  Cluster cluster_;
  std::map<Key, Speed> known_;
};

// The least rank-seconds of its epoch, and the time of its fastest; infinity: it fits nowhere.
std::pair<double, double> least_work(const ListRanges& ranges, int job, JobSpeeds& speeds) {
  double work = kCantTrain, fastest = kCantTrain;
  for (int h = 1; h <= ranges.hosts; ++h) {
    for (int k = 1; k <= ranges.slots; ++k) {
      JobPlacement placement{std::vector<int>(index(h)), k};
      std::iota(placement.hosts.begin(), placement.hosts.end(), 0);
      const double epoch_s = speeds.epoch_s(job, placement);
      work = std::min(work, h * k * epoch_s);
      fastest = std::min(fastest, epoch_s);
    }
  }
  return {work, fastest};
}

// Speeds that were written down.
class TableSpeeds final : public JobSpeeds {
 public:
  void add(std::vector<int> hosts, std::vector<double> by_ranks) {
    hosts_.push_back(std::move(hosts));
    by_ranks_.push_back(std::move(by_ranks));
  }
  double epoch_s(int job, const JobPlacement& placement) override {
    const std::vector<int>& allowed = hosts_[index(job)];
    const std::vector<double>& by_ranks = by_ranks_[index(job)];
    const bool fits = placement.hosts.size() == 1 && placement.ranks() <= std::ssize(by_ranks) &&
                      std::ranges::find(allowed, placement.hosts[0]) != allowed.end();
    return fits ? by_ranks[index(placement.ranks() - 1)] : kCantTrain;
  }
  std::vector<double> card_shares(int /*job*/, const JobPlacement& /*placement*/) override {
    return {0};
  }

 private:
  std::vector<std::vector<int>> hosts_;
  std::vector<std::vector<double>> by_ranks_;
};

}  // namespace

ScheduledList random_list(const ListRanges& ranges, std::uint64_t seed) {
  RandomDraws draws(seed);
  ScheduledList list;
  for (int h = 0; h < ranges.hosts; ++h) {
    list.hosts.push_back({fmt::format("host-{}", h), ranges.slots});
  }
  const int count = draws.between(ranges.least_jobs, ranges.most_jobs);
  const Cluster cluster = draw_cluster(draws);
  std::vector<Training> trainings;
  while (std::ssize(trainings) < count) {
    const Training training = draw_training(draws);
    SimulatedSpeeds alone({training}, cluster);
    // Those that fit on no part of the cluster, or take too long there, are left out.
    if (least_work(ranges, 0, alone).second < kMostEpochSeconds) trainings.push_back(training);
  }
  list.speeds = std::make_shared<SimulatedSpeeds>(trainings, cluster);
  double work_s = 0;
  for (int job = 0; job < count; ++job) {
    const auto epochs = static_cast<std::int64_t>(draws.log_uniform(50, 1000));
    list.jobs.push_back({.name = fmt::format("job-{}", job),
                         .epochs = epochs,
                         .most_ranks = ranges.hosts * ranges.slots,
                         .start_s = kStartSeconds});
    work_s += static_cast<double>(epochs) * least_work(ranges, job, *list.speeds).first;
  }
  const double slots = ranges.hosts * ranges.slots;
  const double load = std::array{0.0, 0.5, 1.0}[seed % 3];
  double arrival_s = 0;
  for (SchedulableJob& job : list.jobs) {
    job.arrival_s = arrival_s;
    if (load > 0) arrival_s += -std::log(1 - draws.unit()) * work_s / count / slots / load;
  }
  return list;
}

std::vector<ScheduledList> read_lists(const std::filesystem::path& path) {
  std::vector<ScheduledList> lists;
  for (const Json& json : read_json(path)) {
    ScheduledList& list = lists.emplace_back();
    const auto slots = json_field<std::vector<int>>(json, "hosts", path);
    for (int h = 0; h < std::ssize(slots); ++h) {
      list.hosts.push_back({fmt::format("host-{}", h), slots[index(h)], h});
    }
    auto speeds = std::make_shared<TableSpeeds>();
    for (const Json& job : json_field<Json>(json, "jobs", path)) {
      const auto by_ranks = json_field<std::vector<double>>(job, "epoch_s", path);
      list.jobs.push_back({.name = fmt::format("job-{}", list.jobs.size()),
                           .arrival_s = json_field<double>(job, "arrival_s", path),
                           .most_ranks = static_cast<int>(by_ranks.size())});
      speeds->add(json_field<std::vector<int>>(job, "hosts", path), by_ranks);
    }
    list.speeds = speeds;
  }
  return lists;
}

}  // namespace atl
