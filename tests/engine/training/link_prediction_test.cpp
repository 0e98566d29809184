// Link prediction: loss, gradient and ranking against plain loops, on any number of ranks.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "base/files.hpp"
#include "base/npy.hpp"
#include "datasets/split_links.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Metric kMrr{MetricKind::kMrr};
constexpr Metric hits(std::int64_t k) { return {MetricKind::kHits, k}; }

TEST(LinkRanking, HalvesTies) {
  const auto scores_of = [](float edge, std::vector<float> negatives) {
    LinkScores scores{link_metrics("10,20")};
    scores.add(edge, negatives);
    return scores;
  };
  // One is higher and two are equal: rank 3.
  EXPECT_DOUBLE_EQ(scores_of(2, {3, 2, 1, 2}).mean(kMrr), 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores_of(2, {}).mean(kMrr), 1);
  // All of 18 are equal: rank 10; of 19: 10.5.
  EXPECT_EQ(scores_of(1, std::vector<float>(18, 1)).mean(hits(10)), 1);
  EXPECT_EQ(scores_of(1, std::vector<float>(19, 1)).mean(hits(10)), 0);
  EXPECT_EQ(scores_of(1, std::vector<float>(19, 1)).mean(hits(20)), 1);
  const float nan = std::nanf("");
  EXPECT_DOUBLE_EQ(scores_of(nan, {1, 2, 3}).mean(kMrr), 1.0 / 4);
  EXPECT_DOUBLE_EQ(scores_of(5, {nan, 2, 3}).mean(kMrr), 1.0 / 2);
  EXPECT_TRUE(std::isnan(LinkScores{{kMrr}}.mean(kMrr)));
}

// OGB: above the K-th highest negative, or there are fewer than K.
TEST(LinkRanking, HitsAmongSharedNegatives) {
  std::vector<float> ascending(5, 0);
  ascending.insert(ascending.end(), 10, 1);  // the 10th highest is 1, the 11th 0
  const auto scores_of = [&](float edge) {
    LinkScores scores{link_metrics("10,20")};
    scores.add_to_shared(edge, ascending);
    return scores;
  };
  EXPECT_EQ(scores_of(2).mean(hits(10)), 1);
  EXPECT_EQ(scores_of(1).mean(hits(10)), 0);
  EXPECT_EQ(scores_of(1).mean(hits(20)), 1);  // there are 15
  EXPECT_DOUBLE_EQ(scores_of(1).mean(kMrr), 1.0 / 6);
  EXPECT_DOUBLE_EQ(scores_of(0.5).mean(kMrr), 1.0 / 11);
}

TEST(LinkRanking, HitsAreOfTheNumbersThatAListHas) {
  std::vector<std::string> names;
  for (const Metric metric : link_metrics("50,3")) names.push_back(shown_name(metric));
  EXPECT_THAT(names, ElementsAre("MRR", "Hits@50", "Hits@3"));
  for (const char* text : {"", "3,", "0", "3,3", "-1", "1.5", " 3", "1000001", "mrr"}) {
    EXPECT_TRUE(link_metrics(text).empty()) << text;
  }
  std::string many = "1";
  for (int k = 2; k <= 32; ++k) many += fmt::format(",{}", k);
  EXPECT_EQ(link_metrics(many).size(), 33);
  EXPECT_TRUE(link_metrics(many + ",33").empty());
  EXPECT_EQ(metric_named("hits@7"), hits(7));
  for (const char* text : {"hits@", "hits@0", "hits@7x", "MRR", "7"}) {
    EXPECT_FALSE(metric_named(text)) << text;
  }
}

fs::path make_links(const TempDir& dir, bool directed, std::int64_t negatives = 9) {
  const fs::path out = dir.path() / (directed ? "directed-links" : "links");
  split_links(make_sbm(dir, directed), {.negatives = negatives, .seed = 5}, out);
  return out;
}

