#include "engine/placement/policy/random_instance.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "engine/placement/random_draws.hpp"

namespace atl {

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

class InstanceMaker {
 public:
  InstanceMaker(const InstanceRanges& ranges, std::uint64_t seed)
      : ranges_(ranges), draws_(seed), instance_(std::make_unique<PolicyInstance>()) {}

  std::unique_ptr<PolicyInstance> make() {
    draw_topology();
    draw_model();
    draw_cuts();
    PolicyInstance& made = *instance_;
    made.space = std::make_unique<PlanSpace>(made.topology, made.model, made.cuts, made.bits);
    if (draws_.chance(0.25)) make_memory_scarce();
    return std::move(instance_);
  }

 private:
  double log_draw(const Range& range) { return draws_.log_uniform(range.low, range.high); }
  std::int64_t whole(const Range& range) { return std::llround(log_draw(range)); }

  void draw_topology() {
    Topology& topology = instance_->topology;
    const int hosts = draws_.between(ranges_.hosts.low, ranges_.hosts.high);
    const double card = log_draw(ranges_.card_bytes_per_s);
    const bool cards_differ = draws_.chance(0.4);
    const bool free_progress = draws_.chance(0.3);
    usual_ = usual_device();
    for (int h = 0; h < hosts; ++h) {
      const double send = cards_differ ? card * draws_.log_uniform(0.25, 1) : card;
      const double receive = draws_.chance(0.1) ? send * draws_.log_uniform(0.5, 1) : send;
      topology.hosts.push_back({"host-" + std::to_string(h), send, receive});
      const int ranks = draws_.between(ranges_.ranks_per_host.low, ranges_.ranks_per_host.high);
      const bool slow_host = draws_.chance(0.2);
      for (int r = 0; r < ranks; ++r) {
        const bool slow = slow_host || draws_.chance(0.15);
        Device device = slower(usual_, slow ? log_draw(ranges_.slowdown) : 1);
        device.host = device.island = h;
        // While the card is full; a third of it polling.
        const double lost = free_progress ? 0 : draws_.uniform(0, 0.5);
        device.polling_share = lost / 3;
        device.progress_s_per_byte =
            (lost - device.polling_share) / topology.hosts.back().send_bytes_per_s;
        topology.devices.push_back(device);
      }
    }
    draw_links();
  }

  Device usual_device() {
    Device device;
    const double spmm = 1e9 * log_draw(ranges_.device_gb_per_s);
    const double flop = spmm * draws_.log_uniform(3, 60);
    device.spmm_bytes_per_s = {{16, spmm * draws_.uniform(0.4, 0.9)}, {128, spmm}};
    device.gemm_flop_per_s = {{16, flop * draws_.uniform(0.1, 0.6)}, {128, flop}};
    device.elementwise_bytes_per_s = spmm * draws_.log_uniform(0.7, 2.5);
    device.quantize_bytes_per_s = spmm * draws_.log_uniform(0.05, 0.5);
    device.memory_bytes = 1e15;
    return device;
  }

  Device slower(Device device, double factor) {
    for (auto* rates : {&device.spmm_bytes_per_s, &device.gemm_flop_per_s}) {
      const double here = factor * draws_.log_uniform(0.9, 1.1);
      for (RateAtColumns& rate : *rates) rate.per_s /= here;
    }
    device.elementwise_bytes_per_s /= factor * draws_.log_uniform(0.9, 1.1);
    device.quantize_bytes_per_s /= factor * draws_.log_uniform(0.9, 1.1);
    return device;
  }

  void draw_links() {
    Topology& topology = instance_->topology;
    double card = 0;
    for (const Host& host : topology.hosts) card = std::max(card, host.send_bytes_per_s);
    const double inside = card * draws_.log_uniform(1, 50);
    const double inside_latency = draws_.log_uniform(1e-6, 1e-5);
    const double latency = draws_.log_uniform(1e-5, 3e-4);
    for (const Device& from : topology.devices) {
      for (const Device& to : topology.devices) {
        const double rate = std::min(topology.hosts[index(from.host)].send_bytes_per_s,
                                     topology.hosts[index(to.host)].receive_bytes_per_s);
        topology.links.push_back(from.host == to.host ? Link{inside_latency, inside}
                                                      : Link{latency, rate});
      }
    }
  }

