// Runs in which several ranks hold a part of the graph together: the numbers of those in which each
// rank has one alone, the bytes of the formulas, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "datasets/dataset_writer.hpp"
#include "engine/training/calibration.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

// Edges may have a weight and some features, the same in both directions.
struct EdgeData {
  bool weights = false;
  int features = 0;
};

// The graph of a dataset with that.
std::filesystem::path with_edge_data(const TempDir& dir, const std::filesystem::path& source,
                                     const EdgeData& data) {
  const Dataset dataset = Dataset::open(source);
  const std::filesystem::path out = dir.path() / "with-edge-data";
  DatasetWriter writer(out);
  writer.info().directed = dataset.info().directed;
  const CsrView edges = dataset.graph().in_edges;
  Csr csr{{edges.row_ptr.begin(), edges.row_ptr.end()},
          {edges.col_idx.begin(), edges.col_idx.end()},
          {}};
  std::vector<float> edge_features;
  for (std::int64_t to = 0; to < edges.rows(); ++to) {
    for (const std::int32_t from : edges.row(to)) {
      if (data.weights) csr.values.push_back(0.5F + static_cast<float>((from + to) % 7) / 7);
      for (int k = 0; k < data.features; ++k) {
        edge_features.push_back(std::sin(static_cast<float>(from + to + from * to % 11 + 5 * k)));
      }
    }
  }
  writer.write_graph(csr);
  if (data.features > 0) {
    const auto array = writer.write_edge_features(data.features);
    array->write(std::span<const float>(edge_features));
    array->close();
  }
  const auto features = writer.write_features(dataset.info().features);
  features->write(dataset.features());
  features->close();
  const auto labels = dataset.labels();
  writer.write_labels({labels.begin(), labels.end()}, dataset.info().classes);
  const auto split = dataset.split(0);
  writer.write_splits({split.begin(), split.end()}, 1);
  writer.commit();
  return out;
}

void expect_near_runs(const RunResult& found, const RunResult& expected, const std::string& what) {
  const auto near = [&](std::size_t epoch, double bound) {
    const double loss = expected.losses[epoch - 1];
    EXPECT_NEAR(found.losses[epoch - 1], loss, bound * loss) << what << ", epoch " << epoch;
  };
  near(1, 1e-6);
  near(2, 1e-5);
  near(expected.losses.size(), 1e-4);
  for (const auto& [name, own] :
       {std::pair{"valid", found.metrics.valid}, std::pair{"test", found.metrics.test}}) {
    const double other =
        name == std::string("valid") ? expected.metrics.valid : expected.metrics.test;
    EXPECT_NEAR(own, other, 0.02) << what << ", " << name;
  }
}

struct GroupCase {
  std::string model;
  bool directed = false;
  bool weighted = false;
  Norm norm = Norm::kBatch;
  Aggregator aggregator = Aggregator::kMean;
  double attention_dropout = 0;
  bool edge_scores = false;
  AttentionNorm attention_norm = AttentionNorm::kNone;
  Root root = Root::kUsual;
  int heads = 4;

  bool has_edge_features() const { return edge_scores || model == "gine"; }
};

class GroupNumbers : public ::testing::TestWithParam<GroupCase> {};