// Negatives that all edges of a set share, in place of their own.
void share_negatives(const fs::path& dataset) {
  for (const char* name : kLinkNegativeFiles) {
    std::vector<std::int64_t> pairs;
    for (std::int64_t k = 0; k < 150; ++k) {
      pairs.push_back(k * 17 % 600);
      pairs.push_back(k * 31 % 600);
    }
    fs::remove(dataset / name);
    write_npy<std::int64_t>(dataset / name, pairs, {150, 2});
  }
  write_atomically(dataset / "dataset.json", R"({"directed": false})");
}

// Embeddings in which no two nodes are alike.
constexpr std::int64_t kWidth = 5;
float embedding(std::int64_t node, std::int64_t column) {
  return std::sin(static_cast<float>(node * 7 + column * 3)) * 0.8F;
}

double dot_of(std::int64_t a, std::int64_t b) {
  double sum = 0;
  for (std::int64_t c = 0; c < kWidth; ++c) {
    sum += static_cast<double>(embedding(a, c)) * static_cast<double>(embedding(b, c));
  }
  return sum;
}

struct LossAndGradient {
  double loss = 0;
  std::vector<double> gradient;  // [nodes, kWidth]
  std::vector<std::vector<double>>
      parameters;  // gradients of a decoder's: weight, bias, weight ...
};

// Weights and biases of an MLP that scores pairs, none of them 0.
class HostDecoder {
 public:
  HostDecoder(int layers, double dropout) : layers_(layers), dropout_(dropout_threshold(dropout)) {
    for (int l = 0; l < layers; ++l) {
      const auto columns = static_cast<std::size_t>(columns_of(l));
      values_.emplace_back(kWidth * columns);
      values_.emplace_back(columns);
      for (std::size_t k = 0; k < values_[2 * l].size(); ++k) {
        values_[2 * l][k] = std::cos(static_cast<double>(3 * l + 5 * k)) * 0.7;
      }
      for (std::size_t k = 0; k < columns; ++k)
        values_[2 * l + 1][k] = 0.05 * (1.0 + static_cast<double>(k) + l);
    }
  }
  std::int64_t columns_of(int layer) const { return layer + 1 < layers_ ? kWidth : 1; }
  std::vector<std::vector<double>>& values() { return values_; }

  // The score of a pair whose embeddings have the product x, with what backward() needs.
  double score(std::vector<double> x, const RandomKey& key, std::uint64_t pair) {
    inputs_ = {std::move(x)};
    factors_.clear();
    for (int l = 0; l < layers_; ++l) {
      RandomKey of_layer = key;
      of_layer.layer = static_cast<std::uint8_t>(l);
      std::vector<double> y = values_[2 * l + 1];
      std::vector<double> factors(y.size(), 1);
      for (std::size_t c = 0; c < y.size(); ++c) {
        for (std::size_t r = 0; r < kWidth; ++r) {
          y[c] += inputs_.back()[r] * values_[2 * l][r * y.size() + c];
        }
        if (l + 1 == layers_) continue;
        const bool kept =
            dropout_keeps(of_layer, pair, static_cast<std::uint32_t>(c), dropout_.threshold);
        factors[c] = y[c] > 0 && kept ? dropout_.scale : 0;
        y[c] *= factors[c];
      }
      inputs_.push_back(std::move(y));
      factors_.push_back(std::move(factors));
    }
    return inputs_.back()[0];
  }
  // From the gradient of the score: that of x; adds to those of the parameters.
  std::vector<double> backward(double d, std::vector<std::vector<double>>& gradients) const {
    std::vector<double> dy{d};
    for (int l = layers_ - 1; l >= 0; --l) {
      std::vector<double> dx(kWidth, 0.0);
      for (std::size_t c = 0; c < dy.size(); ++c) {
        dy[c] *= factors_[l][c];
        gradients[2 * l + 1][c] += dy[c];
        for (std::size_t r = 0; r < kWidth; ++r) {
          gradients[2 * l][r * dy.size() + c] += inputs_[l][r] * dy[c];
          dx[r] += values_[2 * l][r * dy.size() + c] * dy[c];
        }
      }
      dy = dx;
    }
    return dy;
  }