  void draw_model() {
    ModelConfig& model = instance_->model;
    model.kind = draws_.chance(0.5) ? "gcn" : "sage";
    model.layers = draws_.between(ranges_.layers.low, ranges_.layers.high);
    model.features = whole(ranges_.features);
    model.hidden = whole(ranges_.hidden);
    model.outputs = whole({2, 200});
    model.norm = draws_.chance(0.4)   ? Norm::kBatch
                 : draws_.chance(0.5) ? Norm::kLayer
                                      : Norm::kNone;
    model.input_dropout = draws_.chance(0.25) ? 0.3 : 0;
    model.cache_aggregate = draws_.chance(0.7);
    model.order = draws_.chance(0.7)   ? OrderChoice::kAuto
                  : draws_.chance(0.5) ? OrderChoice::kMultiplyFirst
                                       : OrderChoice::kAggregateFirst;
    instance_->bits = {32, 8, 4};
    if (draws_.chance(0.3)) instance_->bits = {32};
    if (draws_.chance(0.5)) instance_->bits.push_back(16);
    if (draws_.chance(0.3)) instance_->bits.push_back(2);
  }

  // Numbers that all cuts of one graph share.
  struct Graph {
    double nodes, degree, halo, decay, overlap, skew;
    std::vector<double> affinity;  // [to * parts + from]
    bool directed;
  };

  Graph draw_graph() {
    const int parts = instance_->topology.ranks();
    Graph graph{.nodes = log_draw(ranges_.nodes),
                .degree = log_draw(ranges_.degree),
                .halo = log_draw(ranges_.halo),
                .decay = draws_.uniform(0, 1.2),
                .overlap = draws_.uniform(0.4, 0.95),
                .skew = draws_.uniform(0.02, 0.25),
                .affinity = {},
                .directed = draws_.chance(0.2)};
    for (int to = 0; to < parts; ++to) {
      for (int from = 0; from < parts; ++from) {
        // Parts that were separated early in a recursive cut share few rows: by the highest bit in
        // which their numbers differ.
        const double apart = std::bit_width(static_cast<unsigned>(to ^ from)) - 1.0;
        const double noise = from < to ? 0 : std::exp(0.5 * draws_.normal());
        graph.affinity.push_back(to == from  ? 0
                                 : from < to ? graph.affinity[index(from * parts + to)]
                                             : std::exp(-graph.decay * apart) * noise);
      }
    }
    double sum = std::reduce(graph.affinity.begin(), graph.affinity.end()) / parts;
    for (double& value : graph.affinity) value /= sum;
    return graph;
  }

  struct CutRequest {
    std::string name;
    std::vector<double> shares;
    std::vector<double> affinity;
  };

  CutCandidate make_cut(const Graph& graph, const CutRequest& request) {
    const int parts = instance_->topology.ranks();
    CutCandidate cut;
    cut.name = request.name;
    PartitionQuality& quality = cut.quality;
    quality.shares = request.shares;
    quality.parts.resize(index(parts));
    quality.forward_rows.assign(index(parts * parts), 0);
    quality.backward_rows = quality.forward_rows;
    for (int p = 0; p < parts; ++p) {
      PartQuality& part = quality.parts[index(p)];
      part.nodes = std::max<std::int64_t>(
          1, std::llround(graph.nodes * request.shares[index(p)] * draws_.uniform(0.98, 1.02)));
      part.edges = std::llround(static_cast<double>(part.nodes) * graph.degree *
                                std::exp(graph.skew * draws_.normal()));
      part.training_nodes = part.nodes / 2;
      part.cost = part.edges + kNodeCost * part.nodes;
    }
    instance_->topology.for_each_pair(
        [&](int to, int from) { draw_rows(graph, request, to, from, quality); });
    for (int p = 0; p < parts; ++p) count_marginal(graph, p, quality);
    return cut;
  }

  void draw_rows(const Graph& graph, const CutRequest& request, int to, int from,
                 PartitionQuality& quality) {
    const int parts = instance_->topology.ranks();
    const std::size_t pair = index(to * parts + from);
    // The surface of a part grows slower than what it holds.
    const double size = std::pow(request.shares[index(to)] * request.shares[index(from)], 0.4) *
                        std::pow(parts, 0.8);
    const double rows = graph.nodes / parts * graph.halo * request.affinity[pair] * size;
    const double most = 0.9 * static_cast<double>(quality.parts[index(from)].nodes);
    const auto draw = [&] {
      return static_cast<std::int64_t>(std::min(most, rows * draws_.uniform(0.95, 1.05)));
    };
    quality.forward_rows[pair] = draw();
    quality.backward_rows[pair] = graph.directed ? draw() : quality.forward_rows[pair];
    quality.parts[index(to)].halo_forward += quality.forward_rows[pair];
    quality.parts[index(to)].halo_backward += quality.backward_rows[pair];
  }

