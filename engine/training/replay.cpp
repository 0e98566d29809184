#include "engine/training/replay.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/training/trainer.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace {

using Nodes = std::vector<std::int32_t>;

// Ties go by ids.
std::uint64_t replay_draw(std::uint64_t seed, std::int32_t node) {
  constexpr std::uint8_t kChoice = 4;  // others are of splits
  const RandomKey key{.seed = seed, .stream = RandomStream::kSplit, .layer = kChoice};
  const auto row = static_cast<std::uint64_t>(node);
  return static_cast<std::uint64_t>(random_bits(key, row, 0)) << 32U | random_bits(key, row, 1);
}

// In the order of their draws.
Nodes by_draws(const Nodes& nodes, std::uint64_t seed) {
  std::vector<std::pair<std::uint64_t, std::int32_t>> drawn;
  drawn.reserve(nodes.size());
  for (const std::int32_t node : nodes) drawn.emplace_back(replay_draw(seed, node), node);
  std::ranges::sort(drawn);
  Nodes order;
  order.reserve(nodes.size());
  for (const auto& [draw, node] : drawn) order.push_back(node);
  return order;
}

// Both directions of the graph, of which a symmetric one has one.
class NearNodes {
 public:
  explicit NearNodes(const GraphView& graph)
      : in_(graph.in_edges),
        transposed_(graph.symmetric ? Csr() : transpose(graph.in_edges)),
        symmetric_(graph.symmetric),
        seen_(static_cast<std::size_t>(graph.nodes()), 0) {}

  std::int64_t degree(std::int32_t node) const {
    return std::ssize(in_.row(node)) + (symmetric_ ? 0 : std::ssize(transposed_.view().row(node)));
  }

  // Calls use(node) for the node and all that are up to `radius` edges from it.
  template <typename Use>
  void visit(std::int32_t start, int radius, const Use& use) {
    ++time_;
    Nodes front{start};
    Nodes next;
    seen_[start] = time_;
    use(start);
    const auto step = [&](std::span<const std::int32_t> neighbours) {
      for (const std::int32_t node : neighbours) {
        if (seen_[node] == time_) continue;
        seen_[node] = time_;
        use(node);
        next.push_back(node);
      }
    };
    for (int hop = 0; hop < radius && !front.empty(); ++hop) {
      next.clear();
      for (const std::int32_t node : front) {
        step(in_.row(node));
        if (!symmetric_) step(transposed_.view().row(node));
      }
      std::swap(front, next);
    }
  }

 private:
  CsrView in_;
  Csr transposed_;
  bool symmetric_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t time_ = 0;
};

Nodes cover_of_class(NearNodes& graph, const CoverClass& nodes, int radius,
                     std::vector<std::uint8_t>& covered) {
  Nodes taken;
  for (int r = radius; r >= 0 && std::ssize(taken) < nodes.wanted; --r) {
    std::ranges::fill(covered, 0);
    const auto cover = [&](std::int32_t node) {
      graph.visit(node, r, [&](std::int32_t near) { covered[near] = 1; });
    };
    for (const std::int32_t node : taken) cover(node);
    for (const std::int32_t node : nodes.candidates) {
      if (std::ssize(taken) == nodes.wanted) break;
      if (covered[node] != 0) continue;
      taken.push_back(node);
      cover(node);
    }
  }
  return taken;
}

// Shares of `wanted` in proportion to the classes' nodes, by largest remainders.
void share_out(std::int64_t wanted, std::vector<CoverClass>& classes) {
  std::int64_t nodes = 0;
  for (const CoverClass& one : classes) nodes += std::ssize(one.candidates);
  std::vector<std::pair<std::int64_t, std::size_t>> rest;  // least first: those that get one more
  std::int64_t left = wanted;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::int64_t product = wanted * std::ssize(classes[c].candidates);
    classes[c].wanted = product / nodes;
    left -= classes[c].wanted;
    rest.emplace_back(-(product % nodes), c);
  }
  std::ranges::sort(rest);
  for (std::int64_t i = 0; i < left; ++i)
    ++classes[rest[static_cast<std::size_t>(i)].second].wanted;
}