 private:
  int layers_;
  DropoutThreshold dropout_;
  std::vector<std::vector<double>> values_;  // weight, bias, weight ...
  std::vector<std::vector<double>> inputs_;  // by layer, of the last score; behind them, it
  std::vector<std::vector<double>> factors_;
};

// In double, as the formula says.
LossAndGradient by_formula(const Dataset& dataset, std::int64_t negatives, std::uint64_t seed,
                           int epoch, HostDecoder* decoder) {
  const std::int64_t nodes = dataset.info().nodes;
  const NodeIdMatrix& edges = *dataset.links().edges[0];
  const double total = static_cast<double>(edges.rows() * (1 + negatives));
  LossAndGradient result{0, std::vector<double>(static_cast<std::size_t>(nodes * kWidth), 0.0), {}};
  if (decoder != nullptr) {
    for (const auto& values : decoder->values()) result.parameters.emplace_back(values.size(), 0.0);
  }
  const RandomKey dropout{seed, RandomStream::kDecoderDropout, 0,
                          static_cast<std::uint32_t>(epoch)};
  const auto add = [&](std::int64_t a, std::int64_t b, bool is_edge, std::int64_t pair) {
    std::vector<double> x;
    for (std::int64_t c = 0; c < kWidth; ++c) {
      x.push_back(static_cast<double>(embedding(a, c)) * static_cast<double>(embedding(b, c)));
    }
    const double score = decoder == nullptr
                             ? dot_of(a, b)
                             : decoder->score(x, dropout, static_cast<std::uint64_t>(pair));
    result.loss += std::log1p(std::exp(is_edge ? -score : score)) / total;
    const double d = (1 / (1 + std::exp(-score)) - (is_edge ? 1 : 0)) / total;
    const std::vector<double> dx = decoder == nullptr ? std::vector<double>(kWidth, d)
                                                      : decoder->backward(d, result.parameters);
    for (std::int64_t c = 0; c < kWidth; ++c) {
      result.gradient[static_cast<std::size_t>(a * kWidth + c)] +=
          dx[c] * static_cast<double>(embedding(b, c));
      result.gradient[static_cast<std::size_t>(b * kWidth + c)] +=
          dx[c] * static_cast<double>(embedding(a, c));
    }
  };
  const RandomKey key{seed, RandomStream::kLinkNegatives, 0, static_cast<std::uint32_t>(epoch)};
  for (std::int64_t i = 0; i < edges.rows(); ++i) {
    const std::int64_t pair = i * (1 + negatives);
    add(edges.at(i, 0), edges.at(i, 1), true, pair);
    for (std::uint32_t k = 0; k < negatives; ++k) {
      add(edges.at(i, 0), random_node(key, static_cast<std::uint64_t>(i), k, nodes), false,
          pair + 1 + k);
    }
  }
  return result;
}

