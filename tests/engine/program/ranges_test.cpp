// The seams of an epoch: ranges of rows, groups of ranks, parts that several ranks hold.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <mutex>

#include "engine/exchange/rank_map.hpp"
#include "engine/models/model.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/fuse.hpp"
#include "engine/program/network.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/test_rank.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

constexpr int kGraphNodes = 90;
constexpr int kTrainedEpochs = 2;

ModelConfig model_of(const std::string& kind, Norm norm) {
  ModelConfig config;
  config.kind = kind;
  config.norm = norm;
  config.dropout = 0.3;
  config.relations = EdgeArrays::kTypes;
  config.edge_features = EdgeArrays::kColumns;
  config.hidden = 12;
  config.features = 6;
  config.outputs = 4;
  return config;
}

using Write = Program (*)(const ModelConfig&, Pass);

// Sums that read what a row operation behind them may write over, halo rows that wait for messages:
// orders of operations that no model of the table has.
Program other_orders(const ModelConfig& config, Pass pass) {
  Builder b(pass, config.features, {}, 0);
  b.begin_layer();
  const Value first = b.linear(b.input(), b.weight("weight", b.input(), config.hidden));
  const Value x =
      b.activate(b.bias(b.aggregate(Normalisation::kMean, first)), ActivationFunction::kElu, 0);
  b.end_layer(x);
  b.begin_layer();
  const Value scaled = b.scale(x, b.scalar("epsilon", Initialisation::kOnes));
  const Value biased = b.bias(b.activate(scaled, ActivationFunction::kGelu, 0), "shift");
  const Value summed = b.aggregate(Normalisation::kSum, biased);
  const Value pooled = b.pool({}, b.linear(x, b.weight("pooled", x, config.hidden)));
  const Value both = b.add(summed, b.aggregate(Normalisation::kMean, pooled));
  const Value logits = b.linear(both, b.weight("weight", both, config.outputs));
  b.end_layer(logits);
  Program program = b.finish(logits, x);
  if (pass == Pass::kTraining) differentiate(program);
  fuse(program);
  return program;
}

// Halo rows are not numbers until somebody waits for them.
class LastMoment final : public HaloExchange {
 public:
  explicit LastMoment(HaloExchange& exact) : exact_(exact) {}
  std::string name() const override { return exact_.name(); }
  void keep_alive(std::shared_ptr<const void> memory) override { exact_.keep_alive(memory); }
  std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                            DType dtype) const override {
    return exact_.buffer_bytes(op, columns, dtype);
  }
  std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                         Channel channel, const Round& round) override {
    exact_.begin(op, x, channel, round)->finish();
    return std::make_unique<Pending>(op, x, waits_);
  }
  int waits() const { return waits_; }  // for some of the packets

 private:
  class Pending final : public PendingExchange {
   public:
    Pending(const DistributedOperator& op, MatrixView x, int& waits)
        : op_(op), x_(x), waits_(waits) {
      for (std::size_t peer = 0; peer + 1 < op.halo.recv_offset.size(); ++peer) {
        float* const rows = rows_of(peer);
        const std::size_t count = count_of(peer);
        kept_.emplace_back(rows, rows + count);
        std::fill_n(rows, count, std::numeric_limits<float>::quiet_NaN());
      }
    }
    void finish_groups(int last) override {
      if (op_.pieces == 1) return finish();
      ++waits_;
      for (std::size_t peer = 0; peer < kept_.size(); ++peer) {
        const auto piece =
            peer * static_cast<std::size_t>(op_.pieces) + static_cast<std::size_t>(last);
        std::copy_n(kept_[peer].begin(), op_.received_pieces[piece] * x_.stride, rows_of(peer));
      }
    }
    void finish() override {
      for (std::size_t peer = 0; peer < kept_.size(); ++peer) {
        std::ranges::copy(kept_[peer], rows_of(peer));
      }
    }

   private:
    float* rows_of(std::size_t peer) {
      return x_.row<float>(op_.inner() + op_.halo.first_halo_row(peer));
    }
    std::size_t count_of(std::size_t peer) const {
      return static_cast<std::size_t>(op_.halo.received_from(peer) * x_.stride);
    }
    const DistributedOperator& op_;
    MatrixView x_;
    int& waits_;
    std::vector<std::vector<float>> kept_;
  };

  HaloExchange& exact_;
  int waits_ = 0;
};

