// Messages of the quantized exchange: what arrives, how many bytes it took, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/exchange/exchanged_rows.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kNodes = 90;

ExchangeOptions quantized(const std::string& bits) {
  ExchangeOptions options;
  options.mode = "quantized";
  options.message_bits.bits = parse_bits(bits);
  return options;
}

Exchanged run_exact(const GraphView& graph, ExchangeSetup setup) {
  setup.exchange = {};
  return exchanged(graph, setup);
}

// The halo rows of a direction as one quantizer gives them that sees all nodes of the graph: no
// ranks, no packets. Indexed like ExchangedChannel::halo.
std::vector<std::vector<float>> quantizer_rows(const Exchanged& run, const ExchangeSetup& setup,
                                               Direction direction, int bits, int epoch) {
  const auto backend = make_backend("reference", {});
  const auto queue = backend->make_queue();
  const std::size_t d = place(direction);
  const auto nodes = static_cast<std::int64_t>(run.scale[d].size());
  std::vector<float> values;
  std::vector<LocalId> rows;
  std::vector<GlobalId> ids;
  std::vector<std::int64_t> first{0};
  std::vector<std::int64_t> offset;
  const std::int64_t row_bytes = wire_row_bytes(bits, setup.columns, setup.dtype);
  for (std::int64_t i = 0; i < nodes; ++i) {
    for (std::int64_t f = 0; f < setup.columns; ++f) values.push_back(setup.value(i, f, epoch));
    rows.push_back(LocalId{static_cast<std::int32_t>(i)});
    ids.push_back(GlobalId{i});
    first.push_back(i + 1);
    offset.push_back(i * row_bytes);
  }
  const std::vector<std::uint8_t> widths(rows.size(), static_cast<std::uint8_t>(bits));
  Tensor x(*backend, nodes, setup.columns, setup.dtype);
  Tensor y(*backend, nodes, setup.columns, setup.dtype);
  upload_f32(*backend, *queue, values, x.view());
  std::vector<std::byte> packets(static_cast<std::size_t>(nodes * row_bytes));
  std::vector<float> range(rows.size());
  std::vector<float> variance(rows.size());
  std::vector<std::int64_t> bad{nodes};
  RoundingSpec rounding;
  rounding.key = {.seed = TestRank::kSeed,
                  .stream = direction == Direction::kForward ? RandomStream::kRoundForward
                                                             : RandomStream::kRoundBackward,
                  .layer = static_cast<std::uint8_t>(setup.channel),
                  .epoch = static_cast<std::uint32_t>(epoch)};
  rounding.row_ids = ids;
  backend->run(*queue, kernels::QuantizeRows{x.view(),
                                             {rows, first, offset, widths},
                                             run.scale[d],
                                             rounding,
                                             packets,
                                             {range, variance, bad}});
  backend->run(*queue, kernels::DequantizeRows{packets, {rows, offset, widths}, y.view()});
  const std::vector<float> all = download_f32(*backend, *queue, y.view());
  std::vector<std::vector<float>> halo;
  for (const std::vector<GlobalId>& received : run.halo_ids[d]) {
    halo.emplace_back();
    for (const GlobalId id : received) {
      const auto begin = all.begin() + to_index(id) * setup.columns;
      halo.back().insert(halo.back().end(), begin, begin + setup.columns);
    }
  }
  return halo;
}

struct QuantizedCase {
  int parts;
  bool directed;
  Normalisation normalisation;
  DType dtype;
  std::string backend;
};

class MessageExchangeTest : public ::testing::TestWithParam<QuantizedCase> {
 protected:
  void SetUp() override { require_backend(GetParam().backend); }
  static ExchangeSetup setup(const std::string& bits) {
    const QuantizedCase& c = GetParam();
    return {.parts = c.parts,
            .backend = c.backend,
            .dtype = c.dtype,
            .columns = 37,  // no multiple of what is processed at once
            .normalisation = c.normalisation,
            .exchange = quantized(bits)};
  }
  GraphView graph() const { return {csr_.view(), !GetParam().directed}; }