TEST_P(GroupNumbers, AreThoseOfRanksThatHoldAPartAlone) {
  const GroupCase& c = GetParam();
  const TempDir dir;
  const bool typed = c.model == "rgcn";
  std::filesystem::path dataset = typed ? make_relational(dir) : make_sbm(dir, c.directed);
  if (c.weighted || c.has_edge_features()) {
    dataset = with_edge_data(dir, dataset, {c.weighted, c.has_edge_features() ? 3 : 0});
  }
  TrainOptions options = small_options();
  options.model.attention_dropout = c.attention_dropout;
  options.model.edge_scores = c.edge_scores;
  options.model.attention_norm = c.attention_norm;
  options.model.root = c.root;
  options.model.aggregator = c.aggregator;
  options.model.learns_aggregator = c.aggregator == Aggregator::kSoftmax;
  if (typed) options.model.input_layer = InputLayerChoice::kTyped;
  options.model.kind = c.model;
  options.model.norm = c.norm;
  options.model.hidden = c.heads > 4 ? 2 * c.heads : 24;
  options.model.layers = c.model == "gcnii" ? 4 : 3;
  options.model.hops = 3;
  options.model.heads = options.model.output_heads = c.heads;
  options.model.dropout = 0.2;
  constexpr int kEpochs = 20;
  const RunResult alone = run_epochs(dataset, 4, options, 1, kEpochs);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const int ranks : {2, 4}) {
    const RunResult together = run_epochs(dataset, 4, grouped(options, ranks), 1, kEpochs);
    expect_near_runs(together, alone, fmt::format("groups of {}", ranks));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GroupNumbers,
    ::testing::Values(
        GroupCase{"gcn"}, GroupCase{"gcn", true, false, Norm::kLayer},
        GroupCase{"gcn", true, true, Norm::kBatch}, GroupCase{"sage"},
        GroupCase{"sage", true, false, Norm::kLayer}, GroupCase{"sage", false, true, Norm::kNone},
        GroupCase{"gin", true}, GroupCase{"gcnii", true, false, Norm::kNone},
        GroupCase{"appnp", true, false, Norm::kNone}, GroupCase{"sgc", true, true, Norm::kNone},
        GroupCase{"mlp"}, GroupCase{"rgcn"}, GroupCase{"gat", true, false, Norm::kBatch},
        GroupCase{"gat"}, GroupCase{"gatv2", true, false, Norm::kLayer}, GroupCase{"gatv2"},
        GroupCase{"dot", true, false, Norm::kNone},
        GroupCase{"bilinear", true, false, Norm::kBatch},
        GroupCase{"sage", true, false, Norm::kLayer, Aggregator::kMax},
        GroupCase{"sage", true, false, Norm::kNone, Aggregator::kSoftmax},
        GroupCase{"gine", true, false, Norm::kBatch},
        GroupCase{.model = "gine", .norm = Norm::kLayer, .root = Root::kEpsilon},
        GroupCase{.model = "gat", .directed = true, .edge_scores = true},
        GroupCase{.model = "gat", .edge_scores = true, .root = Root::kNone},
        GroupCase{.model = "gatv2", .directed = true, .edge_scores = true},
        GroupCase{.model = "gatv2", .norm = Norm::kLayer, .edge_scores = true, .root = Root::kNone},
        // A group of two has the first eight heads and the others, one of four
        // halves of these.
        GroupCase{.model = "gat", .directed = true, .attention_dropout = 0.3, .heads = 16},
        GroupCase{.model = "gatv2", .attention_dropout = 0.3},
        GroupCase{.model = "dot", .directed = true, .norm = Norm::kNone, .attention_dropout = 0.3},
        GroupCase{.model = "gat", .directed = true, .attention_norm = AttentionNorm::kSymmetric},
        GroupCase{.model = "gatv2",
                  .directed = true,
                  .attention_dropout = 0.2,
                  .edge_scores = true,
                  .attention_norm = AttentionNorm::kSymmetric},
        GroupCase{.model = "dot",
                  .norm = Norm::kLayer,
                  .attention_norm = AttentionNorm::kSymmetric,
                  .root = Root::kNone}),
    [](const auto& test) {
      const GroupCase& c = test.param;
      std::string name = fmt::format("{}_{}_{}{}_{}", c.model, to_string(c.aggregator),
                                     c.directed ? "directed" : "undirected",
                                     c.weighted ? "_weighted" : "", static_cast<int>(c.norm));
      if (c.attention_dropout > 0) name += "_dropout";
      if (c.edge_scores) name += "_edges";
      if (c.attention_norm == AttentionNorm::kSymmetric) name += "_symmetric";
      if (c.root != Root::kUsual) name += fmt::format("_root{}", static_cast<int>(c.root));
      return name;
    });

