// Aggregates over messages of a cover against those over rows.
#include <gtest/gtest.h>

#include "partition/message_cover.hpp"
#include "tests/engine/exchange/exchanged_rows.hpp"
#include "tests/support/require_device.hpp"

namespace atl {
namespace {

struct CoverCase {
  std::string backend;
  Normalisation normalisation;
  bool directed;
  bool weighted;
  int parts;
};

constexpr std::int64_t kAggregatedColumns = 13;

struct Aggregates {
  std::vector<float> values[2];  // by Direction and node, row after row
  std::int64_t messages = 0;     // sent, of both directions
  std::int64_t sums = 0;         // of these
};

Aggregates aggregates(const Csr& csr, const CoverCase& setup, bool covers,
                      const ExchangeOptions& mode, DType dtype) {
  Aggregates result;
  for (auto& values : result.values) {
    values.resize(static_cast<std::size_t>(csr.view().rows() * kAggregatedColumns));
  }
  std::mutex mutex;
  run_parts(
      {csr.view(), !setup.directed}, setup.parts,
      [&](Transport& transport, const LocalGraphView& local) {
        TestRank rank(transport, local, setup.backend);
        const CoveredGraph covered(local);
        const GraphOperators operators(*rank.backend, *rank.queue, covers ? covered.view() : local,
                                       setup.normalisation);
        const auto exchange = make_exchange(mode, rank.self);
        for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
          const DistributedOperator& op =
              direction == Direction::kForward ? operators.forward() : operators.backward();
          const auto x =
              std::make_shared<Tensor>(*rank.backend, op.with_halo(), kAggregatedColumns, dtype);
          // Rows that no exchange writes make the sums NaN.
          std::vector<float> rows(static_cast<std::size_t>(op.with_halo() * kAggregatedColumns),
                                  std::numeric_limits<float>::quiet_NaN());
          for (std::int64_t i = 0; i < op.inner(); ++i) {
            for (std::int64_t f = 0; f < kAggregatedColumns; ++f) {
              rows[static_cast<std::size_t>(i * kAggregatedColumns + f)] =
                  row_value(to_index(local.inner_ids[static_cast<std::size_t>(i)]), f, 1);
            }
          }
          upload_f32(*rank.backend, *rank.queue, rows, x->view());
          exchange->keep_alive(x);
          exchange
              ->begin(op, x->view(), {.number = 1, .layer = 1, .direction = direction},
                      {.epoch = 1})
              ->finish();
          Tensor y(*rank.backend, op.inner(), kAggregatedColumns, dtype);
          rank.backend->run(*rank.queue,
                            kernels::Spmm{op.matrix, {0, op.inner()}, x->view(), 0, y.view()});
          const std::vector<float> sums = download_f32(*rank.backend, *rank.queue, y.view());
          const std::lock_guard lock(mutex);
          result.messages += op.halo.sent_rows();
          result.sums += op.sums.rows;
          for (std::int64_t i = 0; i < op.inner(); ++i) {
            const std::int64_t node = to_index(local.inner_ids[static_cast<std::size_t>(i)]);
            std::copy_n(sums.begin() + i * kAggregatedColumns, kAggregatedColumns,
                        result.values[place(direction)].begin() + node * kAggregatedColumns);
          }
        }
        rank.reducer.synchronize();
      });
  return result;
}

ExchangeOptions rounded_to(const char* bits) {
  ExchangeOptions options{.mode = "quantized"};
  options.message_bits.bits = parse_bits(bits);
  return options;
}

class CoveredExchange : public ::testing::TestWithParam<CoverCase> {
 protected:
  void SetUp() override { require_backend(GetParam().backend); }
  Csr graph() const { return random_graph(120, 5, GetParam().directed, GetParam().weighted, 17); }
};

TEST_P(CoveredExchange, AggregatesAreThoseOfRowsWithFewerMessages) {
  const Csr csr = graph();
  for (const auto& [dtype, tolerance] : {std::pair(DType::kF32, 2e-6), {DType::kBf16, 0.02}}) {
    const Aggregates by_rows = aggregates(csr, GetParam(), false, {}, dtype);
    const Aggregates by_cover = aggregates(csr, GetParam(), true, {}, dtype);
    EXPECT_EQ(by_rows.sums, 0);
    EXPECT_GT(by_cover.sums, 0);
    EXPECT_LT(by_cover.messages, by_rows.messages);
    for (const std::size_t direction : {0, 1}) {
      double most = 0;
      for (const float value : by_rows.values[direction]) {
        most = std::max(most, std::abs(static_cast<double>(value)));
      }
      for (std::size_t k = 0; k < by_rows.values[direction].size(); ++k) {
        ASSERT_NEAR(by_cover.values[direction][k], by_rows.values[direction][k], tolerance * most);
      }
    }
  }
}

TEST_P(CoveredExchange, QuantizedAt32BitsIsExact) {
  const Csr csr = graph();
  const ExchangeOptions wide = rounded_to("32");
  const Aggregates exact = aggregates(csr, GetParam(), true, {}, DType::kF32);
  const Aggregates rounded = aggregates(csr, GetParam(), true, wide, DType::kF32);
  EXPECT_EQ(exact.values[0], rounded.values[0]);
  EXPECT_EQ(exact.values[1], rounded.values[1]);
}

TEST_P(CoveredExchange, RoundingStaysWithinItsStep) {
  const Csr csr = graph();
  const ExchangeOptions narrow = rounded_to("16");
  const Aggregates exact = aggregates(csr, GetParam(), true, {}, DType::kF32);
  const Aggregates rounded = aggregates(csr, GetParam(), true, narrow, DType::kF32);
  EXPECT_NE(exact.values[0], rounded.values[0]);
  for (const std::size_t direction : {0, 1}) {
    for (std::size_t k = 0; k < exact.values[direction].size(); ++k) {
      ASSERT_NEAR(rounded.values[direction][k], exact.values[direction][k], 0.05);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, CoveredExchange,
    ::testing::Values(CoverCase{"reference", Normalisation::kSymmetric, false, false, 3},
                      CoverCase{"cpu", Normalisation::kSymmetric, true, true, 4},
                      CoverCase{"cpu", Normalisation::kMean, false, false, 2},
                      CoverCase{"cpu", Normalisation::kSum, true, false, 3},
                      CoverCase{"cuda", Normalisation::kSymmetric, false, true, 3},
                      CoverCase{"cuda", Normalisation::kMean, true, false, 2}),
    [](const auto& test) {
      const CoverCase& setup = test.param;
      return setup.backend + "_" + to_string(setup.normalisation) + "_" +
             (setup.directed ? "directed_" : "") + (setup.weighted ? "weighted_" : "") +
             std::to_string(setup.parts);
    });

}  // namespace
}  // namespace atl