struct Trained {
  std::vector<float> parameters;
  int waits = 0;
};

// Some epochs on the ranks of a transport.
Trained train_on(Transport& transport, const LocalGraphView& local, const ModelConfig& config,
                 Arrival arrival, int equal_groups, Write write) {
  TestRank rank(transport, local, "cpu");
  LastMoment exchange(*rank.exchange);
  Tensor features(*rank.backend, local.inner(), config.features, config.dtype);
  std::vector<std::int32_t> labels;
  std::vector<LocalId> rows;
  for (std::int64_t i = 0; i < local.inner(); ++i) {
    const std::int64_t id = to_index(local.inner_ids[static_cast<std::size_t>(i)]);
    labels.push_back(static_cast<std::int32_t>(id % config.outputs));
    rows.push_back(static_cast<LocalId>(i));
    for (std::int64_t c = 0; c < config.features; ++c) {
      features.view().row<float>(i)[c] = std::sin(static_cast<float>(7 * id + 3 * c));
    }
  }
  LossTargets targets;
  targets.labels = labels;
  targets.rows = rows;
  Network network(write(config, Pass::kTraining), write(config, Pass::kEvaluation),
                  {.dtype = config.dtype,
                   .covers_messages = covers_messages(config, write(config, Pass::kTraining)),
                   .arrival = arrival,
                   .equal_groups = equal_groups},
                  rank.self, local, features.view());
  rank.exchange->keep_alive(network.memory());
  network.allocate();
  Loss loss(*rank.backend, targets, kGraphNodes);
  Optimizer optimizer({}, network.parameters(), *rank.backend);
  for (int epoch = 1; epoch <= kTrainedEpochs; ++epoch) {
    EpochState state = optimizer.state_of(epoch);
    const Round round{.epoch = epoch, .state = &state};
    network.run_forward(exchange, round);
    network.run_backward(exchange, round, loss);
    network.run_step(round, optimizer);
  }
  const MatrixView values = network.parameters().values();
  return {{values.row<float>(0), values.row<float>(0) + values.cols}, exchange.waits()};
}

std::vector<float> trained(Transport& transport, const LocalGraphView& local,
                           const ModelConfig& config, int equal_groups,
                           Write write = model_program) {
  return train_on(transport, local, config, Arrival::kOff, equal_groups, write).parameters;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> trained_on(int ranks, const ModelConfig& config, int marginal_groups,
                              Write write = model_program) {
  const Csr csr = random_graph(kGraphNodes, 4, /*directed=*/false, /*weighted=*/false, 5);
  const EdgeArrays arrays = make_edge_arrays(csr);
  std::vector<float> result;
  run_parts(arrays.on(csr, true), ranks, [&](Transport& transport, const LocalGraphView& local) {
    std::vector<float> values = trained(transport, local, config, marginal_groups, write);
    if (transport.rank() == 0) result = std::move(values);
  });
  return result;
}

TEST(Ranges, SeveralMarginalOnesGiveTheBitsOfOne) {
  for (const std::string& kind : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      const ModelConfig config = model_of(kind, norm);
      SCOPED_TRACE(fmt::format("{}, norm {}", kind, to_string(norm)));
      const std::vector<float> one = trained_on(3, config, 1);
      EXPECT_TRUE(same_bits(trained_on(3, config, 2), one));
      EXPECT_TRUE(same_bits(trained_on(3, config, 5), one));
    }
  }
  ModelConfig pooled = model_of("sage", Norm::kNone);
  pooled.aggregator = Aggregator::kMax;
  EXPECT_TRUE(same_bits(trained_on(3, pooled, 3), trained_on(3, pooled, 1)));
}