LossAndGradient by_ranks(const fs::path& dataset, int ranks, const TrainOptions& options, int epoch,
                         HostDecoder* decoder) {
  LossAndGradient result;
  std::mutex mutex;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    const Rank& rank = job.trainer().rank();
    const std::span<const GlobalId> ids = job.data().graph().inner_ids;
    const ModelConfig model = options.model.sized({.features = 3, .outputs = kWidth}, 1);
    const Program program = model_program(model, Pass::kEvaluation);
    ParameterStore store(DType::kF32);
    for (const DeclaredParameter& p : program.parameters) store.declare(p);
    store.allocate(rank.backend, rank.queue, 1);
    const int first = static_cast<int>(program.parameters.size()) - 2 * model.decoder_layers;
    if (decoder != nullptr) {
      for (std::size_t k = 0; k < decoder->values().size(); ++k) {
        const std::vector<double>& values = decoder->values()[k];
        upload_f32(rank.backend, rank.queue, std::vector<float>(values.begin(), values.end()),
                   store.value(first + static_cast<int>(k)));
      }
    }
    LinkTask task(rank, *job.data().links(), options.loss.links, std::ssize(ids), kMrr, model,
                  store);
    task.allocate();
    std::vector<float> rows;
    for (const GlobalId id : ids) {
      for (std::int64_t c = 0; c < kWidth; ++c) rows.push_back(embedding(to_index(id), c));
    }
    Tensor z(rank.backend, std::ssize(ids), kWidth, DType::kF32);
    Tensor gradient(rank.backend, std::ssize(ids), kWidth, DType::kF32);
    upload_f32(rank.backend, rank.queue, rows, z.view());
    task.compute(rank, {.epoch = epoch}, z.view(), gradient.view());
    rank.backend.synchronize(rank.queue);
    const std::vector<float> found = download_f32(rank.backend, rank.queue, gradient.view());
    const std::lock_guard lock(mutex);
    result.gradient.resize(static_cast<std::size_t>(job.data().dataset().nodes * kWidth));
    for (std::size_t k = 0; k < found.size(); ++k) {
      const std::int64_t node = to_index(ids[k / kWidth]);
      result.gradient[static_cast<std::size_t>(node) * kWidth + k % kWidth] =
          static_cast<double>(found[k]);
    }
    for (std::size_t k = 0; decoder != nullptr && k < decoder->values().size(); ++k) {
      const std::vector<float> part =
          download_f32(rank.backend, rank.queue, store.gradient(first + static_cast<int>(k)));
      if (result.parameters.size() <= k) result.parameters.emplace_back(part.size(), 0.0);
      for (std::size_t e = 0; e < part.size(); ++e) result.parameters[k][e] += part[e];
    }
    result.loss += task.local_sum() / task.total();
  });
  return result;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double most = 0;
  for (const double value : expected) most = std::max(most, std::abs(value));
  ASSERT_GT(most, 0) << what;
  for (std::size_t k = 0; k < expected.size(); ++k) {
    ASSERT_NEAR(found[k], expected[k], tolerance * most) << what << ", " << k;
  }
}

// Bounds of f32 against double, whose unit is u = 2^-24 = 6e-8: a score adds up kWidth products and
// the loss is a sum in double of f32 terms, so that roundings in random directions stay below 10 u.
// A gradient adds up what each pair of a node gives, some 30 terms with two roundings each:
// sqrt(60) u = 5e-7 of the largest. A decoder's parameters get terms of all pairs, hundreds in one
// f32 sum: sqrt(1000) u = 2e-6, through up to three layers.
constexpr double kLossOfLinks = 1e-6;
constexpr double kGradientOfRows = 2e-6;
constexpr double kGradientOfDecoder = 1e-5;

// layers: of a decoder; 0: none
void expect_formula(const std::string& backend, int layers = 0, double dropout = 0) {
  const TempDir dir;
  HostDecoder mlp(std::max(layers, 1), dropout);
  HostDecoder* const decoder = layers == 0 ? nullptr : &mlp;
  for (const bool directed : {false, true}) {
    const fs::path folder = make_links(dir, directed);
    const Dataset dataset = Dataset::open(folder);
    for (const std::int64_t negatives : {1, 3}) {
      TrainOptions options = small_options();
      options.backend = backend;
      options.loss.links.negatives = negatives;
      if (layers > 0) options.model.decoder = Decoder::kMlp;
      options.model.decoder_layers = std::max(layers, 1);
      options.model.decoder_dropout = dropout;
      const LossAndGradient expected = by_formula(dataset, negatives, options.seed, 4, decoder);
      for (const int ranks : {1, 2, 3}) {
        for (const std::int64_t batch : {std::int64_t{1} << 20, std::int64_t{97}}) {
          options.loss.links.batch = batch;
          const LossAndGradient found = by_ranks(folder, ranks, options, 4, decoder);
          EXPECT_NEAR(found.loss, expected.loss, kLossOfLinks * expected.loss);
          expect_near(found.gradient, expected.gradient, kGradientOfRows, "embeddings");
          ASSERT_EQ(found.parameters.size(), expected.parameters.size());
          for (std::size_t k = 0; k < expected.parameters.size(); ++k) {
            expect_near(found.parameters[k], expected.parameters[k], kGradientOfDecoder,
                        "parameter " + std::to_string(k));
          }
        }
      }
    }
  }
}

TEST(LinkPrediction, LossAndGradientAreThoseOfTheFormula) {
  expect_formula("cpu");
  expect_formula("reference");
}