 private:
  Csr csr_ = random_graph(kNodes, 5, GetParam().directed, true, 11);
};

TEST_P(MessageExchangeTest, At32BitsEqualsExactBitForBit) {
  const ExchangeSetup setup = this->setup("32");
  const Exchanged run = exchanged(graph(), setup);
  const Exchanged exact = run_exact(graph(), setup);
  EXPECT_TRUE(same_halo(run.epochs[0], exact.epochs[0]));
  for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
    const std::int64_t messages = run.messages[d];
    EXPECT_GT(messages, 20);
    // Exact messages carry the padding of rows.
    EXPECT_EQ(run.epochs[0].channels[d].bytes,
              messages * wire_row_bytes(32, setup.columns, setup.dtype));
    EXPECT_EQ(exact.epochs[0].channels[d].bytes,
              messages * wire_row_bytes(32, padded_columns(setup.columns), setup.dtype));
  }
}

// Whoever receives a row, and in whichever packet it came: the same noise, the same bits.
TEST_P(MessageExchangeTest, BringsWhatTheQuantizerMakesOfEachRow) {
  for (const int bits : {1, 2, 4, 8, 16}) {
    ExchangeSetup setup = this->setup(std::to_string(bits));
    setup.first_epoch = 3;
    setup.last_epoch = 4;
    const Exchanged run = exchanged(graph(), setup);
    EXPECT_FALSE(same_halo(run.epochs[0], run.epochs[1])) << "noise must change with the epoch";
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const std::size_t d = place(direction);
      for (int epoch = 3; epoch <= 4; ++epoch) {
        const ExchangedChannel& channel = run.epochs[epoch - 3].channels[d];
        const auto expected = quantizer_rows(run, setup, direction, bits, epoch);
        EXPECT_TRUE(channel.halo == expected) << bits << " bits, epoch " << epoch;
        EXPECT_EQ(channel.bytes,
                  run.messages[d] * wire_row_bytes(bits, setup.columns, setup.dtype));
      }
    }
  }
}

TEST_P(MessageExchangeTest, ReportsTheWidthsOnce) {
  ExchangeSetup setup = this->setup("4");
  setup.last_epoch = 3;
  const Exchanged run = exchanged(graph(), setup);
  EXPECT_FALSE(run.epochs[1].report);
  EXPECT_FALSE(run.epochs[2].report);
  ASSERT_TRUE(run.epochs[0].report);
  EXPECT_FALSE(run.epochs[0].report->choice);
  const std::vector<ExchangeReport::Messages>& channels = run.epochs[0].report->channels;
  ASSERT_EQ(channels.size(), 2U);
  for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(channels[d].channel,
              (Channel{.number = setup.channel,
                       .layer = setup.layer,
                       .direction = d == 0 ? Direction::kForward : Direction::kBackward}));
    EXPECT_EQ(channels[d].columns, 37);
    EXPECT_EQ(channels[d].rows, run.messages[d]);
    for (std::size_t w = 0; w < kWireBits.size(); ++w) {
      EXPECT_EQ(channels[d].rows_of_width[w], kWireBits[w] == 4 ? run.messages[d] : 0);
    }
    EXPECT_EQ(channels[d].bytes, run.epochs[0].channels[d].bytes);
  }
  EXPECT_EQ(run.epochs[0].report->mean_bits, 4);
}

// The rows of these tests belong to layer 1.
TEST_P(MessageExchangeTest, AListGivesEachLayerItsWidth) {
  const Exchanged listed = exchanged(graph(), setup("8,2,32"));
  EXPECT_TRUE(same_halo(listed.epochs[0], exchanged(graph(), setup("2")).epochs[0]));
  EXPECT_FALSE(same_halo(listed.epochs[0], exchanged(graph(), setup("8")).epochs[0]));
  EXPECT_EQ(listed.epochs[0].report->mean_bits, 2);
}

