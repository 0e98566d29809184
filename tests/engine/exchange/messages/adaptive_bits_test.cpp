// Adaptive widths in a whole exchange: what is measured, what is assigned and what that depends on.
#include <algorithm>
#include <numeric>

#include "engine/exchange/messages/message_layout.hpp"
#include "tests/engine/exchange/messages/adaptive_setup.hpp"
#include "tests/engine/exchange/messages/dense_alpha.hpp"
#include "tests/engine/exchange/messages/message_bytes.hpp"
#include "tests/support/require_device.hpp"

namespace atl {
namespace {

constexpr int kWarmup[] = {4, 32, 1, 32, 8};  // epochs before the first assignment

// The widths of every message as the states of the ranks hold them.
class Widths {
 public:
  Widths(const Exchanged& run, int parts, Direction direction) {
    const auto count = static_cast<std::size_t>(parts);
    const std::vector<std::int32_t> part_of = scattered_parts(kNodes, parts);
    links_.resize(count, std::vector<MessageBits>(count));
    nodes_.resize(count, std::vector<std::vector<std::int64_t>>(count));
    for (std::size_t to = 0; to < count; ++to) {
      for (const GlobalId id : run.halo_ids[place(direction)][to]) {
        const auto from = static_cast<std::size_t>(part_of[static_cast<std::size_t>(to_index(id))]);
        nodes_[from][to].push_back(to_index(id));
      }
    }
    for (std::size_t from = 0; from < count; ++from) {
      const Json state = Json::parse(run.states[from]);
      const Json& channel = state.at("channels").at(place(direction));
      const auto digits = channel.at("bits").get<std::string>();
      auto digit = digits.begin();
      for (std::size_t to = 0; to < count; ++to) {
        for (std::size_t k = 0; k < nodes_[from][to].size(); ++k, ++digit) {
          links_[from][to].push_back(
              static_cast<std::uint8_t>(kWireBits[static_cast<std::size_t>(*digit - '0')]));
        }
      }
      EXPECT_EQ(digit, digits.end());
    }
  }

  const MessageBits& of(int from, int to) const { return links_[from][to]; }
  const std::vector<std::int64_t>& nodes(int from, int to) const { return nodes_[from][to]; }
  double mean(int from, int to) const {
    const MessageBits& bits = of(from, to);
    return std::accumulate(bits.begin(), bits.end(), 0.0) / static_cast<double>(bits.size());
  }
  bool all(int bits) const {
    for (const auto& row : links_) {
      for (const MessageBits& link : row) {
        if (!std::ranges::all_of(link, [&](int b) { return b == bits; })) return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::vector<MessageBits>> links_;
  std::vector<std::vector<std::vector<std::int64_t>>> nodes_;
};

class AdaptiveOnBackends : public AdaptiveBitsTest,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { require_backend(GetParam()); }
};

// 1 us per byte: exact messages of one direction take milliseconds.
TEST_P(AdaptiveOnBackends, SlowLinksGetFewBitsAndTheBytesAreThoseOfTheReport) {
  ExchangeSetup setup = adaptive_setup(3, calibration(3, 1e-6), 12);
  setup.backend = GetParam();
  const Exchanged run = exchanged(graph(), setup);
  for (int epoch = 1; epoch <= 12; ++epoch) {
    const ExchangedEpoch& seen = run.epochs[epoch - 1];
    const bool news = epoch <= 6 || epoch == 9 || epoch == 12;
    ASSERT_EQ(seen.report.has_value(), news) << epoch;
    if (epoch <= 5) {
      EXPECT_EQ(seen.report->mean_bits, kWarmup[epoch - 1]);
      continue;
    }
    if (!news) continue;
    EXPECT_LT(seen.report->mean_bits, 16);
    ASSERT_TRUE(seen.report->choice);
    EXPECT_GE(seen.report->choice->solver_ms, 0);
    EXPECT_LT(seen.report->choice->gap, 0.05);
    for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
      const ExchangeReport::Messages& messages = seen.report->channels.at(d);
      std::int64_t formula = 0;
      for (std::size_t w = 0; w < kWireBits.size(); ++w) {
        formula += messages.rows_of_width[w] * wire_row_bytes(kWireBits[w], 24, DType::kF32);
      }
      EXPECT_EQ(messages.bytes, formula);
      for (int later = epoch; later <= std::min(epoch + 2, 12); ++later) {
        EXPECT_EQ(run.epochs[later - 1].channels[d].bytes, formula) << later;
      }
      EXPECT_LT(formula, run.messages[d] * 48) << "half of exact";
    }
  }
  // Assigned again with what had changed meanwhile.
  EXPECT_NE(run.epochs[5].report->channels.at(0).rows_of_width,
            run.epochs[11].report->channels.at(0).rows_of_width);
}

INSTANTIATE_TEST_SUITE_P(Backends, AdaptiveOnBackends,
                         ::testing::Values("reference", "cpu", "cuda"),
                         [](const auto& test) { return test.param; });

TEST_F(AdaptiveBitsTest, ExpectedTimesAreThoseOfTheSlowestLink) {
  const double theta = 1e-6;
  // The state after epoch 9 holds the widths assigned then; epoch 10 reports them.
  Exchanged run = exchanged(graph(), adaptive_setup(3, calibration(3, theta), 9));
  const std::optional<ExchangeReport> report =
      exchanged(graph(), adaptive_setup(3, calibration(3, theta), 9 + 3)).epochs[8].report;
  ASSERT_TRUE(report && report->choice);
  run = exchanged(graph(), adaptive_setup(3, calibration(3, theta), 8));
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const Widths widths(run, 3, direction);
    double slowest = 0;
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        if (from == to) continue;
        const auto bytes = static_cast<double>(message_bytes(widths.of(from, to), 24, DType::kF32));
        slowest = std::max(slowest, bytes * theta + 1e-4);
      }
    }
    const int slot = report->channels.at(place(direction)).channel.slot();
    const ExchangeReport::Choice::Times& times = report->choice->channels.at(slot);
    EXPECT_NEAR(times.wire_ms, slowest * 1000, 1e-9);
    EXPECT_EQ(times.central_ms, 0);
  }
}

