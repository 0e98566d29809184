// Layers in stages: the numbers of the whole graph in the first epochs, those of a small oracle
// where rows of later chunks are an epoch old, and the same bits with any number of stages.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr int kWholeEpochs = 5;  // before StageOptions::stale_from

TrainOptions stage_options(const std::string& model, int stages, int chunks = 3) {
  TrainOptions options = small_options();
  options.model.kind = model;
  options.model.norm = Norm::kLayer;
  options.model.layers = 4;
  options.model.hidden = 24;
  if (model == "gatv2") options.model.heads = 2;
  options.stages = {.count = {.number = stages}, .chunks = chunks, .stale = true};
  return options;
}

class Stages : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(Stages, BeginWithTheNumbersOfTheWholeGraph) {
  const TempDir dir;
  const auto [model, directed] = GetParam();
  const std::filesystem::path dataset =
      model == "rgcn" ? make_relational(dir) : make_sbm(dir, directed);
  TrainOptions options = stage_options(model, 3);
  const RunResult staged = run_epochs(dataset, 3, options, 1, kWholeEpochs);
  options.stages = {};
  const RunResult whole = run_epochs(dataset, 1, options, 1, kWholeEpochs);
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    const double bound = (i == 0 ? kSameParameters : kAfterFewSteps) * whole.losses[i];
    EXPECT_NEAR(staged.losses[i], whole.losses[i], bound) << "epoch " << i + 1;
  }
  EXPECT_NEAR(staged.metrics.valid_loss, whole.metrics.valid_loss,
              kAfterFewSteps * whole.metrics.valid_loss);
}

// Both have other numbers of stages. Where each stage takes its own part of a gradient back to
// the input, as in GCNII, parts are added up in another order.
void expect_like_run(const std::string& model, const RunResult& run, const RunResult& other) {
  ASSERT_EQ(run.losses.size(), other.losses.size());
  if (model != "gcnii") {
    expect_same_run(run, other);
    return;
  }
  for (std::size_t i = 0; i < run.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], other.losses[i], kAfterFewSteps * other.losses[i]) << i;
  }
}

// A chunk reads what the epoch before has left of later ones, however many ranks there are.
TEST_P(Stages, TrainTheSameNumbersInAnyNumber) {
  const TempDir dir;
  const auto [model, directed] = GetParam();
  const std::filesystem::path dataset =
      model == "rgcn" ? make_relational(dir) : make_sbm(dir, directed);
  const int epochs = kWholeEpochs + 4;
  const RunResult one = run_epochs(dataset, 1, stage_options(model, 1), 1, epochs);
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const int stages : {2, 3, 4}) {
    SCOPED_TRACE(stages);
    const RunResult several = run_epochs(dataset, stages, stage_options(model, stages), 1, epochs);
    expect_like_run(model, several, one);
  }
  TrainOptions whole = stage_options(model, 1);
  whole.stages = {};
  EXPECT_NE(run_epochs(dataset, 1, whole, 1, epochs).losses.back(), one.losses.back());
}

INSTANTIATE_TEST_SUITE_P(Models, Stages,
                         ::testing::Combine(::testing::Values("gcn", "sage", "gin", "gcnii",
                                                              "appnp", "gatv2", "rgcn"),
                                            ::testing::Bool()));

TEST(StageRuns, RepeatBitForBitAndOverlapChangesNothing) {
  const TempDir dir;
  expect_repeats_without_overlap(make_sbm(dir, true), 3, stage_options("gcnii", 3, 4),
                                 kWholeEpochs + 3);
}

TEST(StageRuns, SendValuesPastStagesThatDoNotReadThem) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const char* const model : {"sage", "gcnii"}) {
    SCOPED_TRACE(model);
    TrainOptions options = stage_options(model, 2, 16);
    options.model.jump = Jump::kConcatenate;
    options.model.layers = 6;
    const RunResult two = run_epochs(dataset, 2, options, 1, kWholeEpochs + 3);
    options.stages.count = {.all = true};
    const RunResult six = run_epochs(dataset, 6, options, 1, kWholeEpochs + 3);
    expect_like_run(model, six, two);
  }
}

