// The work counted for a program is what its backend counts while it runs.
#include "engine/program/work.hpp"

#include <gtest/gtest.h>

#include <map>

#include "engine/models/model.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/fuse.hpp"
#include "engine/program/network.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/test_rank.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

struct CountedWork {
  double flops = 0;
  double bytes = 0;
  double no_reuse_bytes = 0;

  void add(const SpanWork& work) {
    flops += work.flops;
    bytes += work.bytes;
    no_reuse_bytes += work.no_reuse_bytes;
  }
};
using WorkByName = std::map<std::string, CountedWork>;

// Kernels by name, as a program asks for them.
class CountsByName final : public kernels::TakesEach<CountsByName, Requests> {
 public:
  template <typename Kernel>
  void each(const Kernel& kernel) {
    counts[kernels::name_of(kernel)].add(kernel.work(/*host_readable=*/false));
  }
  void take_work(RankWork work, const Views& views) override {
    if (work == RankWork::kLoss) counts["softmax_cross_entropy"].add(work_of(work, views));
    if (work == RankWork::kStep) counts["adam_step"].add(work_of(work, views));
  }
  void take_own(const OwnKernel& kernel, const Views& /*views*/) override {
    counts[kernel.name].add(kernel.work);
  }
  WorkByName counts;
};

// Compares what was asked for with what has run; at least so many kernels.
void expect_found(const WorkByName& expected, const TraceRecorder& recorder, std::size_t least) {
  WorkByName found;
  for (const TraceSpan& span : recorder.spans()) {
    std::string name = span.name;
    // Copies of weights in another type belong to the step.
    if (name == "convert" && !expected.contains(name)) name = "adam_step";
    if (expected.contains(name)) found[name].add(span.work);
  }
  ASSERT_GE(found.size(), least);
  for (const auto& [name, counted] : expected) {
    EXPECT_EQ(counted.flops, found[name].flops) << name;
    EXPECT_EQ(counted.bytes, found[name].bytes) << name;
    EXPECT_EQ(counted.no_reuse_bytes, found[name].no_reuse_bytes) << name;
  }
}

// Counts one epoch of write(config, pass) both ways on every rank and compares them.
void compare_epoch(const ModelConfig& config, int parts, bool weighted,
                   Program (*write)(const ModelConfig&, Pass) = model_program) {
  const Csr csr = random_graph(70, 4, /*directed=*/false, weighted, 5);
  const EdgeArrays arrays = make_edge_arrays(csr);
  run_parts(arrays.on(csr, true), parts, [&](Transport& transport, const LocalGraphView& local) {
    TestRank rank(transport, local, "reference");
    Tensor features(*rank.backend, local.inner(), config.features, config.dtype);
    std::vector<std::int32_t> labels(static_cast<std::size_t>(local.inner()), 0);
    std::vector<LocalId> rows = {static_cast<LocalId>(0)};
    LossTargets targets;
    targets.labels = labels;
    targets.rows = rows;
    Network network(write(config, Pass::kTraining), write(config, Pass::kEvaluation),
                    {.dtype = config.dtype, .recomputation = config.recomputation}, rank.self,
                    local, features.view());
    rank.exchange->keep_alive(network.memory());
    network.allocate();
    Loss loss(*rank.backend, targets, parts);
    Optimizer optimizer({}, network.parameters(), *rank.backend);
    EpochState state = optimizer.state_of(1);
    const Round round{.epoch = 1, .state = &state};

    TraceRecorder recorder;
    rank.backend->profile_into(&recorder, rank.queue.get());
    network.run_forward(*rank.exchange, round);
    network.run_backward(*rank.exchange, round, loss);
    network.run_step(round, optimizer);
    rank.backend->profile_into(nullptr, nullptr);

    CountsByName expected;
    const Schedule& schedule = network.training_schedule();
    const auto views = counted_views(network.training(), network.shape(), config.dtype);
    for (const auto* blocks : {&schedule.prologue, &schedule.blocks}) {
      for (const Block& block : *blocks) {
        for (const Call& call : block.calls) {
          lower(*views, call, expected);
        }
      }
    }
    // How many edges leave halo rows is not known from counts.
    if (parts > 1) {
      std::erase_if(expected.counts, [&](const auto& entry) {
        return entry.first.ends_with("_sources") ||
               (config.kind == "rgcn" && entry.first == "spmm");
      });
    }
    // Asked for by messages, too, and by the small sums of composed weights, which are not counted.
    for (const char* name : {"gather_rows", "fill_zero", "convert"}) expected.counts.erase(name);
    if (config.edge_scores) {
      for (const char* name : {"head_dots", "head_dots_backward"}) expected.counts.erase(name);
    }
    SCOPED_TRACE(fmt::format("{} ranks", parts));
    // mlp has no sparse product, sgc no activation.
    expect_found(expected.counts, recorder, config.kind == "mlp" || config.kind == "sgc" ? 5U : 6U);
  });
}