// One class where nodes have several labels, or numbers.
std::vector<CoverClass> classes_of(const Dataset& dataset, const Nodes& order) {
  const Task task = dataset.info().task;
  const bool one = task == Task::kMultiLabel || task == Task::kRegression;
  std::map<std::int32_t, CoverClass> by_label;
  for (const std::int32_t node : order) {
    by_label[one ? 0 : dataset.labels()[node]].candidates.push_back(node);
  }
  std::vector<CoverClass> classes;
  for (auto& [label, nodes] : by_label) classes.push_back(std::move(nodes));
  return classes;
}

Nodes chosen_nodes(const Dataset& dataset, const Nodes& old, std::int64_t wanted,
                   ReplaySelect select, std::uint64_t seed, int radius) {
  Nodes order = by_draws(old, seed);
  if (select == ReplaySelect::kCover) {
    std::vector<CoverClass> classes = classes_of(dataset, order);
    share_out(wanted, classes);
    Nodes chosen;
    for (const Nodes& nodes : cover_of_classes(dataset.graph(), classes, radius)) {
      chosen.insert(chosen.end(), nodes.begin(), nodes.end());
    }
    return chosen;
  }
  if (select == ReplaySelect::kDegree) {
    const NearNodes graph(dataset.graph());
    std::ranges::stable_sort(order, std::greater(),
                             [&](std::int32_t node) { return graph.degree(node); });
  }
  order.resize(static_cast<std::size_t>(wanted));
  return order;
}

// The closest point to `values` with entries in [0, most] and mean 1: all are moved by the same
// amount, which is found by halving.
void project(std::vector<double>& values, double most) {
  const auto wanted = static_cast<double>(values.size());
  const auto sum_after = [&](double shift) {
    double sum = 0;
    for (const double value : values) sum += std::clamp(value + shift, 0.0, most);
    return sum;
  };
  const auto [least, largest] = std::ranges::minmax(values);
  double low = -largest;         // all are 0
  double high = most - least;    // all are `most`, at least 1
  constexpr int kHalvings = 80;  // to the last bit of a double
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (sum_after(middle) < wanted ? low : high) = middle;
  }
  for (double& value : values) value = std::clamp(value + high, 0.0, most);
}

double distance_of(std::span<const double> rows, std::span<const double> target,
                   std::span<const double> weights) {
  const std::size_t columns = target.size();
  double squares = 0;
  for (std::size_t c = 0; c < columns; ++c) {
    double mean = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) mean += weights[i] * rows[i * columns + c];
    const double difference = mean / static_cast<double>(weights.size()) - target[c];
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

}  // namespace

std::vector<Nodes> cover_of_classes(const GraphView& graph, std::span<const CoverClass> classes,
                                    int radius) {
  NearNodes near(graph);
  std::vector<std::uint8_t> covered(static_cast<std::size_t>(graph.nodes()));
  std::vector<Nodes> sets;
  for (const CoverClass& nodes : classes) {
    sets.push_back(cover_of_class(near, nodes, radius, covered));
  }
  return sets;
}