// Gradients of the input: sums that are added to in place, sums of one term, and one that a layer
// reads, too.
TEST(StageRuns, TakeGradientsOfTheInputBack) {
  struct Case {
    std::string model;
    Skip skip;
    int layers;
    double dropout;
    double input_dropout;
    NormPlace place;
  };
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const Case& c : {Case{"gcnii", Skip::kNone, 5, 0, 0, NormPlace::kAfter},
                        Case{"sage", Skip::kLinear, 5, 0.2, 0, NormPlace::kAfter},
                        Case{"gcn", Skip::kIdentity, 5, 0.2, 0.2, NormPlace::kAfter},
                        Case{"gcn", Skip::kIdentity, 5, 0, 0, NormPlace::kBefore},
                        Case{"gcn", Skip::kIdentity, 2, 0.5, 0.2, NormPlace::kBefore}}) {
    SCOPED_TRACE(fmt::format("{}, {} layers, dropout {}", c.model, c.layers, c.dropout));
    TrainOptions options = stage_options(c.model, 1);
    options.model.layers = c.layers;
    options.model.dropout = c.dropout;
    options.model.input_dropout = c.input_dropout;
    options.model.norm_place = c.place;
    if (c.skip != Skip::kNone) {
      options.model.skip = c.skip;
      options.model.skip_from = SkipFrom::kFirst;
      if (c.layers == 2) options.model.head = HeadChoice::kNone;
      options.model.input_layer = InputLayerChoice::kActivated;
    }
    const int epochs = kWholeEpochs + 4;
    const RunResult one = run_epochs(dataset, 1, options, 1, epochs);
    for (const int stages : {2, 4}) {
      if (stages > c.layers) continue;
      options.stages.count.number = stages;
      const RunResult several = run_epochs(dataset, stages, options, 1, epochs);
      for (std::size_t i = 0; i < one.losses.size(); ++i) {
        EXPECT_NEAR(several.losses[i], one.losses[i], kAfterFewSteps * one.losses[i]) << i;
      }
    }
  }
}

TEST(StageRuns, StayNearWithRoundedRows) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = stage_options("gcn", 3);
  const int epochs = kWholeEpochs + 2;
  const RunResult exact = run_epochs(dataset, 3, options, 1, epochs);
  options.exchange = kModeOfBits;
  options.message_bits.bits = parse_bits("8");
  const RunResult rounded = run_epochs(dataset, 3, options, 1, epochs);
  EXPECT_NE(rounded.losses.back(), exact.losses.back());
  EXPECT_NEAR(rounded.losses.back(), exact.losses.back(), 0.02 * exact.losses.back());
  EXPECT_LT(rounded.bytes.back(), exact.bytes.back());
}

// A width per layer; gradients that the head returns to earlier layers have that of the last one.
TEST(StageRuns, RoundByLayer) {
  const TempDir dir;
  TrainOptions options = stage_options("gcnii", 3);
  options.model.jump = Jump::kConcatenate;
  options.exchange = kModeOfBits;
  options.message_bits.bits = parse_bits("16,16,16,8");
  const RunResult run = run_epochs(make_sbm(dir, true), 3, options, 1, kWholeEpochs + 2);
  EXPECT_LT(run.losses.back(), run.losses.front());
}

// All that a simple graph convolution sums up is constant, and computed by each stage.
TEST(StageRuns, ComputeConstantsOnEachStage) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = stage_options("sgc", 2);
  options.model.norm = Norm::kNone;
  options.model.layers = 3;
  const RunResult two = run_epochs(dataset, 2, options, 1, kWholeEpochs + 2);
  options.stages = {};
  const RunResult whole = run_epochs(dataset, 1, options, 1, kWholeEpochs + 2);
  EXPECT_NEAR(two.losses.back(), whole.losses.back(), kAfterFewSteps * whole.losses.back());
}

