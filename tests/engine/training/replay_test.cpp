// Labels of old nodes that are used again: who is chosen, how much each of them counts, and runs
// that train on them, against plain loops.
#include "engine/training/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "engine/training/sequence.hpp"
#include "engine/training/warm_start.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kFar = 1000;

// Edges between all pairs of nodes, whatever their direction, by Floyd and Warshall.
std::vector<std::vector<int>> all_distances(const CsrView& edges) {
  const auto nodes = static_cast<std::size_t>(edges.rows());
  std::vector<std::vector<int>> distance(nodes, std::vector<int>(nodes, kFar));
  for (std::size_t i = 0; i < nodes; ++i) {
    distance[i][i] = 0;
    for (const std::int32_t j : edges.row(static_cast<std::int64_t>(i))) {
      if (static_cast<std::size_t>(j) == i) continue;
      distance[i][j] = distance[j][i] = 1;
    }
  }
  for (std::size_t k = 0; k < nodes; ++k) {
    for (std::size_t i = 0; i < nodes; ++i) {
      for (std::size_t j = 0; j < nodes; ++j) {
        distance[i][j] = std::min(distance[i][j], distance[i][k] + distance[k][j]);
      }
    }
  }
  return distance;
}

// The largest set by local minima: in each round all those join that come first among the undecided
// within `radius` of them, and whoever lies within it of one that has joined is decided.
std::vector<std::int32_t> luby_rounds(const std::vector<std::vector<int>>& distance,
                                      const std::vector<std::int32_t>& order, int radius) {
  std::vector<std::int32_t> joined;
  std::vector<std::int32_t> undecided = order;
  while (!undecided.empty()) {
    std::vector<std::int32_t> round;
    for (std::size_t i = 0; i < undecided.size(); ++i) {
      const bool first =
          std::none_of(undecided.begin(), undecided.begin() + static_cast<std::int64_t>(i),
                       [&](std::int32_t other) { return distance[undecided[i]][other] <= radius; });
      if (first) round.push_back(undecided[i]);
    }
    std::erase_if(undecided, [&](std::int32_t node) {
      return std::ranges::any_of(
          round, [&](std::int32_t other) { return distance[node][other] <= radius; });
    });
    joined.insert(joined.end(), round.begin(), round.end());
  }
  std::ranges::sort(joined);
  return joined;
}

TEST(Cover, IsSeparatedAndCoversAsParallelRoundsDo) {
  std::mt19937 random(5);
  int complete = 0;
  for (const bool directed : {false, true}) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const Csr graph = random_graph(90, 1, directed, false, seed);
      const auto distance = all_distances(graph.view());
      std::vector<std::int32_t> order(90);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      std::vector<CoverClass> classes(2);
      for (const std::int32_t node : order) classes[node % 3 == 0].candidates.push_back(node);
      for (const int radius : {1, 2, 3}) {
        for (const std::int64_t wanted : {1, 4, 12, 25, 30}) {
          for (CoverClass& nodes : classes) nodes.wanted = wanted;
          const auto sets = cover_of_classes({graph.view(), !directed}, classes, radius);
          for (std::size_t c = 0; c < classes.size(); ++c) {
            const std::vector<std::int32_t>& candidates = classes[c].candidates;
            std::vector<std::int32_t> found = sets[c];
            ASSERT_EQ(std::ssize(found), wanted);
            // The radius at which there were enough.
            int last = kFar;
            for (const std::int32_t a : found) {
              for (const std::int32_t b : found) {
                if (a != b) last = std::min(last, distance[a][b] - 1);
              }
            }
            last = std::min(last, radius);
            EXPECT_GE(last, 0) << "a node is there twice";
            const auto rounds = luby_rounds(distance, candidates, radius);
            if (std::ssize(rounds) >= wanted) {
              EXPECT_EQ(last, radius);
              EXPECT_TRUE(std::ranges::all_of(found, [&](std::int32_t node) {
                return std::ranges::binary_search(rounds, node);
              })) << "of the set that parallel rounds find";
            } else {
              for (const std::int32_t node : candidates) {
                const bool near = std::ranges::any_of(
                    found, [&](std::int32_t a) { return distance[node][a] <= last + 1; });
                EXPECT_TRUE(near) << node << " is covered by none, radius " << radius;
              }
              EXPECT_TRUE(std::ranges::all_of(rounds, [&](std::int32_t node) {
                return std::ranges::count(found, node) == 1;
              })) << "those of the larger radius stay";
            }
            if (std::ssize(rounds) != wanted) continue;
            std::ranges::sort(found);
            EXPECT_EQ(found, rounds);
            ++complete;
          }
        }
      }
    }
  }
  EXPECT_GT(complete, 0) << "no set of the size that parallel rounds find was compared";
}