TEST(Ranges, WaitForWhatMustNotBeWrittenOver) {
  const ModelConfig config = model_of("gcn", Norm::kNone);
  for (const int groups : {2, 4}) {
    EXPECT_TRUE(same_bits(trained_on(3, config, groups, other_orders),
                          trained_on(3, config, 1, other_orders)))
        << groups;
  }
}

// Rows are computed by the messages that have come, and others are not read before.
TEST(Ranges, ByArrivalGiveTheBitsOfOne) {
  for (const bool directed : {false, true}) {
    const Csr csr = random_graph(kGraphNodes, 3, directed, /*weighted=*/false, 5);
    const EdgeArrays arrays = make_edge_arrays(csr);
    for (const std::string& kind : model_kinds()) {
      for (const MessageForm messages : {MessageForm::kAuto, MessageForm::kRows}) {
        ModelConfig config = model_of(kind, Norm::kLayer);
        config.messages = messages;
        SCOPED_TRACE(
            fmt::format("{}{}, {}", kind, directed ? " directed" : "", to_string(messages)));
        run_parts(arrays.on(csr, !directed), 6,
                  [&](Transport& transport, const LocalGraphView& local) {
                    const auto by = [&](Arrival arrival) {
                      return train_on(transport, local, config, arrival, 1, model_program);
                    };
                    const Trained one = by(Arrival::kOff);
                    const Trained several = by(Arrival::kOn);
                    EXPECT_TRUE(same_bits(several.parameters, one.parameters));
                    EXPECT_EQ(one.waits, 0);
                    if (kind == "gcn") {
                      EXPECT_GT(several.waits, 0);
                    }
                  });
      }
    }
  }
}

// More groups than rows leave some empty.
TEST(Ranges, MayBeEmpty) {
  const ModelConfig config = model_of("gat", Norm::kBatch);
  EXPECT_TRUE(same_bits(trained_on(2, config, 200), trained_on(2, config, 1)));
  EXPECT_TRUE(same_bits(trained_on(1, config, 3), trained_on(1, config, 1)));
}

TEST(Groups, OfRanksRunAProgramEach) {
  constexpr int kRanks = 2;
  const Csr csr = random_graph(kGraphNodes, 4, /*directed=*/false, /*weighted=*/false, 5);
  const EdgeArrays arrays = make_edge_arrays(csr);
  const std::vector<std::int32_t> part_of = scattered_parts(kGraphNodes, kRanks);
  const GraphView graph = arrays.on(csr, true);
  LocalGraphBuilder builder(graph, part_of, kRanks);
  const std::vector<LocalGraph> parts = {builder.build(0), builder.build(1)};
  // Two models at once, each on a group of its own.
  const std::vector<ModelConfig> models = {model_of("gcn", Norm::kBatch),
                                           model_of("gatv2", Norm::kLayer)};
  std::vector<std::vector<float>> found(models.size());
  std::mutex mutex;
  run_local_ranks(2 * kRanks, 30, [&](Transport& transport) {
    const auto group = static_cast<std::size_t>(transport.rank() % 2);
    const std::unique_ptr<Transport> own =
        transport.split(static_cast<int>(group), fmt::format("job {}", group));
    ASSERT_EQ(own->size(), kRanks);
    const LocalGraph& part = parts[static_cast<std::size_t>(own->rank())];
    std::vector<float> values = trained(*own, part.view(), models[group], 1);
    const std::lock_guard lock(mutex);
    if (own->rank() == 0) found[group] = std::move(values);
  });
  for (std::size_t group = 0; group < models.size(); ++group) {
    EXPECT_TRUE(same_bits(found[group], trained_on(kRanks, models[group], 1))) << group;
  }
}

