// Predictions of some nodes, by their neighbourhood alone, against those of all nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/files.hpp"
#include "datasets/neighbourhood.hpp"
#include "engine/training/prediction.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/oracle_cases.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

using Rows = std::vector<std::vector<float>>;

Rows rows_in(const std::filesystem::path& path) {
  const NpyFile file(path);
  const std::span<const float> values = file.values<float>();
  Rows rows;
  for (std::int64_t i = 0; i < file.rows(); ++i) {
    const auto row = values.subspan(static_cast<std::size_t>(i * file.columns()),
                                    static_cast<std::size_t>(file.columns()));
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

std::vector<GlobalId> ids_of(const std::vector<int>& nodes) {
  std::vector<GlobalId> ids;
  for (const int node : nodes) ids.push_back(GlobalId{node});
  return ids;
}

// A model behind one step on a whole graph, and what it says of all nodes.
class WholePrediction {
 public:
  WholePrediction(const std::filesystem::path& dataset, const TrainOptions& options,
                  const TempDir& dir, NodeOrder order = NodeOrder::kNatural)
      : dataset_(dataset), options_(options), out_(dir.path() / "rows.npy") {
    PartitionOptions cut;
    cut.node_order = order;
    run_local_ranks(1, 60, [&](Transport& transport) {
      RankJob job(transport, dataset_, cut, options_);
      job.trainer().run_epoch(1);
      state_ = job.trainer().state(false);
      outputs_ = job.data().outputs();
      predict(job.trainer(), job.data(), transport, PredictionKind::kLogits, out_);
      logits_ = rows_in(out_);
      predict(job.trainer(), job.data(), transport, PredictionKind::kEmbeddings, out_);
      embeddings_ = rows_in(out_);
    });
  }

  Rows of(const std::vector<int>& nodes, PredictionKind kind) {
    const std::vector<GlobalId> chosen = ids_of(nodes);
    std::vector<GlobalId> distinct = chosen;
    std::ranges::sort(distinct);
    distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
    run_local_ranks(1, 60, [&](Transport& transport) {
      RankJob job(transport, dataset_, {}, options_, outputs_,
                  [&](const Dataset&) { return distinct; });
      job.trainer().load_state(state_, false, "state");
      costs_ = predict_chosen(job.trainer(), job.data(), transport, kind, chosen, out_);
    });
    const NpyFile ids(file_of_ids(out_));
    EXPECT_TRUE(std::ranges::equal(ids.values<std::int64_t>(), nodes));
    return rows_in(out_);
  }

  const Rows& all(PredictionKind kind) const {
    return kind == PredictionKind::kLogits ? logits_ : embeddings_;
  }
  const ChosenCosts& costs() const { return costs_; }

 private:
  std::filesystem::path dataset_;
  TrainOptions options_;
  std::filesystem::path out_;
  SafetensorsFile state_;
  std::int64_t outputs_ = 0;
  Rows logits_;
  Rows embeddings_;
  ChosenCosts costs_;
};

// Sums have the same terms in the same order; only products of matrices may add up theirs in
// another order where there are fewer rows.
void expect_rows_of_all(WholePrediction& whole, const std::vector<int>& nodes, double bound) {
  for (const PredictionKind kind : {PredictionKind::kLogits, PredictionKind::kEmbeddings}) {
    const Rows found = whole.of(nodes, kind);
    ASSERT_EQ(found.size(), nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::vector<float>& expected = whole.all(kind)[static_cast<std::size_t>(nodes[i])];
      ASSERT_EQ(found[i].size(), expected.size());
      for (std::size_t c = 0; c < expected.size(); ++c) {
        const double largest = std::max(1.0F, std::abs(expected[c]));
        EXPECT_NEAR(found[i][c], expected[c], bound * largest) << "node " << nodes[i];
      }
    }
  }
}

class ChosenNodes : public ::testing::TestWithParam<OracleCase> {};

TEST_P(ChosenNodes, HaveTheRowsThatTheyHaveAmongAll) {
  const OracleCase& c = GetParam();
  const TempDir dir;
  const std::filesystem::path dataset = write_dataset(dir, c, graph_of(c));
  std::vector<int> everybody(kNodes);
  std::iota(everybody.begin(), everybody.end(), 0);
  for (const auto& [backend, bound] :
       {std::pair<const char*, double>("reference", 0.0), {"cpu", 1e-6}}) {
    SCOPED_TRACE(backend);
    WholePrediction whole(dataset, options_of(c, {backend, DType::kF32, 1, OrderChoice::kAuto}),
                          dir);
    const bool needs_out_degrees =
        options_of(c, {backend, DType::kF32, 1, OrderChoice::kAuto}).model.attention_norm ==
        AttentionNorm::kSymmetric;
    if (needs_out_degrees && c.directed) {
      EXPECT_THAT(thrown_error([&] { whole.of({1}, PredictionKind::kLogits); }).what(),
                  HasSubstr("is directed"));
      continue;
    }
    // The last nodes of this graph have few edges or none, the first ones many.
    for (const std::vector<int>& nodes :
         {std::vector<int>{0}, {kNodes - 1}, {31, 7, 50, 7, 2}, everybody}) {
      expect_rows_of_all(whole, nodes, bound);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ChosenNodes, ::testing::ValuesIn(oracle_cases()),
                         name_of_oracle_case);

class ChosenOfSbm : public ::testing::Test {
 protected:
  TempDir dir_;
  std::filesystem::path dataset_ = make_sbm(dir_, true, 600, 2);
};

TEST_F(ChosenOfSbm, ReadAndComputeTheirNeighbourhoodAlone) {
  const TrainOptions options = small_options();
  WholePrediction whole(dataset_, options, dir_);
  const std::vector<int> nodes = {17, 400};
  expect_rows_of_all(whole, nodes, 1e-6);
  // The rows that three aggregates need, by a search of its own.
  const Dataset dataset = Dataset::open(dataset_);
  const CsrView edges = dataset.graph().in_edges;
  std::vector<int> distance(600, -1);
  std::vector<std::int64_t> within;
  for (const int node : nodes) distance[static_cast<std::size_t>(node)] = 0;
  for (int hop = 0; hop <= 3; ++hop) {
    within.push_back(std::ranges::count_if(distance, [](int d) { return d >= 0; }));
    for (std::int64_t i = 0; i < 600; ++i) {
      if (distance[static_cast<std::size_t>(i)] != hop) continue;
      for (const std::int32_t u : edges.row(i)) {
        int& of_neighbour = distance[static_cast<std::size_t>(u)];
        if (of_neighbour < 0) of_neighbour = hop + 1;
      }
    }
  }
  EXPECT_LT(within[3], 200);
  EXPECT_EQ(whole.costs().read, within[3]);
  EXPECT_EQ(whole.costs().nodes, 600);
  EXPECT_EQ(whole.costs().aggregates, 3);
  EXPECT_EQ(whole.costs().computed, within[0] + within[1] + within[2]);

  const std::vector<GlobalId> ids = ids_of(nodes);
  const Shard shard = neighbourhood(dataset, ids, 3);
  const LocalGraphView& graph = shard.graph();
  EXPECT_TRUE(std::ranges::equal(graph.within, within));
  for (std::int64_t i = 0; i < graph.inner(); ++i) {
    const std::int64_t id = to_index(graph.inner_ids[static_cast<std::size_t>(i)]);
    EXPECT_FLOAT_EQ(graph.in_degree[static_cast<std::size_t>(i)],
                    static_cast<float>(edges.row(id).size()));
    EXPECT_EQ(graph.forward.csr.row(i).size(),
              distance[static_cast<std::size_t>(id)] < 3 ? edges.row(id).size() : 0U);
  }
}

// In the order of nodes that a run usually has, sums have their terms in another order.
TEST_F(ChosenOfSbm, AreTheSameUpToRoundingInAnyOrderOfNodes) {
  WholePrediction whole(dataset_, small_options(), dir_, NodeOrder::kBreadthFirst);
  expect_rows_of_all(whole, {0, 1, 2, 300, 599}, 1e-5);
}

TEST_F(ChosenOfSbm, RefuseWhatIsWrongWhereTheyRead) {
  WholePrediction whole(dataset_, small_options(), dir_);
  const std::vector<int> nodes = {17};
  const Rows before = whole.of(nodes, PredictionKind::kLogits);
  const Dataset dataset = Dataset::open(dataset_);
  const std::vector<GlobalId> ids = ids_of(nodes);
  const Shard near = neighbourhood(dataset, ids, 3);
  std::vector<bool> read(600, false);
  for (const GlobalId id : near.graph().inner_ids) {
    read[static_cast<std::size_t>(to_index(id))] = true;
  }
  const auto change = [&](std::int64_t row) {
    const std::filesystem::path path = dataset_ / "features.npy";
    std::string bytes = read_text(path);
    const float wrong = std::numeric_limits<float>::quiet_NaN();
    const std::size_t data = bytes.size() - 600 * 12 * sizeof(float);
    std::memcpy(bytes.data() + data + static_cast<std::size_t>(row) * 12 * sizeof(float), &wrong,
                sizeof(wrong));
    write_atomically(path, bytes);
  };
  change(std::ranges::find(read, false) - read.begin());
  EXPECT_EQ(whole.of(nodes, PredictionKind::kLogits), before) << "it lies elsewhere";
  const std::int64_t wrong = to_index(near.graph().inner_ids.back());
  change(wrong);
  EXPECT_THAT(thrown_error([&] { whole.of(nodes, PredictionKind::kLogits); }).what(),
              HasSubstr(fmt::format("features.npy: row {}, column 0 is nan", wrong)));
}

// The rows of parameters that nodes have are found by their ids.
TEST_F(ChosenOfSbm, HaveRowsOfTrainedFeaturesToo) {
  TrainOptions options = small_options();
  options.model.node_features = "trained:6";
  GenerateOptions bare;
  bare.out = dir_.path() / "bare";
  bare.nodes = 300;
  bare.degree = 3;
  bare.classes = 4;
  bare.features = 0;
  generate_dataset("sbm", bare);
  WholePrediction whole(bare.out, options, dir_);
  expect_rows_of_all(whole, {5, 299, 100}, 1e-6);
}

}  // namespace
}  // namespace atl