class StageBytes : public ::testing::TestWithParam<std::string> {};

TEST_P(StageBytes, AreThoseOfTheFormula) {
  const TempDir dir;
  TrainOptions options = stage_options(GetParam(), 3);
  options.model.norm = Norm::kNone;
  const std::filesystem::path dataset = make_sbm(dir, true);
  run_local_ranks(3, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, {}, options);
    EpochResult result;
    for (int epoch = 1; epoch <= kWholeEpochs + 1; ++epoch) result = job.run_epoch(epoch);
    std::int64_t rows = job.trainer().halo_bytes_per_epoch();
    transport.all_reduce(std::span(&rows, 1), {"rows"});
    // Two boundaries, each of which a matrix crosses in either direction.
    EXPECT_EQ(rows, 2 * 2 * 600 * 24 * 4);
    std::int64_t others = 0;
    for (int rank = 0; rank < 3; ++rank) {
      others += all_reduce_bytes(job.trainer().network().parameters().shared_size(), 4, rank, 3);
      others += all_reduce_bytes(3, 8, rank, 3);  // whether rows of the last epoch are known
    }
    EXPECT_EQ(result.bytes_sent, rows + others);
  });
}

INSTANTIATE_TEST_SUITE_P(Models, StageBytes, ::testing::Values("gcn", "gcnii"));

// Rows that stages keep are in no checkpoint: the epoch behind one reads none, in both runs.
class StagesInFolders : public RunsInFolders {};

TEST_F(StagesInFolders, GoOnFromACheckpointBitForBit) {
  const auto run = [&](const std::string& name, int epochs, bool resume, int stages,
                       const std::string& model = "gcnii") {
    TrainOptions options = stage_options(model, stages);
    options.checkpoint_every = 4;
    options.optimizer.epochs = epochs;
    options.start = resume ? RunStart::kResume : RunStart::kFresh;
    options.run_dir = dir_.path() / name;
    train_in_folder(stages, dataset_, options);
  };
  run("whole", 16, false, 3);
  run("parts", 12, false, 3);
  run("parts", 16, true, 3);
  expect_same("parts", "whole");
  run("three", 16, false, 3, "sage");
  run("fewer", 8, false, 3, "sage");
  run("fewer", 16, true, 2, "sage");
  // Evaluations add up in another order on another number of ranks.
  EXPECT_EQ(lines("fewer", "loss"), lines("three", "loss"));
}

// A checkpoint that goes by time may stand behind epoch 50 alone, and whether it does changes
// nothing.
TEST_F(StagesInFolders, DoNotDependOnTheClock) {
  const auto run = [&](const std::string& name, double seconds) {
    TrainOptions options = stage_options("gcn", 2);
    options.checkpoint_seconds = seconds;
    options.optimizer.epochs = 54;
    options.eval_every = 0;
    options.run_dir = dir_.path() / name;
    train_in_folder(2, dataset_, options);
  };
  run("always", 1e-9);
  run("hourly", 3600);
  expect_same("always", "hourly");
  run("never", 0);
  const auto kept = lines("hourly", "loss");
  const auto free = lines("never", "loss");
  EXPECT_EQ(kept[49], free[49]);
  EXPECT_NE(kept[53], free[53]);
}

// --- the oracle: GCN that multiplies first, all of it dense and in double ------------------------

using Matrix = std::vector<std::vector<double>>;

Matrix zeros(std::size_t rows, std::size_t cols) { return Matrix(rows, std::vector<double>(cols)); }

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c = zeros(a.size(), b[0].size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < c[i].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t = zeros(a[0].size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) t[j][i] = a[i][j];
  }
  return t;
}