// Eight columns and fewer: some ranks of a group have none of the weight of edges.
TEST(GroupRanks, ShareWeightsOfEdgesOfFewColumns) {
  const TempDir dir;
  const std::filesystem::path dataset = with_edge_data(dir, make_sbm(dir, true), {.features = 2});
  for (const std::int64_t hidden : {5, 20}) {
    TrainOptions options = small_options();
    options.model.kind = "gine";
    options.model.hidden = hidden;
    const RunResult alone = run_epochs(dataset, 6, options, 1, 6);
    for (const int ranks : {2, 3, 6}) {
      const RunResult together = run_epochs(dataset, 6, grouped(options, ranks), 1, 6);
      expect_near_runs(together, alone, fmt::format("{} columns, groups of {}", hidden, ranks));
    }
  }
}

// Some ranks of a group have a head more than others, or none at all; in the last layer one rank
// has the only head.
TEST(GroupRanks, ShareHeadsThatCannotBeDividedEvenly) {
  const TempDir dir;
  const std::filesystem::path dataset = with_edge_data(dir, make_sbm(dir, true), {.features = 2});
  for (const char* model : {"gat", "gatv2", "dot", "bilinear"}) {
    TrainOptions options = small_options();
    options.model.kind = model;
    options.model.heads = 5;
    options.model.hidden = 20;
    options.model.attention_dropout = 0.2;
    const bool is_additive = options.model.kind == "gat";
    options.model.edge_scores = is_additive || options.model.kind == "gatv2";
    if (!is_additive) options.model.attention_norm = AttentionNorm::kSymmetric;
    const RunResult alone = run_epochs(dataset, 6, options, 1, 20);
    for (const int ranks : {2, 3, 6}) {
      const RunResult together = run_epochs(dataset, 6, grouped(options, ranks), 1, 20);
      expect_near_runs(together, alone, fmt::format("{}, groups of {}", model, ranks));
    }
    if (!is_additive) continue;
    const RunResult half = run_epochs(dataset, 6, grouped(options, 3), 1, 3);
    const RunResult rest = run_epochs(dataset, 6, grouped(options, 3), 4, 6, half.state);
    const RunResult whole = run_epochs(dataset, 6, grouped(options, 3), 1, 6);
    EXPECT_TRUE(same_tensors(whole.state, rest.state));
  }
}

// Columns that can't be divided evenly, fewer of them than a unit for each rank, and parts that are
// held by three ranks.
TEST(GroupRanks, DivideAnyNumberOfColumns) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const std::int64_t hidden : {3, 20, 43}) {
    TrainOptions options = small_options();
    options.model.hidden = hidden;
    options.model.cache_aggregate = hidden != 20;
    const RunResult alone = run_epochs(dataset, 6, options, 1, 6);
    for (const int ranks : {2, 3, 6}) {
      const RunResult together = run_epochs(dataset, 6, grouped(options, ranks), 1, 6);
      expect_near_runs(together, alone, fmt::format("{} columns, groups of {}", hidden, ranks));
    }
  }
}

// Some ranks have no central, or no marginal rows, or no rows at all.
TEST(GroupRanks, ShareTinyGraphs) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true, 14, 3);
  TrainOptions options = small_options();
  const RunResult alone = run_epochs(dataset, 2, options, 1, 4);
  for (const int ranks : {2, 4, 8}) {
    const RunResult together = run_epochs(dataset, 8, grouped(options, ranks), 1, 4);
    EXPECT_NEAR(together.losses[0], alone.losses[0], 1e-6 * alone.losses[0]) << ranks;
    EXPECT_NEAR(together.losses[3], alone.losses[3], 1e-4 * alone.losses[3]) << ranks;
  }
}

TEST(GroupRanks, RepeatBitForBitAndOverlapChangesNothing) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  expect_repeats_without_overlap(dataset, 4, grouped(small_options(), 2), 5);
}