double match_distance(const std::vector<double>& rows, const std::vector<double>& target,
                      const std::vector<double>& weights) {
  double squares = 0;
  for (std::size_t c = 0; c < target.size(); ++c) {
    double mean = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      mean += weights[i] * rows[i * target.size() + c] / static_cast<double>(weights.size());
    }
    squares += (mean - target[c]) * (mean - target[c]);
  }
  return squares;
}

TEST(MatchWeights, AreAsGoodAsTheBestOfAllOnAGrid) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int example = 0; example < 12; ++example) {
    const double most = example % 2 == 0 ? 1.5 : 3;
    const std::size_t columns = 1 + static_cast<std::size_t>(example % 3);
    std::vector<double> rows(3 * columns);
    std::vector<double> target(columns);
    for (double& value : rows) value = normal(random);
    for (double& value : target) value = 0.5 * normal(random);
    double best = 1e9;
    constexpr int kSteps = 300;
    for (int i = 0; i <= kSteps; ++i) {
      for (int j = 0; j <= kSteps; ++j) {
        const double a = most * i / kSteps;
        const double b = most * j / kSteps;
        if (3 - a - b < 0 || 3 - a - b > most) continue;
        best = std::min(best, match_distance(rows, target, {a, b, 3 - a - b}));
      }
    }
    const std::vector<double> found = match_weights(rows, target, most);
    EXPECT_NEAR(found[0] + found[1] + found[2], 3, 1e-9);
    for (const double weight : found) {
      EXPECT_GE(weight, 0);
      EXPECT_LE(weight, most);
    }
    EXPECT_LE(match_distance(rows, target, found), best + 1e-7) << "example " << example;
  }
  // All of them are as they must be.
  EXPECT_THAT(match_weights(std::vector<double>{1, 3}, std::vector<double>{2}, 5),
              ElementsAre(1, 1));
  EXPECT_THAT(match_weights(std::vector<double>{0, 0}, std::vector<double>{2}, 5),
              ElementsAre(1, 1));
}

TEST(Sequence, RangesAreThoseThatTheDatasetHas) {
  const std::string text = "10,25,40";
  EXPECT_THAT(parse_sequence(text, 25), ElementsAre(NodeRange{0, 10}, NodeRange{10, 25}));
  EXPECT_THAT(parse_sequence(text, 30),
              ElementsAre(NodeRange{0, 10}, NodeRange{10, 25}, NodeRange{25, 30}));
  EXPECT_THAT(parse_sequence(text, 5), ElementsAre(NodeRange{0, 5}));
  EXPECT_EQ(parse_sequence(text, 50).size(), 4U);
  EXPECT_EQ(sequence_problem(text), "");
  EXPECT_EQ(sequence_problem(""), "");
  for (const char* wrong : {"10,", "10,10", "20,10", "0,10", "a", "10;20", "-1"}) {
    EXPECT_THAT(sequence_problem(wrong), HasSubstr("allowed are whole numbers that ascend"));
  }
}

class ReplayedRuns : public ::testing::Test {
 protected:
  static constexpr std::int64_t kOld = 400;  // of 600 nodes

  TrainOptions options(std::int64_t nodes, ReplaySelect select,
                       ReplayWeights weights = ReplayWeights::kNone) const {
    TrainOptions options = small_options();
    options.model.norm = Norm::kNone;
    options.replay = {{nodes}, select, weights, kOld};
    options.warm_start = dir_.path() / "old";
    return options;
  }

  void SetUp() override {
    TrainOptions options = small_options();
    options.model.norm = Norm::kNone;
    options.run_dir = dir_.path() / "old";
    train_in_folder(1, dataset_, options);
  }