// Rows of x that each chunk reads: its own and earlier ones are new, and later ones old. backward:
// chunks come in reverse.
Matrix stale_product(const Matrix& s, const Matrix& fresh, const Matrix& old,
                     const std::vector<std::size_t>& chunk_of, bool backward) {
  Matrix y = zeros(fresh.size(), fresh[0].size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t k = 0; k < y.size(); ++k) {
      if (s[i][k] == 0) continue;
      const bool is_later = backward ? chunk_of[k] < chunk_of[i] : chunk_of[k] > chunk_of[i];
      const std::vector<double>& row = is_later && !old.empty() ? old[k] : fresh[k];
      for (std::size_t j = 0; j < y[i].size(); ++j) y[i][j] += s[i][k] * row[j];
    }
  }
  return y;
}

struct Adam {
  Matrix m, v;
  void step(Matrix& w, const Matrix& gradient, int t) {
    if (m.empty()) m = v = zeros(w.size(), w[0].size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      for (std::size_t j = 0; j < w[i].size(); ++j) {
        const double g = gradient[i][j];
        m[i][j] = 0.9 * m[i][j] + 0.1 * g;
        v[i][j] = 0.999 * v[i][j] + 0.001 * g * g;
        const double rate = 0.01 / (1 - std::pow(0.9, t));
        w[i][j] -= rate * m[i][j] / (std::sqrt(v[i][j] / (1 - std::pow(0.999, t))) + 1e-8);
      }
    }
  }
};

struct OracleLayer {
  Matrix weight, bias;  // the bias as one row
  Adam weight_step, bias_step;
  Matrix input, old_product, old_gradient;  // rows of the last epoch
};

// The rows and edges of rank 0's graph, and what a GCN of `layers` begins with.
struct OracleRun {
  Matrix s;  // D^-1/2 (A + I) D^-1/2 by in-degrees
  Matrix features;
  std::vector<int> labels;
  std::vector<std::size_t> trained;
  std::vector<OracleLayer> layers;

  double epoch(int number, bool stale, const std::vector<std::size_t>& chunk_of) {
    Matrix x = features;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      OracleLayer& layer = layers[l];
      layer.input = x;
      Matrix z = product(x, layer.weight);
      x = stale_product(s, z, stale ? layer.old_product : Matrix(), chunk_of, false);
      layer.old_product = std::move(z);
      for (auto& row : x) {
        for (std::size_t j = 0; j < row.size(); ++j) {
          row[j] += layer.bias[0][j];
          if (l + 1 < layers.size()) row[j] = std::max(row[j], 0.0);
        }
      }
    }
    double loss = 0;
    Matrix gradient = zeros(x.size(), x[0].size());
    for (const std::size_t i : trained) {
      double sum = 0;
      for (const double logit : x[i]) sum += std::exp(logit);
      const auto label = static_cast<std::size_t>(labels[i]);
      const auto count = static_cast<double>(trained.size());
      loss += (std::log(sum) - x[i][label]) / count;
      for (std::size_t j = 0; j < x[i].size(); ++j) {
        gradient[i][j] = (std::exp(x[i][j]) / sum - (j == label ? 1 : 0)) / count;
      }
    }
    const Matrix st = transposed(s);
    for (std::size_t l = layers.size(); l-- > 0;) {
      OracleLayer& layer = layers[l];
      Matrix of_bias = zeros(1, gradient[0].size());
      for (const auto& row : gradient) {
        for (std::size_t j = 0; j < row.size(); ++j) of_bias[0][j] += row[j];
      }
      // The loss is computed for all rows at once.
      const bool is_stale = stale && l + 1 < layers.size();
      const Matrix dz =
          stale_product(st, gradient, is_stale ? layer.old_gradient : Matrix(), chunk_of, true);
      layer.old_gradient = gradient;
      const Matrix of_weight = product(transposed(layer.input), dz);
      Matrix below = product(dz, transposed(layer.weight));
      for (std::size_t i = 0; i < below.size(); ++i) {
        for (std::size_t j = 0; j < below[i].size(); ++j) {
          if (l > 0 && layer.input[i][j] <= 0) below[i][j] = 0;
        }
      }
      gradient = std::move(below);
      layer.weight_step.step(layer.weight, of_weight, number);
      layer.bias_step.step(layer.bias, of_bias, number);
    }
    return loss;
  }
};