TEST(LinkPrediction, DecodersGiveLossAndGradientOfTheFormula) {
  for (const int layers : {1, 2, 3}) expect_formula("cpu", layers);
  expect_formula("cpu", 3, 0.4);
  expect_formula("reference", 2, 0.25);
}

TEST(DeviceLinks, LossAndGradientAreThoseOfTheFormula) {
  require_backend("cuda");
  if (IsSkipped() || HasFailure()) return;
  expect_formula("cuda");
  expect_formula("cuda", 2, 0.4);
}

TrainOptions link_options() {
  TrainOptions options = small_options();
  options.model.layers = 2;
  options.loss.links.negatives = 2;
  options.optimizer.learning_rate = 0.01;
  return options;
}

// A decoder of three layers that drops.
TrainOptions decoder_options() {
  TrainOptions options = link_options();
  options.model.decoder = Decoder::kMlp;
  options.model.decoder_dropout = 0.3;
  return options;
}

void expect_any_ranks_alike(const TrainOptions& options) {
  const TempDir dir;
  const fs::path dataset = make_links(dir, false);
  const RunResult one = run_epochs(dataset, 1, options, 1, 20);
  EXPECT_LT(one.losses.back(), 0.9 * one.losses.front());
  EXPECT_TRUE(std::isnan(one.metrics.train));
  EXPECT_GT(one.metrics.valid, 0.3);
  ASSERT_EQ(one.metrics.all.size(), 5);
  EXPECT_EQ(one.metrics.all[0].splits[1], one.metrics.valid);
  EXPECT_EQ(one.metrics.all[1].splits[1], 1);  // there are nine negatives
  for (const int ranks : {2, 3, 4}) {
    const RunResult some = run_epochs(dataset, ranks, options, 1, 20);
    for (std::size_t e = 0; e < one.losses.size(); ++e) {
      EXPECT_NEAR(some.losses[e], one.losses[e], 2e-4 * one.losses[e]) << ranks << ", " << e;
    }
    EXPECT_NEAR(some.metrics.valid, one.metrics.valid, 0.01);
    EXPECT_NEAR(some.metrics.test, one.metrics.test, 0.01);
  }
  const RunResult again = run_epochs(dataset, 3, options, 1, 5);
  expect_same_run(run_epochs(dataset, 3, options, 1, 5), again);
}

TEST(LinkPrediction, GivesTheSameNumbersOnAnyNumberOfRanks) {
  expect_any_ranks_alike(link_options());
}

TEST(LinkPrediction, DecodersGiveTheSameNumbersOnAnyNumberOfRanks) {
  expect_any_ranks_alike(decoder_options());
}

TEST(LinkPrediction, OtherTasksHaveNoDecoder) {
  const TempDir dir;
  const fs::path dataset = make_sbm(dir, false);
  TrainOptions options = small_options();
  options.model.decoder = Decoder::kMlp;
  EXPECT_THAT(thrown_error([&] { run_epochs(dataset, 1, options, 1, 1); }).what(),
              HasSubstr("--decoder mlp: the task is single-label"));
}

TEST(LinkPrediction, PiecesGiveTheSameNumbers) {
  const TempDir dir;
  const fs::path dataset = make_links(dir, true);
  TrainOptions options = link_options();
  const RunResult whole = run_epochs(dataset, 2, options, 1, 4);
  options.loss.links.batch = 100;
  const RunResult pieces = run_epochs(dataset, 2, options, 1, 4);
  for (std::size_t e = 0; e < whole.losses.size(); ++e) {
    EXPECT_NEAR(pieces.losses[e], whole.losses[e], 1e-4 * whole.losses[e]);
  }
  EXPECT_GT(pieces.bytes.back(), whole.bytes.back());
}