ReplayBuffer choose_replay(const Dataset& dataset, const ReplayOptions& options,
                           std::int64_t first_new, std::int64_t split_index, std::uint64_t seed,
                           int radius) {
  const std::int64_t nodes = dataset.info().nodes;
  if (first_new > nodes) {
    fail_option(
        "--replay {}: the nodes from id {} on are new, and {} has {} nodes; allowed is a dataset "
        "that has grown",
        to_string(options.count), first_new, dataset.folder().string(), nodes);
  }
  const std::vector<std::uint8_t> labelled = dataset.labelled();
  const auto split = dataset.split(split_index);
  ReplayBuffer buffer;
  buffer.first_new = first_new;
  Nodes old;
  for (std::int32_t node = 0; node < nodes; ++node) {
    if (labelled[node] == 0 || split[node] != static_cast<std::uint8_t>(Split::kTrain)) continue;
    if (node < first_new) {
      old.push_back(node);
    } else {
      ++buffer.new_nodes;
    }
  }
  buffer.old_nodes = std::ssize(old);
  const std::int64_t wanted = std::min(options.count.nodes, buffer.old_nodes);
  if (wanted + buffer.new_nodes == 0) {
    fail_option(
        "--replay {}: no node is left to train on: of the nodes of {}, none of id {} or more has a "
        "label and is of the split's training nodes; allowed are 1 or more",
        to_string(options.count), dataset.folder().string(), first_new);
  }
  if (wanted == 0) return buffer;
  Nodes chosen = chosen_nodes(dataset, old, wanted, options.select, seed, radius);
  std::ranges::sort(chosen);
  for (const std::int32_t node : chosen) buffer.nodes.push_back(static_cast<GlobalId>(node));
  return buffer;
}

void share_replay(Transport& transport, ReplayBuffer& buffer) {
  const OperationLabel label{"the buffer of old nodes"};
  std::array<std::int64_t, 4> sizes{buffer.first_new, buffer.new_nodes, buffer.old_nodes,
                                    std::ssize(buffer.nodes)};
  transport.broadcast(std::as_writable_bytes(std::span(sizes)), 0, label);
  buffer.first_new = sizes[0];
  buffer.new_nodes = sizes[1];
  buffer.old_nodes = sizes[2];
  buffer.nodes.resize(static_cast<std::size_t>(sizes[3]));
  if (buffer.nodes.empty()) return;
  transport.broadcast(std::as_writable_bytes(std::span(buffer.nodes)), 0, label);
}

std::vector<std::uint8_t> split_with(const ReplayBuffer& buffer, std::span<const GlobalId> ids,
                                     std::span<const std::uint8_t> split) {
  std::vector<std::uint8_t> seen(split.begin(), split.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto role = static_cast<Split>(split[i]);
    const bool is_kept = role == Split::kTrain
                             ? std::ranges::binary_search(buffer.nodes, ids[i])
                             : role != Split::kValid;  // which decides about the best epoch
    if (to_index(ids[i]) < buffer.first_new && !is_kept) {
      seen[i] = static_cast<std::uint8_t>(Split::kNone);
    }
  }
  return seen;
}

std::vector<double> match_weights(std::span<const double> rows, std::span<const double> target,
                                  double most) {
  const std::size_t columns = target.size();
  const std::size_t nodes = rows.size() / columns;
  const auto count = static_cast<double>(nodes);
  // f(w) = |X^T w / n - t|^2 / 2. The gradient is Lipschitz with |X|^2 / n^2 of X in any norm above
  // the spectral one: here Frobenius'.
  double bound = 0;
  for (const double value : rows) bound += value * value;
  std::vector<double> weights(nodes, 1.0);
  if (bound == 0) return weights;
  const double step = count * count / bound;
  std::vector<double> ahead = weights;
  std::vector<double> before;
  std::vector<double> difference(columns);
  double momentum = 1;
  constexpr int kMostSteps = 2000;
  constexpr double kSmallStep = 1e-9;
  for (int i = 0; i < kMostSteps; ++i) {
    std::ranges::fill(difference, 0.0);
    for (std::size_t n = 0; n < nodes; ++n) {
      for (std::size_t c = 0; c < columns; ++c) difference[c] += ahead[n] * rows[n * columns + c];
    }
    for (std::size_t c = 0; c < columns; ++c) difference[c] = difference[c] / count - target[c];
    before = weights;
    for (std::size_t n = 0; n < nodes; ++n) {
      const double slope =
          std::inner_product(difference.begin(), difference.end(),
                             rows.begin() + static_cast<std::int64_t>(n * columns), 0.0) /
          count;
      weights[n] = ahead[n] - step * slope;
    }
    project(weights, most);
    const double next = (1 + std::sqrt(1 + 4 * momentum * momentum)) / 2;
    double moved = 0;
    for (std::size_t n = 0; n < nodes; ++n) {
      const double change = weights[n] - before[n];
      moved = std::max(moved, std::abs(change));
      ahead[n] = weights[n] + (momentum - 1) / next * change;
    }
    momentum = next;
    if (moved < kSmallStep) break;
  }
  return weights;
}