Matrix rows_of_tensor(const NamedTensor& tensor) {
  const auto cols = static_cast<std::size_t>(tensor.shape.back());
  const std::size_t rows = tensor.shape.size() == 2 ? static_cast<std::size_t>(tensor.shape[0]) : 1;
  const std::vector<float> values = values_in<float>(tensor);
  Matrix matrix = zeros(rows, cols);
  for (std::size_t i = 0; i < rows * cols; ++i) {
    matrix[i / cols][i % cols] = static_cast<double>(values[i]);
  }
  return matrix;
}

OracleRun oracle_of(RankJob& job, int layers) {
  const RankData& data = job.data().of_part();
  const LocalGraphView& graph = data.graph();
  const CsrView& edges = graph.forward.csr;
  const auto nodes = static_cast<std::size_t>(graph.inner());
  OracleRun run;
  run.s = zeros(nodes, nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    run.s[i][i] += 1;
    for (const std::int32_t j : edges.row(static_cast<std::int64_t>(i))) {
      run.s[i][static_cast<std::size_t>(j)] += 1;
    }
  }
  std::vector<double> degree;
  for (const auto& row : run.s) degree.push_back(std::accumulate(row.begin(), row.end(), 0.0));
  for (std::size_t i = 0; i < nodes; ++i) {
    for (std::size_t j = 0; j < nodes; ++j) run.s[i][j] /= std::sqrt(degree[i] * degree[j]);
  }
  const ConstMatrixView features = data.features();
  run.features = zeros(nodes, static_cast<std::size_t>(features.cols));
  for (std::size_t i = 0; i < nodes; ++i) {
    const auto* row =
        static_cast<const float*>(features.data) + static_cast<std::int64_t>(i) * features.stride;
    run.features[i].assign(row, row + features.cols);
  }
  run.labels.assign(data.host_labels().begin(), data.host_labels().end());
  for (const LocalId row : data.labelled_rows(Split::kTrain)) {
    run.trained.push_back(static_cast<std::size_t>(to_index(row)));
  }
  const SafetensorsFile state = job.trainer().state(false);
  for (int l = 0; l < layers; ++l) {
    OracleLayer& layer = run.layers.emplace_back();
    layer.weight = rows_of_tensor(state.tensors.at(fmt::format("layers.{}.weight", l)));
    layer.bias = rows_of_tensor(state.tensors.at(fmt::format("layers.{}.bias", l)));
  }
  return run;
}

class StageOracle : public ::testing::TestWithParam<bool> {};

TEST_P(StageOracle, ReadsLaterChunksAsTheLastEpochLeftThem) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, GetParam(), 90, 6);
  constexpr int kChunks = 4;
  TrainOptions options = stage_options("gcn", 3, kChunks);
  options.model.norm = Norm::kNone;
  options.model.dropout = 0;
  options.model.order = OrderChoice::kMultiplyFirst;
  run_local_ranks(3, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, {}, options);
    OracleRun oracle = oracle_of(job, options.model.layers);
    const auto ends = chunks_of_rows(job.data().of_part().graph().forward.csr, kChunks);
    std::vector<std::size_t> chunk_of;
    for (std::size_t chunk = 0; chunk < ends.size(); ++chunk) {
      chunk_of.resize(static_cast<std::size_t>(ends[chunk]), chunk);
    }
    EXPECT_EQ(std::ssize(chunk_of), 90);
    for (int epoch = 1; epoch <= kWholeEpochs + 7; ++epoch) {
      const double loss = job.run_epoch(epoch).loss;
      const double expected = oracle.epoch(epoch, epoch > kWholeEpochs, chunk_of);
      EXPECT_NEAR(loss, expected, kAfterFewSteps * expected) << "epoch " << epoch;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Graphs, StageOracle, ::testing::Bool());