TEST_F(AdaptiveBitsTest, ASlowLinkGetsFewerBitsThanFastOnes) {
  const Json slow = calibration(3, 1e-8, {{1, 2, 1e-6}});
  const Exchanged run = exchanged(graph(), adaptive_setup(3, slow, 5));
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const Widths widths(run, 3, direction);
    EXPECT_LT(widths.mean(1, 2), 16);
    for (const auto& [from, to] : {std::pair(0, 1), {0, 2}, {1, 0}, {2, 0}, {2, 1}}) {
      EXPECT_EQ(widths.mean(from, to), 32) << from << " to " << to;
    }
  }
}

TEST_F(AdaptiveBitsTest, WhatNobodyWaitsForTravelsExactly) {
  const Json fast = calibration(2, 1e-15);
  const Json hidden = calibration(2, 1e-6, {}, /*central_s=*/10);
  for (const Json& given : {fast, hidden}) {
    const Exchanged run = exchanged(graph(), adaptive_setup(2, given, 7));
    EXPECT_TRUE(Widths(run, 2, Direction::kForward).all(32));
    EXPECT_TRUE(Widths(run, 2, Direction::kBackward).all(32));
    EXPECT_EQ(run.epochs[5].report->mean_bits, 32);
    ExchangeSetup exact = adaptive_setup(2, nullptr, 7);
    exact.exchange = {};
    EXPECT_TRUE(same_halo(run.epochs[6], exchanged(graph(), exact).epochs[6]));
  }
}

TEST_F(AdaptiveBitsTest, LambdaGoesFromTimeAloneToVarianceAlone) {
  ExchangeSetup setup = adaptive_setup(2, calibration(2, 1e-6, {{1, 0, 1e-5}}), 5);
  setup.exchange.message_bits.lambda = 0;
  const Exchanged least = exchanged(graph(), setup);
  setup.exchange.message_bits.lambda = 1;
  const Exchanged most = exchanged(graph(), setup);
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    // The slowest link decides the time; what the other has left costs none.
    EXPECT_EQ(Widths(least, 2, direction).mean(1, 0), 1);
    EXPECT_GT(Widths(least, 2, direction).mean(0, 1), 1);
    EXPECT_TRUE(Widths(most, 2, direction).all(32));
  }
}

