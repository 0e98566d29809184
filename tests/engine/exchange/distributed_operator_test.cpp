#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>

#include "tests/support/random_graph.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/test_rank.hpp"

namespace atl {
namespace {

// Dense S of the whole graph, by the formulas of the papers and nothing else.
std::vector<double> dense_operator(const CsrView& graph, Normalisation normalisation) {
  const std::int64_t n = graph.rows();
  std::vector<double> a(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t e = graph.row_ptr[i]; e < graph.row_ptr[i + 1]; ++e) {
      a[i * n + graph.col_idx[e]] += graph.value(e);
    }
    if (normalisation == Normalisation::kSymmetric && a[i * n + i] == 0) a[i * n + i] = 1;
  }
  std::vector<double> degree(static_cast<std::size_t>(n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) degree[i] += a[i * n + j];
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (a[i * n + j] == 0) continue;
      a[i * n + j] /=
          normalisation == Normalisation::kSymmetric ? std::sqrt(degree[i] * degree[j]) : degree[i];
    }
  }
  return a;
}

double feature(std::int64_t node, std::int64_t column) {
  return std::sin(static_cast<double>(node * 31 + column * 17 + 1));
}

double other_feature(std::int64_t node, std::int64_t column) {
  return std::cos(static_cast<double>(node * 5 + column * 3));
}

struct Case {
  int parts;
  bool directed;
  bool weighted;
  Normalisation normalisation;
  std::string backend;
};

class AggregateTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { require_backend(GetParam().backend); }
};

// Every rank's rows of S x (or S^T x), collected by global id.
std::vector<float> run_aggregate(const GraphView& graph, const Case& c, Direction direction,
                                 bool overlap, std::int64_t columns,
                                 double (*input)(std::int64_t, std::int64_t) = feature,
                                 const ExchangeOptions& exchange = {}, int epoch = 1) {
  std::vector<float> result(static_cast<std::size_t>(graph.nodes() * columns),
                            std::numeric_limits<float>::quiet_NaN());
  std::mutex mutex;
  run_parts(graph, c.parts, [&](Transport& transport, const LocalGraphView& local) {
    TestRank rank(transport, local, c.backend);
    GraphOperators operators(*rank.backend, *rank.queue, local, c.normalisation);
    const DistributedOperator& op =
        direction == Direction::kForward ? operators.forward() : operators.backward();
    auto memory = std::make_shared<std::pair<Tensor, Tensor>>(
        Tensor(*rank.backend, op.with_halo(), columns, DType::kF32),
        Tensor(*rank.backend, op.inner(), columns, DType::kF32));
    rank.exchange = make_exchange(exchange, rank.self);
    rank.exchange->keep_alive(memory);
    const MatrixView x = memory->first.view();
    const MatrixView y = memory->second.view();
    Backend& backend = *rank.backend;
    const std::vector<float> unset(static_cast<std::size_t>(op.with_halo() * columns),
                                   std::numeric_limits<float>::quiet_NaN());
    upload_f32(backend, *rank.queue, unset, x);  // until filled
    const auto fill = [&](RowRange range) {
      std::vector<float> rows;
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        for (std::int64_t f = 0; f < columns; ++f) {
          rows.push_back(static_cast<float>(input(to_index(local.inner_ids[i]), f)));
        }
      }
      upload_f32(backend, *rank.queue, rows, x.rows_in(range));
    };
    // As a program's schedule does it (engine/program/schedule.hpp).
    const auto multiply = [&](RowRange range) {
      backend.run(*rank.queue, kernels::Spmm{op.matrix, range, x, 0, y});
    };
    fill(op.marginal);
    const auto pending = rank.exchange->begin(op, x, {.direction = direction}, {.epoch = epoch});
    if (!overlap) pending->finish();
    fill(op.central);
    multiply(op.central);
    pending->finish();
    multiply(op.marginal);
    rank.reducer.synchronize();
    const std::vector<float> sums = download_f32(backend, *rank.queue, y);
    const std::lock_guard lock(mutex);
    for (std::int64_t i = 0; i < op.inner(); ++i) {
      std::memcpy(&result[to_index(local.inner_ids[i]) * columns], &sums[i * columns],
                  static_cast<std::size_t>(columns) * 4);
    }
  });
  return result;
}

TEST_P(AggregateTest, EqualsDenseProductInBothDirections) {
  const Case& c = GetParam();
  const Csr csr = random_graph(90, 5, c.directed, c.weighted, 11);
  const GraphView graph{csr.view(), !c.directed};
  const std::int64_t n = graph.nodes();
  const std::int64_t columns = 5;
  const std::vector<double> dense = dense_operator(csr.view(), c.normalisation);
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const std::vector<float> result = run_aggregate(graph, c, direction, true, columns);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t f = 0; f < columns; ++f) {
        double expected = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const double s = direction == Direction::kForward ? dense[i * n + j] : dense[j * n + i];
          expected += s * feature(j, f);
        }
        ASSERT_NEAR(result[i * columns + f], expected, 2e-5) << "node " << i << " column " << f;
      }
    }
    // Waiting up front runs the same kernels in the same order: the same bits.
    EXPECT_EQ(result, run_aggregate(graph, c, direction, false, columns));
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int parts : {1, 2, 3, 4, 5}) {
    for (const bool directed : {false, true}) {
      for (const Normalisation norm : {Normalisation::kSymmetric, Normalisation::kMean}) {
        all.push_back({parts, directed, directed, norm, "reference"});
        all.push_back({parts, directed, !directed, norm, "cpu"});
        all.push_back({parts, directed, directed, norm, "cuda"});
      }
    }
  }
  return all;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return c.backend + "_" + std::to_string(c.parts) + "_parts" + (c.directed ? "_directed" : "") +
         (c.weighted ? "_weighted" : "") +
         (c.normalisation == Normalisation::kMean ? "_mean" : "_symmetric");
}