void match_replay(ReplayBuffer& buffer, Trainer& trainer, std::span<const LocalId> old_rows) {
  const Rank& rank = trainer.rank();
  const OperationLabel label{"the rows of old nodes"};
  trainer.queue_evaluation(0);
  rank.reducer.synchronize();
  const ConstMatrixView view = trainer.network().embeddings();
  const std::vector<float> host = download_f32(rank.backend, rank.queue, view);
  const auto columns = static_cast<std::size_t>(view.cols);
  const auto row_of = [&](LocalId row) {
    return std::span(host).subspan(static_cast<std::size_t>(to_index(row)) * columns, columns);
  };
  // One sum has the rows of the buffer, each of them of one rank, and the sum of all old rows.
  std::vector<double> shared((buffer.nodes.size() + 1) * columns, 0.0);
  const std::span<double> sum = std::span(shared).last(columns);
  for (const LocalId row : old_rows) {
    const GlobalId id = trainer.data().host_ids()[static_cast<std::size_t>(to_index(row))];
    const auto found = std::ranges::lower_bound(buffer.nodes, id);
    const bool kept = found != buffer.nodes.end() && *found == id;
    const auto place = static_cast<std::size_t>(found - buffer.nodes.begin());
    const std::span<const float> values = row_of(row);
    for (std::size_t c = 0; c < columns; ++c) {
      sum[c] += static_cast<double>(values[c]);
      if (kept) shared[place * columns + c] = static_cast<double>(values[c]);
    }
  }
  rank.transport.all_reduce(std::span(shared), label);
  for (double& value : sum) value /= static_cast<double>(buffer.old_nodes);
  const std::span<const double> rows = std::span(shared).first(buffer.nodes.size() * columns);
  // One rank's, so that hosts of different kinds have the same.
  std::vector<double> weights(buffer.nodes.size());
  if (rank.transport.rank() == 0) weights = match_weights(rows, sum, kMostReplayWeight);
  rank.transport.broadcast(std::as_writable_bytes(std::span(weights)), 0, label);
  const std::vector<double> alike(weights.size(), 1.0);
  buffer.distance = {distance_of(rows, sum, alike), distance_of(rows, sum, weights)};
  buffer.weights.assign(weights.begin(), weights.end());
}

std::vector<float> replay_row_weights(const ReplayBuffer& buffer, const RankData& data,
                                      Transport& transport) {
  std::vector<double> weights(static_cast<std::size_t>(data.rows()), 1.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto found = std::ranges::lower_bound(buffer.nodes, data.host_ids()[i]);
    if (found == buffer.nodes.end() || *found != data.host_ids()[i]) continue;
    weights[i] = static_cast<double>(buffer.weights[found - buffer.nodes.begin()]);
  }
  double total = 0;
  for (const LocalId row : data.labelled_rows(Split::kTrain)) {
    total += weights[static_cast<std::size_t>(to_index(row))] * data.loss_weight(row);
  }
  total = sum_over_ranks(transport, total, {"weights of training nodes"});
  if (!(total > 0)) {
    fail_option("--replay-weights match: all training nodes have weight 0; allowed is none");
  }
  const double scale = data.loss_total(Split::kTrain) / total;
  std::vector<float> result(weights.size());
  std::ranges::transform(weights, result.begin(),
                         [&](double weight) { return static_cast<float>(weight * scale); });
  return result;
}

Json to_json(const ReplayBuffer& buffer) {
  Json json = {{"from", buffer.first_new},
               {"new_nodes", buffer.new_nodes},
               {"old_nodes", buffer.old_nodes},
               {"buffer", buffer.nodes.size()}};
  if (!buffer.weights.empty()) json["distance"] = buffer.distance;
  return json;
}

}  // namespace atl