// --- refusals
// --------------------------------------------------------------------------------------

std::string error_of_stages(const std::filesystem::path& dataset, int ranks,
                            const TrainOptions& options) {
  const Error error = thrown_error([&] {
    run_local_ranks(ranks, 30,
                    [&](Transport& transport) { RankJob job(transport, dataset, {}, options); });
  });
  return error.what();
}

TEST(StageRefusals, NameWhatIsAllowed) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = stage_options("gcn", 2);
  EXPECT_EQ(error_of_stages(dataset, 3, options),
            "--stages 2: 3 ranks, each of which is a stage; allowed are 3, all, and 0");
  options.model.norm = Norm::kBatch;
  EXPECT_EQ(error_of_stages(dataset, 2, options),
            "--stages: 'moments' of layer 0 needs all nodes at once, and stages compute chunk by "
            "chunk; allowed are models without batch norms and weights per type of node, with "
            "--norm layer or none");
  options = stage_options("sage", 2);
  options.model.aggregator = Aggregator::kMax;
  EXPECT_EQ(error_of_stages(dataset, 2, options).substr(0, 65),
            "--stages: layer 0 pools rows of neighbours (--aggregator max, sof");
  options = stage_options("gcn", 5);
  EXPECT_EQ(error_of_stages(dataset, 5, options),
            "--stages: 5 ranks, and the model has 4 layers, of which each stage needs one; allowed "
            "are 1 to 4 ranks");
}

TEST(StageRefusals, OfOptionsThatDoNotGoTogether) {
  const auto error_of = [](const auto& change) {
    TrainOptions options = stage_options("gcn", 2);
    change(options);
    return std::string(thrown_error([&] { check_options(options); }).what());
  };
  check_options(stage_options("gcn", 2));
  EXPECT_EQ(error_of([](TrainOptions& options) { options.stages.stale = false; }),
            "--stages 2: neighbours in chunks that come later are read as the last epoch left "
            "them, so losses are others than without stages; add --stale on if that is wanted");
  EXPECT_EQ(
      error_of([](TrainOptions& options) { options.stages = {.stale = true}; }),
      "--stale on: found without --stages; allowed with --stages 1 or more, with --plan, and in "
      "atoll plan");
  EXPECT_EQ(
      error_of([](TrainOptions& options) { options.stages = {.chunks = 3}; }),
      "--chunks 3: found without --stages; allowed with --stages 1 or more, and in atoll plan with "
      "--stale on");
  EXPECT_EQ(error_of([](TrainOptions& options) { options.exchange = "none"; }),
            "--stages 2: --exchange none found, and a stage computes nothing without the rows of "
            "the one before; allowed is exact");
  for (const auto& change : std::initializer_list<void (*)(TrainOptions&)>{
           [](TrainOptions& options) {
             options.exchange = "stale";
             options.message_bits.bits = parse_bits("32");
           },
           [](TrainOptions& options) { options.exchange = kModeOfBits; },
           [](TrainOptions& options) { options.blocks.count.number = 4; },
           [](TrainOptions& options) { options.group_ranks.number = 2; },
           [](TrainOptions& options) { options.model.memory = "1GiB"; },
           [](TrainOptions& options) { options.model.recompute_all = true; },
           [](TrainOptions& options) {
             options.local_until.epoch = 3;
             options.exchange = "exact";
           },
           [](TrainOptions& options) { options.cuda_graph = GraphReplay::kOn; }}) {
    EXPECT_EQ(error_of(change).substr(0, 11), "--stages 2:");
  }
}

}  // namespace
}  // namespace atl