// On one link the message with the larger beta has the wider or an equal width; beta computed here
// from the dense coefficients and the rows of the last epoch.
TEST_F(AdaptiveBitsTest, WidthsFollowSensitivityTimesRange) {
  for (const Sensitivity sensitivity : {Sensitivity::kVariance, Sensitivity::kUpperBound}) {
    ExchangeSetup setup = adaptive_setup(3, calibration(3, 1e-6), 5);
    setup.exchange.message_bits.sensitivity = sensitivity;
    const Exchanged run = exchanged(graph(), setup);
    const std::vector<std::int32_t> part_of = scattered_parts(kNodes, 3);
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const Widths widths(run, 3, direction);
      const std::vector<double> alpha = dense_alpha(csr(), setup.normalisation, direction);
      const auto beta = [&](std::int64_t node, int to) {
        float least = std::numeric_limits<float>::infinity();
        float most = -least;
        for (std::int64_t f = 0; f < setup.columns; ++f) {
          const float value = drifting(node, f, 5) * run.scale[place(direction)][node];
          least = std::min(least, value);
          most = std::max(most, value);
        }
        double squares = 0;
        double sum = 0;
        for (std::int64_t i = 0; i < kNodes; ++i) {
          if (part_of[i] != to) continue;
          squares += alpha[i * kNodes + node] * alpha[i * kNodes + node];
          sum += std::abs(alpha[i * kNodes + node]);
        }
        const double range = static_cast<double>(most) - least;
        return range * range * (sensitivity == Sensitivity::kVariance ? squares : sum * sum);
      };
      int pairs = 0;
      for (int from = 0; from < 3; ++from) {
        for (int to = 0; to < 3; ++to) {
          const MessageBits& bits = widths.of(from, to);
          for (std::size_t a = 0; a < bits.size(); ++a) {
            for (std::size_t b = 0; b < bits.size(); ++b) {
              // zero is rounded down to bf16, which moves a range by a percent or so.
              if (beta(widths.nodes(from, to)[a], to) <
                  1.05 * beta(widths.nodes(from, to)[b], to)) {
                continue;
              }
              EXPECT_GE(bits[a], bits[b]) << from << " to " << to;
              pairs += bits[a] > bits[b];
            }
          }
        }
      }
      EXPECT_GT(pairs, 100);
    }
  }
}

// Parts that exchange nothing, in one direction or at all, take part in every agreement.
TEST(AdaptiveBits, RanksWithoutMessagesTakePart) {
  const std::vector<std::int32_t> part_of = scattered_parts(60, 4);
  Csr csr;
  csr.row_ptr = {0};
  for (std::int32_t i = 0; i < 60; ++i) {
    for (std::int32_t j = 0; j < 60; ++j) {
      if (part_of[i] == 1 && part_of[j] == 0) csr.col_idx.push_back(j);  // only from part 0 to 1
    }
    csr.row_ptr.push_back(std::ssize(csr.col_idx));
  }
  for (const Json& given : {calibration(4, 1e-6), Json(nullptr)}) {
    const Exchanged run = exchanged({csr.view(), false}, adaptive_setup(4, given, 7));
    EXPECT_GT(run.messages[0], 10);
    EXPECT_GT(run.epochs[6].channels[0].bytes, 0);
    for (const std::vector<float>& rows : run.epochs[6].channels[0].halo) {
      for (const float value : rows) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

// Ranges whose squares are beyond f32 still get widths.
TEST_F(AdaptiveBitsTest, AssignsWidthsToHugeRows) {
  ExchangeSetup setup = adaptive_setup(2, calibration(2, 1e-6), 7);
  setup.value = [](std::int64_t node, std::int64_t column, int epoch) {
    return 1e30F * drifting(node, column, epoch);
  };
  const Exchanged huge = exchanged(graph(), setup);
  EXPECT_LT(huge.epochs[5].report->mean_bits, 32);
  EXPECT_LT(huge.epochs[5].report->choice->gap, 0.05);
}

}  // namespace
}  // namespace atl