TEST(GroupRanks, GoOnFromTheirStateAndFromThatOfOtherGroups) {
  const TempDir dir;
  const std::filesystem::path dataset = with_edge_data(dir, make_sbm(dir, true), {.features = 2});
  for (const char* model : {"gcn", "gine", "gat"}) {
    TrainOptions options = grouped(small_options(), 2);
    options.model.kind = model;
    if (options.model.kind == "gat") {
      options.model.heads = options.model.output_heads = 4;
      options.model.edge_scores = true;
      options.model.attention_dropout = 0.3;
      options.model.attention_norm = AttentionNorm::kSymmetric;
    }
    const RunResult whole = run_epochs(dataset, 4, options, 1, 6);
    const RunResult half = run_epochs(dataset, 4, options, 1, 3);
    const RunResult rest = run_epochs(dataset, 4, options, 4, 6, half.state);
    EXPECT_TRUE(same_tensors(whole.state, rest.state)) << model;
    EXPECT_EQ(whole.losses[5], rest.losses[2]) << model;
    for (const int ranks : {1, 4}) {
      const RunResult other = run_epochs(dataset, 4, grouped(options, ranks), 4, 6, half.state);
      EXPECT_NEAR(other.losses[2], whole.losses[5], 1e-4 * whole.losses[5]) << model << ranks;
    }
  }
}

// With bf16 rounding depends on who adds what, but not by much; partial sums in place of rows.
TEST(GroupRanks, TakeNarrowStorageAndCoveredMessages) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = small_options();
  options.model.messages = MessageForm::kCover;
  expect_near_runs(run_epochs(dataset, 4, grouped(options, 2), 1, 6),
                   run_epochs(dataset, 4, options, 1, 6), "cover");
  options.model.dtype = DType::kBf16;
  const RunResult narrow = run_epochs(dataset, 4, grouped(options, 2), 1, 6);
  const RunResult alone = run_epochs(dataset, 4, options, 1, 6);
  EXPECT_NEAR(narrow.losses[0], alone.losses[0], 2e-2 * alone.losses[0]);
}

// Rounding differs with the slices, so the numbers are near those of exact messages, not the same.
TEST(GroupRanks, SendNarrowMessages) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = grouped(small_options(), 2);
  options.model.hidden = 32;
  const RunResult exact = run_epochs(dataset, 4, options, 1, 8);
  for (const char* mode : {"quantized", "compensated", "stale"}) {
    options.exchange = mode;
    options.message_bits.bits = parse_bits("8");
    const RunResult narrow = run_epochs(dataset, 4, options, 1, 8);
    const bool is_late = options.exchange == "stale";
    EXPECT_NEAR(narrow.losses.back(), exact.losses.back(),
                (is_late ? 0.3 : 0.02) * exact.losses.back())
        << mode;
    EXPECT_LT(narrow.bytes.back(), exact.bytes.back()) << mode;
    if (is_late) continue;
    // All columns of each channel, in eight bits each.
    const Json assignment = narrow.assignments.front();
    ASSERT_FALSE(assignment.is_null()) << mode;
    EXPECT_EQ(assignment.at("mean_bits"), 8) << mode;
    for (const Json& channel : assignment.at("channels")) {
      EXPECT_EQ(channel.at("columns"), channel.at("layer") == 2 ? 4 : 32) << mode;
    }
  }
}

// Both draw the same messages, or give them the same turns, as they have the same parts.
TEST(GroupRanks, LeaveOutTheMessagesThatRanksAloneLeaveOut) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = small_options();
  options.message_bits.bits = parse_bits("32");
  const RunResult exact = run_epochs(dataset, 2, options, 1, 12);
  for (const char* mode : {"sampled", "periodic", "none"}) {
    options.exchange = mode;
    const RunResult alone = run_epochs(dataset, 2, options, 1, 12);
    EXPECT_GT(std::abs(alone.losses[1] / exact.losses[1] - 1), 1e-3) << mode;
    expect_near_runs(run_epochs(dataset, 4, grouped(options, 2), 1, 12), alone, mode);
  }
  options.exchange = kExactMode;
  options.local_until.epoch = 5;
  expect_near_runs(run_epochs(dataset, 4, grouped(options, 2), 1, 12),
                   run_epochs(dataset, 2, options, 1, 12), "local phase");
}