TEST(RankMap, SaysWhoHoldsWhat) {
  const RankMap one(5);
  EXPECT_EQ(one.ranks(), 5);
  EXPECT_EQ(one.part_of(3), 3);
  EXPECT_EQ(one.role_of(3), 0);
  EXPECT_EQ(one.share(3, {2, 9}).size(), 7);
  const RankMap shared(2, 3);
  EXPECT_EQ(shared.ranks(), 6);
  EXPECT_EQ(shared.part_of(4), 1);
  EXPECT_EQ(shared.role_of(4), 1);
  EXPECT_EQ(shared.rank_of(1, 1), 4);
  std::int64_t next = 10;
  for (int role = 0; role < 3; ++role) {
    const RowRange share = shared.share(shared.rank_of(1, role), {10, 21});
    EXPECT_EQ(share.begin, next);
    next = share.end;
  }
  EXPECT_EQ(next, 21);
}

// Each part is on two ranks. Those of one role exchange halo rows; those of one part compute half
// of its rows each, and give them to each other.
TEST(RankMap, RanksOfAPartShareTheWorkOnItsRows) {
  const RankMap ranks(2, 2);
  constexpr std::int64_t kColumns = 8;
  const Csr csr = random_graph(kGraphNodes, 4, /*directed=*/true, /*weighted=*/true, 5);
  const EdgeArrays arrays = make_edge_arrays(csr);
  const std::vector<std::int32_t> part_of = scattered_parts(kGraphNodes, ranks.parts());
  const GraphView graph = arrays.on(csr, false);
  LocalGraphBuilder builder(graph, part_of, ranks.parts());
  const std::vector<LocalGraph> parts = {builder.build(0), builder.build(1)};
  run_local_ranks(ranks.ranks(), 30, [&](Transport& transport) {
    const int part = ranks.part_of(transport.rank());
    const int role = ranks.role_of(transport.rank());
    const auto of_role = transport.split(role, fmt::format("role {}", role));
    const auto of_part = transport.split(part, fmt::format("part {}", part));
    const LocalGraphView local = parts[static_cast<std::size_t>(part)].view();
    TestRank rank(*of_role, local, "cpu");
    const GraphOperators operators(*rank.backend, *rank.queue, local, Normalisation::kSymmetric);
    const DistributedOperator& by = operators.forward();
    const auto x = std::make_shared<Tensor>(*rank.backend, by.with_halo(), kColumns, DType::kF32);
    for (std::int64_t i = 0; i < by.inner(); ++i) {
      const std::int64_t id = to_index(local.inner_ids[static_cast<std::size_t>(i)]);
      for (std::int64_t c = 0; c < kColumns; ++c) {
        x->view().row<float>(i)[c] = std::cos(static_cast<float>(5 * id + c));
      }
    }
    rank.exchange->keep_alive(x);
    rank.exchange->begin(by, x->view(), {}, {})->finish();
    const auto product = [&](RowRange rows, MatrixView y) {
      rank.backend->run(*rank.queue, kernels::Spmm{by.matrix, rows, x->view(), 0, y});
    };
    Tensor whole(*rank.backend, by.inner(), kColumns, DType::kF32);
    product({0, by.inner()}, whole.view());

    Tensor shared(*rank.backend, by.inner(), kColumns, DType::kF32);
    product(ranks.share(transport.rank(), {0, by.inner()}), shared.view());
    const auto bytes_of_share = [&](int of_role_number) {
      const RowRange share = ranks.share(ranks.rank_of(part, of_role_number), {0, by.inner()});
      return std::span(reinterpret_cast<std::byte*>(shared.view().row<float>(share.begin)),
                       static_cast<std::size_t>(share.size() * kColumns) * sizeof(float));
    };
    const int other = 1 - role;
    std::vector<std::span<const std::byte>> sends(2);
    std::vector<std::span<std::byte>> receives(2);
    sends[static_cast<std::size_t>(other)] = bytes_of_share(role);
    receives[static_cast<std::size_t>(other)] = bytes_of_share(other);
    of_part->all_to_all_v(sends, receives, {"rows of a part"}, nullptr)->wait_all();
    EXPECT_EQ(std::memcmp(shared.view().data, whole.view().data,
                          static_cast<std::size_t>(by.inner() * kColumns) * sizeof(float)),
              0)
        << "rank " << transport.rank();
  });
}

}  // namespace
}  // namespace atl