// Every edge of a set against plain loops over the embeddings that a model has.
void expect_ranking(const fs::path& folder, const TempDir& dir, int ranks) {
  const fs::path out = dir.path() / "embeddings.npy";
  Metrics found;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, folder, partition, link_options());
    for (int epoch = 1; epoch <= 3; ++epoch) job.trainer().run_epoch(epoch);
    const Metrics metrics =
        predict(job.trainer(), job.data(), transport, PredictionKind::kEmbeddings, out);
    if (transport.rank() == 0) found = metrics;
  });
  const Dataset dataset = Dataset::open(folder);
  const NpyFile file(out);
  const auto z = file.values<float>();
  const std::int64_t width = file.columns();
  const auto score = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t c = 0; c < width; ++c) {
      sum += static_cast<double>(z[a * width + c]) * static_cast<double>(z[b * width + c]);
    }
    return sum;
  };
  for (const std::size_t s : {0, 1}) {
    const NodeIdMatrix& edges = *dataset.links().edges[s + 1];
    const LinkNegatives& negatives = *dataset.links().negatives[s];
    double mrr = 0;
    double hits = 0;
    for (std::int64_t i = 0; i < edges.rows(); ++i) {
      const double edge = score(edges.at(i, 0), edges.at(i, 1));
      int higher = 0;
      const std::int64_t count =
          negatives.shared() ? negatives.ids.rows() : negatives.ids.columns();
      for (std::int64_t k = 0; k < count; ++k) {
        higher += negatives.shared() ? score(negatives.ids.at(k, 0), negatives.ids.at(k, 1)) > edge
                                     : score(edges.at(i, 0), negatives.ids.at(i, k)) > edge;
      }
      mrr += 1.0 / (1 + higher) / static_cast<double>(edges.rows());
      hits += (higher < 20 ? 1.0 : 0.0) / static_cast<double>(edges.rows());
    }
    EXPECT_NEAR(found.all[0].splits[s + 1], mrr, 0.01);
    EXPECT_NEAR(found.all[2].splits[s + 1], hits, 0.01);
  }
}

TEST(LinkPrediction, RankingIsThatOfTheEmbeddings) {
  const TempDir dir;
  const fs::path dataset = make_links(dir, false, 40);
  for (const int ranks : {1, 3}) expect_ranking(dataset, dir, ranks);
  share_negatives(dataset);
  for (const int ranks : {1, 3}) expect_ranking(dataset, dir, ranks);
}

TEST(LinkPrediction, DrawsNegativesWhereThereAreNone) {
  const TempDir dir;
  const fs::path dataset = make_links(dir, false, 0);
  const RunResult one = run_epochs(dataset, 1, link_options(), 1, 1);
  EXPECT_GT(one.metrics.valid, 0.01);
  EXPECT_NEAR(run_epochs(dataset, 3, link_options(), 1, 1).metrics.valid, one.metrics.valid, 0.01);
}

void expect_resume(const TrainOptions& with) {
  const TempDir dir;
  const fs::path dataset = make_links(dir, false);
  const auto run = [&](const std::string& name, int epochs, bool resume) {
    TrainOptions options = with;
    options.loss.links.hits_at = "3,10";
    options.loss.metric = "hits@10";
    options.optimizer.epochs = epochs;
    options.checkpoint_every = 2;
    options.start = resume ? RunStart::kResume : RunStart::kFresh;
    options.run_dir = dir.path() / name;
    train_in_folder(2, dataset, options);
  };
  run("whole", 6, false);
  run("parts", 4, false);
  run("parts", 6, true);
  for (const std::string name : {"model.safetensors", "checkpoint/epoch-6.safetensors"}) {
    EXPECT_EQ(read_text(dir.path() / "whole" / name), read_text(dir.path() / "parts" / name));
  }
  const Json summary = read_json(dir.path() / "parts" / "summary.json");
  EXPECT_EQ(summary.at("metric"), "Hits@10");
  EXPECT_EQ(summary.at("valid"), summary.at("hits@10").at("valid"));
  EXPECT_TRUE(summary.at("mrr").at("test").is_number());
  EXPECT_LE(summary.at("hits@3").at("test"), summary.at("hits@10").at("test"));
  EXPECT_FALSE(summary.contains("hits@20"));
}

TEST(LinkPrediction, ResumesToTheByte) {
  expect_resume(link_options());
  expect_resume(decoder_options());
}

}  // namespace
}  // namespace atl