// With no bound a slice is left out that has just stood still, which few do; and what must not add
// any error leaves out nothing.
TEST(GroupRanks, SendEverySliceThatMoved) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = grouped(small_options(), 2);
  const RunResult exact = run_epochs(dataset, 4, options, 1, 8);
  options.exchange = "skip";
  options.message_bits.bits = parse_bits("32");
  options.sending.bound = 0;
  const RunResult moved = run_epochs(dataset, 4, options, 1, 8);
  EXPECT_NEAR(moved.losses.back(), exact.losses.back(), 1e-4 * exact.losses.back());
  options.sending.bound = 0.5;
  const RunResult skipped = run_epochs(dataset, 4, options, 1, 8);
  EXPECT_LT(skipped.bytes.back(), exact.bytes.back());
  EXPECT_NEAR(skipped.losses.back(), exact.losses.back(), 0.3 * exact.losses.back());
  options = grouped(small_options(), 2);
  options.exchange = "unified";
  options.message_bits.bits = parse_bits("adaptive");
  options.message_bits.lambda = 1;
  EXPECT_EQ(run_epochs(dataset, 4, options, 1, 8).losses, exact.losses);
}

// In a report of all slices, the rows of each are counted by width, and those that take turns by
// their period, too.
TEST(GroupRanks, ReportTheTurnsOfEachSlice) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = grouped(small_options(), 2);
  options.model.hidden = 32;
  options.exchange = "unified";
  options.message_bits.bits = parse_bits("adaptive");
  options.message_bits.reassign_every = 3;
  // Rows that hardly move.
  options.optimizer.learning_rate = 1e-6;
  options.model.dropout = 0;
  options.calibration = dir.path() / "calibration.json";
  write_json(options.calibration, slow_calibration(3));
  const RunResult found = run_epochs(dataset, 4, options, 1, 16);
  expect_same_run(run_epochs(dataset, 4, options, 1, 16), found);
  std::int64_t in_turns = 0;
  for (const Json& assignment : found.assignments) {
    if (assignment.is_null()) continue;
    for (const Json& channel : assignment.at("channels")) {
      std::int64_t rows = 0;
      for (const auto& [width, count] : channel.at("bits").items()) {
        rows += count.get<std::int64_t>();
      }
      EXPECT_EQ(channel.at("rows"), rows);
      const Json periods = channel.value("periods", Json::object());
      for (const auto& [period, count] : periods.items()) {
        in_turns += count.get<std::int64_t>();
      }
    }
  }
  EXPECT_GT(in_turns, 0);
}

// Conversions are repeated for values that are computed again: all ranks of a group do so.
TEST(GroupRanks, ComputeTheSameAgain) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const char* model : {"gcn", "gat"}) {
    TrainOptions options = small_options();
    options.model.kind = model;
    options.model.layers = 4;
    options.model.heads = options.model.output_heads = 4;
    for (const int ranks : {2, 4}) {
      options.model.dropping = {};
      const RunResult kept = run_epochs(dataset, 4, grouped(options, ranks), 1, 4);
      for (const bool keeps_aggregates : {true, false}) {
        options.model.dropping = {.last_run = 1, .keeps_aggregates = keeps_aggregates};
        const RunResult again = run_epochs(dataset, 4, grouped(options, ranks), 1, 4);
        EXPECT_EQ(again.losses, kept.losses) << model << ranks;
        EXPECT_TRUE(same_tensors(again.state, kept.state)) << model << ranks;
        EXPECT_GT(again.bytes.back(), kept.bytes.back()) << model << ranks;
      }
    }
  }
}