// Redrawn after epochs 2 and 4; every epoch's counter is what the widths in use add up to.
TEST_P(MessageExchangeTest, RandomWidthsSendTheBytesTheyReport) {
  ExchangeSetup setup = this->setup("random");
  setup.exchange.message_bits.reassign_every = 2;
  setup.last_epoch = 6;
  const Exchanged run = exchanged(graph(), setup);
  for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
    const ExchangeReport::Messages* widths = nullptr;
    for (int epoch = 1; epoch <= 6; ++epoch) {
      const ExchangedEpoch& seen = run.epochs[epoch - 1];
      EXPECT_EQ(!seen.report, epoch % 2 == 0) << epoch;
      if (seen.report) widths = &seen.report->channels.at(d);
      std::int64_t formula = 0;
      std::int64_t rows = 0;
      for (std::size_t w = 0; w < kWireBits.size(); ++w) {
        const int b = kWireBits[w];
        const std::int64_t messages = widths->rows_of_width[w];
        formula += messages * wire_row_bytes(b, setup.columns, setup.dtype);
        rows += messages;
        if (b != 2 && b != 4 && b != 8) {
          EXPECT_EQ(messages, 0) << b;
        } else {
          // A third each: five standard deviations are 0.29 of that for 60 messages.
          const double third = static_cast<double>(run.messages[d]) / 3;
          EXPECT_NEAR(static_cast<double>(messages), third, 5 * std::sqrt(2 * third / 3)) << b;
        }
      }
      EXPECT_EQ(rows, run.messages[d]);
      EXPECT_EQ(widths->bytes, formula);
      // The first exchange of a channel also agrees on widths.
      if (epoch > 1) {
        EXPECT_EQ(seen.channels[d].bytes, formula) << epoch;
      }
    }
  }
  // The same again, and a run that begins in the middle finds the widths that held there.
  const Exchanged again = exchanged(graph(), setup);
  setup.first_epoch = 4;
  const Exchanged resumed = exchanged(graph(), setup);
  for (int epoch = 1; epoch <= 6; ++epoch) {
    EXPECT_TRUE(same_halo(run.epochs[epoch - 1], again.epochs[epoch - 1])) << epoch;
    if (epoch >= 4) {
      EXPECT_TRUE(same_halo(run.epochs[epoch - 1], resumed.epochs[epoch - 4])) << epoch;
    }
  }
}

TEST_P(MessageExchangeTest, ConstantChannelsTravelExactly) {
  ExchangeSetup setup = this->setup("1");
  setup.constant = true;
  const Exchanged run = exchanged(graph(), setup);
  EXPECT_TRUE(same_halo(run.epochs[0], run_exact(graph(), setup).epochs[0]));
  EXPECT_FALSE(run.epochs[0].report);
}

std::vector<QuantizedCase> quantized_cases() {
  std::vector<QuantizedCase> all;
  const auto add = [&](int parts, bool directed, Normalisation norm, DType dtype) {
    for (const char* backend : {"reference", "cpu", "cuda"}) {
      all.push_back({parts, directed, norm, dtype, backend});
    }
  };
  add(2, false, Normalisation::kSymmetric, DType::kF32);
  add(3, true, Normalisation::kMean, DType::kF32);
  add(4, true, Normalisation::kSymmetric, DType::kBf16);
  add(5, false, Normalisation::kMean, DType::kF32);
  return all;
}

std::string quantized_case_name(const ::testing::TestParamInfo<QuantizedCase>& info) {
  const QuantizedCase& c = info.param;
  return c.backend + "_" + std::to_string(c.parts) + "_parts" + (c.directed ? "_directed" : "") +
         (c.normalisation == Normalisation::kMean ? "_mean" : "_symmetric") +
         (c.dtype == DType::kBf16 ? "_bf16" : "_f32");
}

INSTANTIATE_TEST_SUITE_P(All, MessageExchangeTest, ::testing::ValuesIn(quantized_cases()),
                         quantized_case_name);