  // Losses of a few epochs that begin with the old model, and the buffer.
  std::pair<std::vector<double>, ReplayBuffer> run(int ranks, const TrainOptions& options,
                                                   const PartitionOptions& cut = {}) const {
    std::pair<std::vector<double>, ReplayBuffer> result;
    run_local_ranks(ranks, 60, [&](Transport& transport) {
      RankJob job(transport, dataset_, cut, options);
      load_warm_start(job.trainer(), options.warm_start, transport);
      std::vector<double> losses;
      for (int epoch = 1; epoch <= 4; ++epoch) losses.push_back(job.run_epoch(epoch).loss);
      if (transport.rank() == 0) result = {losses, *job.replay()};
    });
    return result;
  }

  TempDir dir_;
  fs::path dataset_ = make_sbm(dir_, true);
};

TEST_F(ReplayedRuns, ChooseTheSameNodesOnAnyRanksAndCuts) {
  PartitionOptions random;
  random.method = "random";
  for (const ReplaySelect select :
       {ReplaySelect::kRandom, ReplaySelect::kDegree, ReplaySelect::kCover}) {
    for (const ReplayWeights weights : {ReplayWeights::kNone, ReplayWeights::kMatch}) {
      const TrainOptions own = options(30, select, weights);
      const auto [losses, buffer] = run(1, own);
      EXPECT_EQ(buffer.nodes.size(), 30U);
      EXPECT_TRUE(std::ranges::is_sorted(buffer.nodes));
      EXPECT_LT(to_index(buffer.nodes.back()), kOld);
      EXPECT_EQ(buffer.weights.empty(), weights == ReplayWeights::kNone);
      struct Place {
        int ranks;
        int each;  // of these hold a part
        PartitionOptions cut;
      };
      for (const auto& [ranks, each, cut] : {Place{2, 1, {}}, Place{3, 1, {}}, Place{3, 1, random},
                                             Place{4, 2, {}}, Place{4, 4, {}}}) {
        const auto [other_losses, other] = run(ranks, grouped(own, each), cut);
        EXPECT_EQ(other.nodes, buffer.nodes) << to_string(select) << " " << ranks;
        ASSERT_EQ(other.weights.size(), buffer.weights.size());
        for (std::size_t i = 0; i < buffer.weights.size(); ++i) {
          EXPECT_NEAR(other.weights[i], buffer.weights[i], 1e-3);
        }
        for (std::size_t i = 0; i < losses.size(); ++i) {
          EXPECT_NEAR(other_losses[i], losses[i], 1e-4 * losses[i]) << to_string(select);
        }
      }
      if (weights == ReplayWeights::kNone) continue;
      EXPECT_LT(buffer.distance[1], buffer.distance[0]);
      EXPECT_NEAR(std::accumulate(buffer.weights.begin(), buffer.weights.end(), 0.0), 30, 1e-3);
    }
  }
  TrainOptions seeded = options(30, ReplaySelect::kRandom);
  seeded.seed = 2;
  EXPECT_NE(run(1, seeded).second.nodes, run(1, options(30, ReplaySelect::kRandom)).second.nodes);
}

TEST_F(ReplayedRuns, HoldsTheNodesOfMostNeighboursAndClassesInProportion) {
  const Dataset dataset = Dataset::open(dataset_);
  const auto degree = run(1, options(20, ReplaySelect::kDegree)).second;
  std::map<std::int64_t, std::int64_t> neighbours;  // of old training nodes
  std::map<std::int32_t, double> of_class;
  const CsrView edges = dataset.graph().in_edges;
  for (std::int64_t i = 0; i < kOld; ++i) {
    if (dataset.split(0)[i] != static_cast<std::uint8_t>(Split::kTrain)) continue;
    neighbours[i] = std::ssize(edges.row(i)) + std::ranges::count(edges.col_idx, i);
    ++of_class[dataset.labels()[i]];
  }
  EXPECT_EQ(degree.old_nodes, std::ssize(neighbours));
  std::int64_t least = kFar;
  for (const GlobalId node : degree.nodes) {
    least = std::min(least, neighbours.at(to_index(node)));
    neighbours.erase(to_index(node));
  }
  for (const auto& [node, count] : neighbours) EXPECT_LE(count, least) << node;

  const auto cover = run(1, options(20, ReplaySelect::kCover)).second;
  std::map<std::int32_t, double> found;
  for (const GlobalId node : cover.nodes) ++found[dataset.labels()[to_index(node)]];
  for (const auto& [label, count] : of_class) {
    EXPECT_NEAR(found[label], 20 * count / static_cast<double>(cover.old_nodes), 1) << label;
  }
}