INSTANTIATE_TEST_SUITE_P(All, AggregateTest, ::testing::ValuesIn(cases()), case_name);

// <S x, y> = <x, S^T y> with both sides computed across ranks on a directed graph.
TEST(Aggregate, ForwardAndBackwardAreAdjoint) {
  const Csr csr = random_graph(120, 6, true, true, 3);
  const GraphView graph{csr.view(), false};
  for (const Normalisation norm : {Normalisation::kSymmetric, Normalisation::kMean}) {
    const Case c{4, true, true, norm, "reference"};
    const std::vector<float> sx = run_aggregate(graph, c, Direction::kForward, true, 3);
    const std::vector<float> ty =
        run_aggregate(graph, c, Direction::kBackward, true, 3, other_feature);
    double left = 0;
    double right = 0;
    double scale = 0;
    for (std::int64_t i = 0; i < graph.nodes(); ++i) {
      for (std::int64_t f = 0; f < 3; ++f) {
        left += sx[i * 3 + f] * other_feature(i, f);
        right += feature(i, f) * ty[i * 3 + f];
        scale += std::abs(sx[i * 3 + f] * other_feature(i, f));
      }
    }
    EXPECT_GT(scale, 1);
    EXPECT_NEAR(left, right, 1e-6 * scale);
  }
}

ExchangeOptions two_bits() {
  ExchangeOptions options;
  options.mode = "quantized";
  options.message_bits.bits = parse_bits("2");
  return options;
}

// The same with noise in every message: both means go to the exact number.
TEST(Aggregate, QuantizedMessagesAreAdjointInExpectation) {
  constexpr int kEpochs = 150;
  const Csr csr = random_graph(60, 4, true, true, 3);
  const GraphView graph{csr.view(), false};
  const Case c{3, true, true, Normalisation::kSymmetric, "reference"};
  const auto product = [&](const std::vector<float>& sums, auto other) {
    double result = 0;
    for (std::int64_t i = 0; i < graph.nodes(); ++i) {
      for (std::int64_t f = 0; f < 3; ++f) result += sums[i * 3 + f] * other(i, f);
    }
    return result;
  };
  const auto left_of = [&](const ExchangeOptions& exchange, int epoch) {
    return product(run_aggregate(graph, c, Direction::kForward, true, 3, feature, exchange, epoch),
                   other_feature);
  };
  const auto right_of = [&](const ExchangeOptions& exchange, int epoch) {
    return product(
        run_aggregate(graph, c, Direction::kBackward, true, 3, other_feature, exchange, epoch),
        feature);
  };
  const double exact = left_of({}, 1);
  const auto expect_mean = [&](const auto& sample) {
    double sum = 0;
    double squares = 0;
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      const double difference = sample(two_bits(), epoch) - exact;
      sum += difference;
      squares += difference * difference;
    }
    const double mean = sum / kEpochs;
    const double deviation = std::sqrt((squares / kEpochs - mean * mean) / kEpochs);
    EXPECT_GT(deviation, 1e-3 * std::abs(exact)) << "no noise at all?";
    EXPECT_LT(std::abs(mean), 4.5 * deviation);
  };
  expect_mean(left_of);
  expect_mean(right_of);
}

TEST(Aggregate, OfQuantizedMessagesIsTheSameWithoutOverlap) {
  const Csr csr = random_graph(90, 5, true, true, 11);
  const GraphView graph{csr.view(), false};
  const Case c{4, true, true, Normalisation::kMean, "cpu"};
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const auto sums = [&](bool overlap, const ExchangeOptions& exchange) {
      return run_aggregate(graph, c, direction, overlap, 20, feature, exchange, 3);
    };
    const std::vector<float> overlapped = sums(true, two_bits());
    EXPECT_EQ(overlapped, sums(false, two_bits()));
    EXPECT_NE(overlapped, sums(true, {}));
  }
}

TEST(ExchangeFactory, UnknownModeListsTheValidOnes) {
  run_local_ranks(1, 5, [](Transport& transport) {
    const auto backend = make_backend("reference", {});
    const auto queue = backend->make_queue();
    TraceRecorder trace;
    Reducer reducer(*backend, *queue, transport, nullptr, trace);
    try {
      make_exchange({"smoke-signals"}, {*backend, *queue, transport, nullptr, trace, reducer});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOption);
      EXPECT_NE(std::string(error.what()).find("exact"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace atl