// Each slice chooses for its own messages, and packets have the bytes of what it chose.
TEST(GroupRanks, ChooseWidthsForEachSlice) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = grouped(small_options(), 2);
  options.model.hidden = 32;
  const RunResult exact = run_epochs(dataset, 4, options, 1, 12);
  options.exchange = "quantized";
  options.message_bits.reassign_every = 3;
  for (const char* bits : {"adaptive", "random"}) {
    options.message_bits.bits = parse_bits(bits);
    options.calibration.clear();
    if (bits == std::string("adaptive")) {
      // Times that are measured would be others in each run.
      options.calibration = dir.path() / "calibration.json";
      write_json(options.calibration, slow_calibration(3));
    }
    const RunResult found = run_epochs(dataset, 4, options, 1, 12);
    EXPECT_NEAR(found.losses.back(), exact.losses.back(), 0.05 * exact.losses.back()) << bits;
    expect_same_run(run_epochs(dataset, 4, options, 1, 12), found);
    int several = 0;
    for (const Json& assignment : found.assignments) {
      if (assignment.is_null()) continue;
      for (const Json& channel : assignment.at("channels")) {
        if (channel.at("columns") != 32) continue;  // of two slices of 16
        std::int64_t rows = 0;
        std::int64_t bytes = 0;
        int widths = 0;
        for (const auto& [width, count] : channel.at("bits").items()) {
          const auto messages = count.get<std::int64_t>();
          rows += messages;
          bytes += messages * wire_row_bytes(std::stoi(width), 16, DType::kF32);
          widths += messages > 0 ? 1 : 0;
        }
        EXPECT_EQ(channel.at("rows"), rows) << bits;
        EXPECT_EQ(channel.at("bytes"), bytes) << bits;
        several += widths > 1 ? 1 : 0;
      }
      EXPECT_EQ(assignment.contains("gap"), assignment.at("channels")[0].contains("wire_ms"));
    }
    EXPECT_GT(several, 4) << bits;
  }
}

class GroupFolders : public RunsInFolders {};

// With eight columns one slice has none: its ranks have no messages, measure nothing, and still
// save with the others what these have measured.
TEST_F(GroupFolders, SaveTheTimesOfSlicesThatHaveColumns) {
  for (const char* mode : {"quantized", "unified"}) {
    TrainOptions options = grouped(small_options(), 2);
    options.model.layers = 2;
    options.exchange = mode;
    options.message_bits.bits = parse_bits("adaptive");
    options.message_bits.reassign_every = 3;
    const std::string name = std::string("narrow-") + mode;
    run(name, 7, false, options, 4);
    EXPECT_TRUE(read_json(dir_.path() / name / "calibration.json").contains("exchange")) << mode;
    run(name, 10, true, options, 4);
  }
}

// The times that a resumed run finds in its folder were measured by one of the slices.
TEST(GroupRanks, GoOnWithTheTimesOfTheirOwnSlice) {
  const TempDir dir;
  write_json(dir.path() / "calibration.json", slow_calibration(3));
  TrainOptions options = small_options();
  options.exchange = "quantized";
  options.message_bits.bits = parse_bits("adaptive");
  options.run_dir = dir.path();
  options.resume = true;
  EXPECT_FALSE(calibrated_exchange(options, 2).message_bits.calibration.is_null());
  options = grouped(options, 2);
  EXPECT_TRUE(calibrated_exchange(options, 2).message_bits.calibration.is_null());
  options.calibration = dir.path() / "calibration.json";
  EXPECT_FALSE(calibrated_exchange(options, 2).message_bits.calibration.is_null());
}

// Ranks whose slices have no columns have no messages, but others wait for them.
TEST(GroupRanks, SendNarrowMessagesOfFewColumns) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = grouped(small_options(), 2);
  options.model.hidden = 8;
  const RunResult exact = run_epochs(dataset, 4, options, 1, 4);
  options.exchange = "quantized";
  options.message_bits.bits = parse_bits("8");
  const RunResult narrow = run_epochs(dataset, 4, options, 1, 4);
  EXPECT_NEAR(narrow.losses.back(), exact.losses.back(), 0.02 * exact.losses.back());
  const Json assignment = narrow.assignments.front();
  ASSERT_FALSE(assignment.is_null());
  EXPECT_EQ(assignment.at("mean_bits"), 8);
}