// The mean of what arrives goes to what was sent. Errors are counted in steps of the row; rows that
// several ranks receive share their noise and count once.
TEST(MessageExchange, IsUnbiasedInBothDirections) {
  constexpr int kEpochs = 600;
  const Csr csr = random_graph(60, 4, true, true, 5);
  const GraphView graph{csr.view(), false};
  for (const int bits : {1, 2, 4, 8}) {
    ExchangeSetup setup{.parts = 3, .columns = 8, .exchange = quantized(std::to_string(bits))};
    setup.last_epoch = kEpochs;
    const Exchanged run = exchanged(graph, setup);
    setup.last_epoch = 1;
    const Exchanged exact = run_exact(graph, setup);
    const double levels = std::exp2(bits) - 1;
    for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
      std::vector<bool> counted(static_cast<std::size_t>(graph.nodes()), false);
      double sum = 0;
      int values = 0;
      double worst = 0;
      for (std::size_t receiver = 0; receiver < 3; ++receiver) {
        const std::vector<float>& sent = exact.epochs[0].channels[d].halo[receiver];
        for (std::size_t k = 0; k < run.halo_ids[d][receiver].size(); ++k) {
          const auto node = static_cast<std::size_t>(to_index(run.halo_ids[d][receiver][k]));
          if (counted[node]) continue;
          counted[node] = true;
          const auto row = sent.begin() + static_cast<std::ptrdiff_t>(8 * k);
          const auto [least, most] = std::minmax_element(row, row + 8);
          const double step = (*most - *least) / levels;
          for (std::size_t f = 0; f < 8; ++f) {
            double error = 0;
            for (const ExchangedEpoch& epoch : run.epochs) {
              error += epoch.channels[d].halo[receiver][8 * k + f] - row[static_cast<int>(f)];
            }
            sum += error / step / kEpochs;
            ++values;
            worst = std::max(worst, std::abs(error) / step / kEpochs);
          }
        }
      }
      ASSERT_GT(values, 150);
      // A value's standard deviation is at most half a step (a bit more, as steps are rounded up).
      EXPECT_LT(worst, 6 * 0.51 / std::sqrt(kEpochs)) << bits << " bits";
      EXPECT_LT(std::abs(sum / values), 5 * 0.51 / std::sqrt(1.0 * kEpochs * values))
          << bits << " bits";
      EXPECT_GT(worst, 0.01) << "no noise at all?";
    }
  }
}

// Messages that can't be sent: NaN or infinity in the row of node 40 alone.
float nan_of_40(std::int64_t node, std::int64_t column, int epoch) {
  return node == 40 && column == 2 ? std::numeric_limits<float>::quiet_NaN()
                                   : row_value(node, column, epoch);
}
float infinity_of_40(std::int64_t node, std::int64_t column, int epoch) {
  return node == 40 && column == 4 ? -std::numeric_limits<float>::infinity()
                                   : row_value(node, column, epoch);
}
float huge_of_40(std::int64_t node, std::int64_t column, int epoch) {
  if (node != 40) return row_value(node, column, epoch);
  return column % 2 == 0 ? 3e38F : -3e38F;
}

class BadMessage : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { require_backend(GetParam()); }
};

TEST_P(BadMessage, NamesLayerDirectionNodeAndRank) {
  const Csr csr = random_graph(kNodes, 5, true, false, 11);
  const GraphView graph{csr.view(), false};
  const int owner = scattered_parts(kNodes, 3)[40];
  ASSERT_GT(owner, 0) << "rank 0 is the easy case";
  for (const std::string bits : {"32", "8", "1", "random", "adaptive"}) {
    for (const auto value : {nan_of_40, infinity_of_40, huge_of_40}) {
      const ExchangeSetup setup{.parts = 3,
                                .backend = GetParam(),
                                .normalisation = Normalisation::kMean,  // sends rows as they are
                                .exchange = quantized(bits),
                                .first_epoch = 9,
                                .last_epoch = 9,
                                .layer = 2,
                                .value = value};
      const Error error = thrown_error([&] { exchanged(graph, setup); });
      EXPECT_EQ(error.kind(), ErrorKind::kDiverged) << bits;
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("epoch 9"), HasSubstr("layer 2"), HasSubstr("ward messages"),
                        HasSubstr("node 40 "), HasSubstr("rank " + std::to_string(owner))))
          << bits;
    }
  }
}