// The loss of logits, in double precision.
double weighted_loss(const std::vector<double>& logits, std::size_t classes,
                     std::span<const std::int32_t> labels, std::span<const double> weights) {
  double sum = 0;
  double total = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (weights[i] == 0) continue;
    double exponentials = 0;
    for (std::size_t c = 0; c < classes; ++c) exponentials += std::exp(logits[i * classes + c]);
    sum += weights[i] * (std::log(exponentials) - logits[i * classes + labels[i]]);
    total += weights[i];
  }
  return sum / total;
}

TEST_F(ReplayedRuns, LossHasTheGradientOfTheWeightedMean) {
  for (const int ranks : {1, 3}) {
    for (const char* class_weights : {"", "balanced"}) {
      TrainOptions own = options(25, ReplaySelect::kCover, ReplayWeights::kMatch);
      own.loss.class_weights = class_weights;
      run_local_ranks(ranks, 60, [&](Transport& transport) {
        RankJob job(transport, dataset_, PartitionOptions{}, own);
        const RankData& data = job.data();
        const Rank& rank = job.trainer().rank();
        const std::int64_t nodes = data.dataset().nodes;
        const auto classes = static_cast<std::size_t>(data.outputs());
        // The weights of all nodes, on every rank.
        std::vector<double> weights(static_cast<std::size_t>(nodes), 0.0);
        for (const LocalId row : data.labelled_rows(Split::kTrain)) {
          const auto i = static_cast<std::size_t>(to_index(row));
          const std::int64_t id = to_index(data.host_ids()[i]);
          const auto& buffer = *job.replay();
          const auto place = std::ranges::lower_bound(buffer.nodes, data.host_ids()[i]);
          EXPECT_TRUE(id >= kOld || (place != buffer.nodes.end() && to_index(*place) == id));
          weights[id] = id >= kOld ? 1 : buffer.weights[place - buffer.nodes.begin()];
          if (*class_weights != 0) weights[id] *= data.host_class_weights()[data.host_labels()[i]];
        }
        transport.all_reduce(std::span(weights), {"weights"});
        std::mt19937 random(9);
        std::normal_distribution<double> normal;
        std::vector<double> logits(static_cast<std::size_t>(nodes) * classes);
        for (double& value : logits) value = static_cast<float>(normal(random));
        std::vector<float> mine;
        for (const GlobalId id : data.host_ids()) {
          for (std::size_t c = 0; c < classes; ++c) {
            mine.push_back(static_cast<float>(logits[to_index(id) * classes + c]));
          }
        }
        Tensor input(rank.backend, data.rows(), data.outputs(), DType::kF32);
        Tensor gradient(rank.backend, data.rows(), data.outputs(), DType::kF32);
        upload_f32(rank.backend, rank.queue, mine, input.view());
        NodeWeightedLoss loss(rank, data.targets(), data.loss_total(Split::kTrain),
                              data.node_weights(), data.outputs(), DType::kF32);
        loss.compute(rank, {}, input.view(), gradient.view());
        rank.backend.synchronize(rank.queue);
        const std::vector<float> found = download_f32(rank.backend, rank.queue, gradient.view());
        const Dataset dataset = Dataset::open(dataset_);
        const std::vector<std::int32_t> all(dataset.labels().begin(), dataset.labels().end());
        constexpr double kSmall = 1e-5;
        for (std::size_t i = 0; i < data.host_ids().size(); i += 7) {
          for (std::size_t c = 0; c < classes; ++c) {
            const std::size_t place = to_index(data.host_ids()[i]) * classes + c;
            std::vector<double> moved = logits;
            moved[place] += kSmall;
            const double above = weighted_loss(moved, classes, all, weights);
            moved[place] -= 2 * kSmall;
            const double below = weighted_loss(moved, classes, all, weights);
            EXPECT_NEAR(found[i * classes + c], (above - below) / (2 * kSmall), 2e-8)
                << "ranks " << ranks << ", node " << to_index(data.host_ids()[i]);
          }
        }
      });
    }
  }
}