// A relation alone is stored without padding, as several are.
TEST(GroupRanks, SumOneRelation) {
  const TempDir dir;
  const std::filesystem::path dataset = make_relational(dir, 1);
  TrainOptions options = small_options();
  options.model.kind = "rgcn";
  options.model.hidden = 12;
  const RunResult alone = run_epochs(dataset, 4, options, 1, 4);
  expect_near_runs(run_epochs(dataset, 4, grouped(options, 2), 1, 4), alone, "one relation");
}

// The gradient of epsilon is read behind conversions that others wait for. It starts at 0, so it
// shows from the second epoch on.
TEST(GroupRanks, TrainTheWeightOfTheNodeItself) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const char* model : {"gin", "gcn", "sage"}) {
    TrainOptions options = small_options();
    options.model.kind = model;
    options.model.root = Root::kEpsilon;
    options.model.hidden = 12;
    options.model.layers = 3;
    options.optimizer.learning_rate = 0.005;
    const RunResult alone = run_epochs(dataset, 4, options, 1, 10);
    expect_near_runs(run_epochs(dataset, 4, grouped(options, 2), 1, 10), alone, model);
  }
}

// By times of a file: those that are measured would be others in each run. Each slice finds its own
// widths in the checkpoint.
TEST_F(GroupFolders, GoOnBitForBitWithWidthsThatTheyChose) {
  for (const char* mode : {"quantized", "compensated", "unified"}) {
    TrainOptions options = grouped(small_options(), 2);
    options.exchange = mode;
    options.message_bits.bits = parse_bits("adaptive");
    options.message_bits.reassign_every = 3;
    options.calibration = dir_.path() / "calibration.json";
    write_json(options.calibration, slow_calibration(3));
    const std::string whole = std::string("chosen-whole-") + mode;
    const std::string half = std::string("chosen-half-") + mode;
    run(whole, 10, false, options, 4);
    run(half, 6, false, options, 4);
    run(half, 10, true, options, 4);
    expect_same(half, whole);
  }
}

TEST_F(GroupFolders, GoOnBitForBitWithRowsThatAreKept) {
  for (const char* mode : {"exact", "compensated", "periodic", "skip"}) {
    TrainOptions options = grouped(small_options(), 2);
    options.exchange = mode;
    options.message_bits.bits = parse_bits(exchange_mode(mode).takes_bits() ? "4" : "32");
    const std::string whole = std::string("whole-") + mode;
    const std::string half = std::string("half-") + mode;
    run(whole, 6, false, options, 4);
    run(half, 3, false, options, 4);
    run(half, 6, true, options, 4);
    expect_same(half, whole);
    if (options.exchange == std::string("exact")) continue;
    const Error error = thrown_error([&] { run(half, 8, true, grouped(options, 1), 4); });
    EXPECT_THAT(error.what(), HasSubstr("group-ranks"));
  }
}

// `host` is a number that other hosts would change.
TEST_F(GroupFolders, OfAHostGoOnWithAsMany) {
  TrainOptions options = small_options();
  options.exchange = "quantized";
  options.message_bits.bits = parse_bits("4");
  options.group_ranks = parse_group_ranks("host");
  run("host", 3, false, options, 4);
  run("host", 4, true, grouped(options, 4), 4);
  const Error error = thrown_error([&] { run("host", 5, true, grouped(options, 2), 4); });
  EXPECT_THAT(error.what(), HasSubstr("group-ranks"));
}