// Pairs of a ring: each node and the next.
void compare_pairs(const ModelConfig& config) {
  const Csr csr = random_graph(70, 4, /*directed=*/false, /*weighted=*/false, 5);
  const EdgeArrays arrays = make_edge_arrays(csr);
  run_parts(arrays.on(csr, true), 1, [&](Transport& transport, const LocalGraphView& local) {
    TestRank rank(transport, local, "reference");
    const std::int64_t count = local.inner();
    const Program program = pair_program(config, Pass::kTraining);
    ParameterStore store(config.dtype);
    for (const DeclaredParameter& p : program.parameters) store.declare(p);
    store.allocate(*rank.backend, *rank.queue, 1);
    Network scorer(program, pair_program(config, Pass::kEvaluation), {.dtype = config.dtype},
                   rank.self, store, count, {count, count});
    scorer.allocate();

    std::vector<LocalId> first, second, pair_of, other_end;
    std::vector<std::int64_t> row_ptr{0};
    std::vector<std::int32_t> columns;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t before = (i + count - 1) % count;
      first.push_back(LocalId(i));
      second.push_back(LocalId((i + 1) % count));
      pair_of.insert(pair_of.end(), {LocalId(i), LocalId(before)});
      other_end.insert(other_end.end(), {second.back(), LocalId(before)});
      row_ptr.push_back(2 * (i + 1));
    }
    for (std::int32_t k = 0; k < 2 * count; ++k) {
      columns.push_back(config.decoder == Decoder::kMlp ? k : to_index(other_end[k]));
    }
    Tensor rows(*rank.backend, count, config.outputs, config.dtype);
    Tensor gradient(*rank.backend, count, config.outputs, config.dtype);
    rank.backend->run(*rank.queue, kernels::FillZero{rows.view()});
    rank.backend->run(*rank.queue, kernels::FillZero{gradient.view()});
    PairViews pairs{.rows = rows.view(),
                    .first = first,
                    .second = second,
                    .ids = local.inner_ids,
                    .pair_of = pair_of,
                    .other_end = other_end};
    pairs.inner.ends.rows = count;
    pairs.inner.ends.row_ptr = row_ptr;
    pairs.inner.ends.col_idx = columns;
    pairs.inner.adds = true;
    pairs.inner.gradient = gradient.view();
    LossTargets targets;
    const std::vector<std::uint8_t> wanted(first.size(), 1);
    targets.kind = LabelKind::kSeveral;
    targets.multi_labels = wanted;
    targets.rows = first;
    Loss loss(*rank.backend, targets, 1);

    TraceRecorder recorder;
    rank.backend->profile_into(&recorder, rank.queue.get());
    scorer.run_pairs(pairs, {.epoch = 1}, &loss);
    rank.backend->profile_into(nullptr, nullptr);
    CountsByName expected;
    const auto views = counted_views(scorer.training(), scorer.shape(), config.dtype);
    for (const Block& block : scorer.training_schedule().blocks) {
      for (const Call& call : block.calls) {
        lower(*views, call, expected);
      }
    }
    expected.counts.erase("softmax_cross_entropy");
    expect_found(expected.counts, recorder, 3);
  });
}