// Labels that are gone can't decide which epoch is the best either.
TEST(ReplayBuffer, LeavesOldNodesOutOfTrainingAndValidation) {
  ReplayBuffer buffer;
  buffer.first_new = 6;
  buffer.nodes = {static_cast<GlobalId>(1), static_cast<GlobalId>(4)};
  const std::vector<std::uint8_t> split = {0, 0, 1, 2, 0, 255, 0, 1, 2};
  std::vector<GlobalId> ids;
  for (int i = 8; i >= 0; --i) ids.push_back(static_cast<GlobalId>(i));
  std::vector<std::uint8_t> of_ids(split.rbegin(), split.rend());
  std::vector<std::uint8_t> seen = split_with(buffer, ids, of_ids);
  std::ranges::reverse(seen);
  EXPECT_THAT(seen, testing::ElementsAre(255, 0, 255, 2, 0, 255, 0, 1, 2));
}

TEST_F(ReplayedRuns, TrainOnNothingElse) {
  // With other labels of the nodes that are left out, the run is the same.
  const Dataset source = Dataset::open(dataset_);
  const auto [losses, buffer] = run(2, options(15, ReplaySelect::kRandom));
  const fs::path other = dir_.path() / "other";
  fs::copy(dataset_, other);
  fs::remove_all(other / "parts");
  std::vector<std::int32_t> labels(source.labels().begin(), source.labels().end());
  for (std::int64_t i = 0; i < kOld; ++i) {
    if (!std::ranges::binary_search(buffer.nodes, static_cast<GlobalId>(i))) {
      labels[i] = (labels[i] + 1) % 4;
    }
  }
  fs::remove(other / "labels.npy");
  write_npy(other / "labels.npy", std::span<const std::int32_t>(labels), {600});
  std::string described = read_text(other / "dataset.json");
  Json json = Json::parse(described);
  for (const char* field : {"checksum", "files", "seal"}) json.erase(field);
  write_atomically(other / "dataset.json", json.dump());
  dataset_ = other;
  const auto [again, again_buffer] = run(2, options(15, ReplaySelect::kRandom));
  EXPECT_EQ(again_buffer.nodes, buffer.nodes);
  EXPECT_EQ(again, losses);
}

TEST_F(ReplayedRuns, RefuseWhatTheyCanNot) {
  const auto message = [&](TrainOptions options) {
    const Error error = thrown_error([&] {
      check_options(options);
      run_local_ranks(2, 30, [&](Transport& transport) {
        RankJob job(transport, dataset_, PartitionOptions{}, options);
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return std::string(error.what());
  };
  TrainOptions own = options(5, ReplaySelect::kCover, ReplayWeights::kMatch);
  own.warm_start.clear();
  EXPECT_THAT(message(own), HasSubstr("--replay-weights match: rows are compared"));
  own.replay.weights = ReplayWeights::kNone;
  own.replay.from = 0;
  EXPECT_THAT(message(own), HasSubstr("--replay 5: which nodes are new is not known"));
  own.replay = {{}, ReplaySelect::kCover, {}, 0};
  EXPECT_THAT(message(own), HasSubstr("--replay-select cover: found without --replay"));
  own = options(0, ReplaySelect::kRandom, ReplayWeights::kMatch);
  EXPECT_THAT(message(own), HasSubstr("--replay 0 found, so there is no node to be weighted"));
  own = options(5, ReplaySelect::kRandom, ReplayWeights::kMatch);
  own.blocks.count.number = 4;
  EXPECT_THAT(message(own), HasSubstr("--blocks 4 found"));
  own = options(0, ReplaySelect::kRandom);
  own.replay.from = 600;
  EXPECT_THAT(message(own), HasSubstr("no node is left to train on"));
  own.replay.from = 601;
  EXPECT_THAT(message(own), HasSubstr("has 600 nodes; allowed is a dataset that has grown"));
  own = options(5, ReplaySelect::kRandom);
  own.init = own.warm_start;
  EXPECT_THAT(message(own), HasSubstr("--init"));
}

}  // namespace
}  // namespace atl