// All that ranks send in an epoch: slices of halo rows, what a group shares, and sums over ranks.
TEST(GroupRanks, SendTheBytesOfTheFormulas) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = small_options();
  options.model.norm = Norm::kNone;
  PartitionOptions partition;
  partition.method = "random";
  for (const int ranks : {2, 4}) {
    run_local_ranks(4, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, partition, grouped(options, ranks));
      EpochResult result;
      for (int epoch = 1; epoch <= 3; ++epoch) result = job.trainer().run_epoch(epoch);
      std::int64_t halo = job.trainer().halo_bytes_per_epoch();
      std::int64_t group = job.trainer().group_bytes_per_epoch();
      transport.all_reduce(std::span(&halo, 1), {"halo"});
      transport.all_reduce(std::span(&group, 1), {"group"});
      const std::int64_t parameters = (12 * 16) + 16 + (16 * 16) + 16 + (16 * 4) + 16;
      std::int64_t sums = 0;
      for (int rank = 0; rank < 4; ++rank) sums += all_reduce_bytes(parameters, 4, rank, 4);
      EXPECT_EQ(result.bytes_sent, halo + group + sums);
      // Layers 2 and 3 of 600 nodes forward, of 16 and 8 columns with padding, and their gradients;
      // each conversion moves all but a share of these. The first aggregate is kept.
      const std::int64_t converted = 2 * (2 * 600 * (16 + 8)) * 4;
      const double of_others = static_cast<double>(converted * (ranks - 1)) / ranks;
      EXPECT_NEAR(static_cast<double>(group), of_others, 0.01 * of_others);
      EXPECT_EQ(halo > 0, ranks < 4);
    });
  }
}

// A group of two receives a row once where two ranks would each receive it.
TEST(GroupRanks, ReceiveAHaloRowOnce) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const TrainOptions options = small_options();
  const RunResult four = run_epochs(dataset, 4, options, 1, 1);
  const RunResult two = run_epochs(dataset, 2, options, 1, 1);
  EXPECT_EQ(run_epochs(dataset, 4, grouped(options, 2), 1, 1).formula_bytes, two.formula_bytes);
  EXPECT_LT(two.formula_bytes, four.formula_bytes);
}

std::string error_of_groups(int ranks, const std::filesystem::path& dataset,
                            const TrainOptions& options) {
  const Error error = thrown_error([&] { run_epochs(dataset, ranks, options, 1, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  return error.what();
}

TEST(GroupRanks, RefuseNumbersThatDoNotDivideTheRanks) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  EXPECT_THAT(error_of_groups(4, dataset, grouped(small_options(), 3)),
              HasSubstr("--group-ranks 3: 4 ranks can't be divided into groups of 3; allowed are "
                        "1, 2, 4"));
  EXPECT_THAT(error_of_groups(1, dataset, grouped(small_options(), 2)),
              HasSubstr("--group-ranks 2: 1 rank can't be divided into groups of 2; allowed is 1"));
}

TEST(GroupRanks, AreWrittenAsTheyAreRead) {
  for (const char* text : {"1", "4", "host", "all"}) {
    EXPECT_EQ(to_string(parse_group_ranks(text)), text);
  }
  for (const char* text : {"0", "-1", "2x", "", "hosts", "1.5"}) {
    const Error error = thrown_error([&] { parse_group_ranks(text); });
    EXPECT_THAT(error.what(), HasSubstr("allowed are whole numbers from 1 to")) << text;
  }
}

// Threads of a process are on one host.
TEST(GroupRanks, OfAHostAndOfAllRanksAreFoundOut) {
  run_local_ranks(6, 30, [](Transport& transport) {
    for (const char* text : {"host", "all", "6"}) {
      const RankMap map = rank_map(parse_group_ranks(text), transport);
      EXPECT_EQ(map.parts(), 1) << text;
      EXPECT_EQ(map.ranks_per_part(), 6) << text;
    }
    EXPECT_EQ(rank_map(parse_group_ranks("3"), transport).parts(), 2);
  });
}

TEST(GroupRanks, RefuseOptionsOfRanksThatHoldAPartAlone) {
  const auto error_with = [](const auto& change) {
    TrainOptions options = grouped(small_options(), 2);
    change(options);
    const Error error = thrown_error([&] { check_options(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_THAT(error.what(), HasSubstr("--group-ranks 2: "));
    return std::string(error.what());
  };
  EXPECT_THAT(error_with([](TrainOptions& o) { o.arrival = Arrival::kOn; }),
              HasSubstr("--arrival on found"));
  EXPECT_THAT(error_with([](TrainOptions& o) { o.model.recompute_all = true; }),
              HasSubstr("--recompute all"));
  check_options(grouped(small_options(), 2));
}

}  // namespace
}  // namespace atl