// Operations that the models of the table do not have.
Program other_operations(const ModelConfig& config, Pass pass) {
  Builder b(pass, config.features, {}, 0);
  b.begin_layer();
  const Value product = b.linear(b.input(), b.weight("weight", b.input(), config.outputs));
  const Value biased = b.bias(b.aggregate(Normalisation::kMean, product));
  const Value x = b.activate(biased, ActivationFunction::kGelu, 0.5);
  const Value scaled = b.scale(x, b.scalar("epsilon", Initialisation::kOnes));
  const Value logits = b.maximum(b.activate(scaled, ActivationFunction::kElu, 0), x);
  b.end_layer(logits);
  Program program = b.finish(logits, x);
  if (pass == Pass::kTraining) differentiate(program);
  fuse(program);
  return program;
}

TEST(Work, OfOtherOperationsIsWhatABackendCounts) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    ModelConfig config;
    config.features = 6;
    config.outputs = 4;
    config.dtype = dtype;
    for (const int parts : {1, 3}) compare_epoch(config, parts, false, other_operations);
  }
}

TEST(Work, OfPairsIsWhatABackendCounts) {
  for (const Decoder decoder : {Decoder::kDot, Decoder::kMlp}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      ModelConfig config;
      config.decoder = decoder;
      config.decoder_dropout = 0.5;
      config.layers = 1;
      config.features = 6;
      config.outputs = 6;
      config.dtype = dtype;
      compare_pairs(config);
    }
  }
}

TEST(Work, OfALayerPerTypeIsWhatABackendCounts) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    ModelConfig config;
    config.kind = "sage";
    config.input_layer = InputLayerChoice::kTyped;
    config.node_types = EdgeArrays::kNodeTypes;
    config.hidden = 10;
    config.features = 6;
    config.outputs = 4;
    config.dtype = dtype;
    for (const int parts : {1, 3}) compare_epoch(config, parts, false);
  }
}

TEST(Work, OfPoolingIsWhatABackendCounts) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const Aggregator aggregator : {Aggregator::kMax, Aggregator::kPower}) {
      ModelConfig config;
      config.kind = "sage";
      config.aggregator = aggregator;
      config.learns_aggregator = aggregator == Aggregator::kPower;
      config.hidden = 10;
      config.features = 6;
      config.outputs = 4;
      config.dtype = dtype;
      for (const int parts : {1, 3}) compare_epoch(config, parts, false);
    }
  }
}

TEST(Work, IsWhatABackendCounts) {
  for (const std::string& kind : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      for (const OrderChoice order : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
        for (const DType dtype : {DType::kF32, DType::kBf16}) {
          for (const int parts : {1, 3}) {
            SCOPED_TRACE(fmt::format("{}, norm {}, {}", kind, to_string(norm), to_string(dtype)));
            ModelConfig config;
            config.kind = kind;
            config.relations = EdgeArrays::kTypes;
            config.edge_features = EdgeArrays::kColumns;
            config.hidden = 10;
            config.features = 6;
            config.outputs = 4;
            config.norm = norm;
            config.edge_scores = kind.starts_with("gat") && norm == Norm::kLayer;
            config.order = order;
            config.dtype = dtype;
            const bool weighted = parts == 3;
            compare_epoch(config, parts, weighted);
            if (parts == 1 || order == OrderChoice::kMultiplyFirst) continue;
            if (!can_recompute(config)) continue;
            config.recomputation = Recomputation::of_all_pairs(parts);
            compare_epoch(config, parts, weighted);
            config.algebra = {{MultiplyOrder::kAggregateFirst, true},
                              {MultiplyOrder::kMultiplyFirst, false},
                              {MultiplyOrder::kMultiplyFirst, false}};
            compare_epoch(config, parts, weighted);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace atl