TEST_P(BadMessage, IsFoundInTheDirectionThatSendsIt) {
  // Node 40 has an edge to node 41 only: forward its row travels to the rank of node 41, backward
  // the row of node 41 travels to its rank.
  Csr csr;
  csr.row_ptr.assign(kNodes + 1, 0);
  for (std::int64_t i = 42; i <= kNodes; ++i) csr.row_ptr[static_cast<std::size_t>(i)] = 1;
  csr.col_idx = {40};
  const GraphView graph{csr.view(), false};
  const std::vector<std::int32_t> part_of = scattered_parts(kNodes, 2);
  ASSERT_NE(part_of[40], part_of[41]);
  ExchangeSetup setup{.backend = GetParam(), .exchange = quantized("2"), .value = nan_of_40};
  EXPECT_THAT(thrown_error([&] { exchanged(graph, setup); }).what(),
              AllOf(HasSubstr("layer 1, forward messages"),
                    HasSubstr("node 40 on rank " + std::to_string(part_of[40]))));
  setup.value = [](std::int64_t node, std::int64_t column, int epoch) {
    return nan_of_40(node == 41 ? 40 : 0, column, epoch);
  };
  EXPECT_THAT(thrown_error([&] { exchanged(graph, setup); }).what(),
              AllOf(HasSubstr("layer 1, backward messages"),
                    HasSubstr("node 41 on rank " + std::to_string(part_of[41]))));
}

INSTANTIATE_TEST_SUITE_P(Backends, BadMessage, ::testing::Values("reference", "cpu", "cuda"),
                         [](const auto& test) { return test.param; });

// Rank 0 sends 4 bits where the others expect 8: a message too short for its receiver.
TEST(MessageExchange, RefusesAShortMessage) {
  const Csr csr = random_graph(kNodes, 5, false, false, 11);
  const GraphView graph{csr.view(), true};
  const Error error = thrown_error([&] {
    run_parts(graph, 3, [&](Transport& transport, const LocalGraphView& local) {
      const ExchangeSetup setup{.parts = 3,
                                .exchange = quantized(transport.rank() == 0 ? "4" : "8")};
      ExchangingRank rank(setup, transport, local);
      ExchangedEpoch seen;
      for (ExchangedChannel& channel : seen.channels) channel.halo.resize(3);
      std::mutex mutex;
      rank.run_epoch(1, seen, mutex);
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kCommunication);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("layer 1 forward halo exchange of epoch 1"), HasSubstr("bytes")));
}

TEST(FixedWidths, AreOneOrOnePerLayer) {
  EXPECT_THAT(parse_bits("4").widths, ::testing::ElementsAre(4));
  EXPECT_THAT(parse_bits("8,4,32").widths, ::testing::ElementsAre(8, 4, 32));
  EXPECT_THAT(parse_bits("random").widths, ::testing::IsEmpty());
  EXPECT_THAT(parse_bits("adaptive").widths, ::testing::IsEmpty());
  for (const char* text : {"4", "8,4,32", "random", "adaptive"}) {
    EXPECT_EQ(to_string(parse_bits(text)), text);
  }
  for (const char* bad : {"", "3", "8,", ",8", "8,,4", "8, 4", "4,adaptive", "8,3", "4x"}) {
    EXPECT_THAT(thrown_error([&] { parse_bits(bad); }).what(),
                AllOf(HasSubstr("--bits"), HasSubstr("1, 2, 4, 8, 16, 32")))
        << bad;
  }
}

}  // namespace
}  // namespace atl