  // Rows that are sent, to several parts some of them, and the rows that read what is received.
  void count_marginal(const Graph& graph, int p, PartitionQuality& quality) {
    const int parts = instance_->topology.ranks();
    PartQuality& part = quality.parts[index(p)];
    std::int64_t sum = 0, most = 0;
    for (int to = 0; to < parts; ++to) {
      const std::int64_t rows = std::max(quality.forward_rows[index(to * parts + p)],
                                         quality.backward_rows[index(to * parts + p)]);
      sum += rows;
      most = std::max(most, rows);
    }
    const std::int64_t marginal = std::min(
        part.nodes,
        std::max<std::int64_t>(most, std::llround(graph.overlap * static_cast<double>(sum))));
    part.central = part.nodes - marginal;
    part.marginal_edges = std::min<std::int64_t>(
        part.edges,
        std::llround(
            static_cast<double>(part.edges) *
            std::pow(static_cast<double>(marginal) / static_cast<double>(part.nodes), 0.8)));
  }

  std::vector<double> shares_by_speed(double how_much) {
    std::vector<double> shares;
    for (const Device& device : instance_->topology.devices) {
      shares.push_back(
          std::pow(rate_at(device.spmm_bytes_per_s, instance_->model.hidden), how_much) *
          draws_.uniform(0.97, 1.03));
    }
    const double sum = std::reduce(shares.begin(), shares.end());
    for (double& value : shares) value /= sum;
    return shares;
  }

  bool near(int a, int b) const {
    const std::vector<Device>& devices = instance_->topology.devices;
    return devices[index(a)].island == devices[index(b)].island;
  }

  // Fewer rows between islands, more inside them.
  std::vector<double> by_islands(const Graph& graph) {
    const int parts = instance_->topology.ranks();
    const double apart = draws_.uniform(0.55, 1.0), together = draws_.uniform(1.0, 1.4);
    std::vector<double> affinity = graph.affinity;
    instance_->topology.for_each_pair([&](int to, int from) {
      affinity[index(to * parts + from)] *= near(to, from) ? together : apart;
    });
    return affinity;
  }

  // The order of parts, of a few, that sends the fewest rows between islands.
  std::vector<double> best_order(const Graph& graph) {
    const int parts = instance_->topology.ranks();
    std::vector<int> order(index(parts));
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> best = graph.affinity;
    double best_crossing = crossing(best);
    for (int trial = 0; trial < 12; ++trial) {
      draws_.shuffle(order);
      std::vector<double> moved(best.size());
      for (int to = 0; to < parts; ++to) {
        for (int from = 0; from < parts; ++from) {
          moved[index(to * parts + from)] =
              graph.affinity[index(order[index(to)] * parts + order[index(from)])];
        }
      }
      if (crossing(moved) >= best_crossing) continue;
      best_crossing = crossing(moved);
      best = std::move(moved);
    }
    return best;
  }

  double crossing(const std::vector<double>& affinity) const {
    const int parts = instance_->topology.ranks();
    double rows = 0;
    instance_->topology.for_each_pair([&](int to, int from) {
      if (!near(to, from)) rows += affinity[index(to * parts + from)];
    });
    return rows;
  }

  void draw_cuts() {
    const int parts = instance_->topology.ranks();
    const Graph graph = draw_graph();
    const std::vector<double> equal(index(parts), 1.0 / parts);
    std::vector<CutRequest> requests = {{"shares by speed", shares_by_speed(1), graph.affinity}};
    if (parts > static_cast<int>(instance_->topology.hosts.size())) {
      requests.push_back({"islands first", equal, by_islands(graph)});
      requests.push_back({"islands first, shares by speed", shares_by_speed(1), by_islands(graph)});
      requests.push_back({"best order of parts", equal, best_order(graph)});
    }
    if (draws_.chance(0.5)) {
      requests.push_back(
          {"shares partly by speed", shares_by_speed(draws_.uniform(0.3, 0.8)), graph.affinity});
    }
    // Their order says nothing.
    draws_.shuffle(requests);
    instance_->cuts.push_back(make_cut(graph, {"as without a plan", equal, graph.affinity}));
    for (const CutRequest& request : requests) instance_->cuts.push_back(make_cut(graph, request));
  }

  // Ranks get about as much as the start takes: some plans fit, others do not.
  void make_memory_scarce() {
    PolicyInstance& made = *instance_;
    const std::vector<double> needed = made.space->memory_bytes(made.space->start());
    for (std::size_t r = 0; r < needed.size(); ++r) {
      made.topology.devices[r].memory_bytes = needed[r] * draws_.uniform(0.9, 1.6);
    }
  }

  const InstanceRanges& ranges_;
  RandomDraws draws_;
  std::unique_ptr<PolicyInstance> instance_;
  Device usual_;
};

}  // namespace

std::unique_ptr<PolicyInstance> random_instance(const InstanceRanges& ranges, std::uint64_t seed) {
  return InstanceMaker(ranges, seed).make();
}

}  // namespace atl
