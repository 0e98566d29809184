// Halo rows under each exchange mode, epoch after epoch, against rows that travelled exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/philox.hpp"
#include "tests/engine/exchange/exchanged_rows.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kColumns = 24;

// Rows of which some move fast, some slowly and some not at all.
float moving_value(std::int64_t node, std::int64_t column, int epoch) {
  const double speed = node % 3 == 0 ? 0 : node % 3 == 1 ? 0.01 : 0.6;
  return static_cast<float>(std::sin(static_cast<double>(node * 31 + column * 17) + speed * epoch));
}

// Rows of which each value takes another step of between -1 and 1 in each epoch.
float wandering_value(std::int64_t node, std::int64_t column, int epoch) {
  const RandomKey key{5, RandomStream::kPartition, 0, 0};
  float sum = 0;
  for (int e = 1; e <= epoch; ++e) {
    sum += 2 * random_uniform(key, static_cast<std::uint64_t>(node * kColumns + column),
                              static_cast<std::uint32_t>(e)) -
           1;
  }
  return sum;
}

// Between two rows, or of one from 0.
double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - (b.empty() ? 0 : b[i]), 2);
  return sum;
}

// Rows that all move by the same row in each epoch.
float drifting_value(std::int64_t node, std::int64_t column, int epoch) {
  return row_value(node, column, 0) + 0.5F * static_cast<float>(epoch * (column % 5 - 2));
}

ExchangeOptions mode(const std::string& name, const SendOptions& sending = {}) {
  ExchangeOptions options{.mode = name, .sending = sending};
  if (const ExchangeMode& preset = exchange_mode(name); preset.takes_bits()) {
    options.message_bits.bits = parse_bits(preset.usual_bits);
  }
  return options;
}

ExchangeOptions with_bits(ExchangeOptions options, const char* bits) {
  options.message_bits.bits = parse_bits(bits);
  return options;
}

class ExchangeModes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { require_backend(GetParam()); }

  ExchangeSetup setup(const ExchangeOptions& options, int epochs) const {
    return {.parts = 3,
            .backend = GetParam(),
            .columns = kColumns,
            .exchange = options,
            .last_epoch = epochs,
            .value = moving_value};
  }
  Exchanged run(const ExchangeOptions& options, int epochs) const {
    return exchanged(graph_, setup(options, epochs));
  }
  Exchanged exact(int epochs) const { return run({}, epochs); }

  // body(received row, of the epoch given; the same row of each epoch when it is exact).
  template <typename Body>
  void for_each_row(const Exchanged& run, const Exchanged& exact, int epoch,
                    const Body& body) const {
    const auto row_of = [](const Exchanged& from, int of, std::size_t d, std::size_t rank,
                           std::size_t k) {
      const std::vector<float>& rows =
          from.epochs[static_cast<std::size_t>(of - 1)].channels[d].halo[rank];
      return std::span(rows).subspan(k * kColumns, kColumns);
    };
    for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
      for (std::size_t rank = 0; rank < 3; ++rank) {
        for (std::size_t k = 0; k < run.halo_ids[d][rank].size(); ++k) {
          body(row_of(run, epoch, d, rank, k),
               [&](int of) { return row_of(exact, of, d, rank, k); });
        }
      }
    }
  }

  static bool same(std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(a, b);
  }

  Csr csr_ = random_graph(90, 5, true, true, 11);
  GraphView graph_{csr_.view(), false};
};

INSTANTIATE_TEST_SUITE_P(Backends, ExchangeModes, ::testing::Values("reference", "cpu", "cuda"),
                         [](const auto& test) { return test.param; });

TEST_P(ExchangeModes, AreExactWhereTheySendEverythingAsItIs) {
  const Exchanged exact = this->exact(5);
  const std::pair<const char*, ExchangeOptions> all[] = {
      {"periodic", mode("periodic", {.every = 1})},
      {"sampled", mode("sampled", {.rate = 1})},
      {"skip", mode("skip", {.bound = 0})},
      {"stale", mode("stale", {.synchronous_every = 1})},
      {"compensated", with_bits(mode("compensated"), "32")},
      {"quantized", with_bits(mode("quantized"), "32")},
  };
  for (const auto& [name, options] : all) {
    const Exchanged run = this->run(options, 5);
    for (std::size_t e = 0; e < 5; ++e) {
      // A row that hasn't moved at all need not be sent.
      EXPECT_TRUE(same_halo(run.epochs[e], exact.epochs[e])) << name << ", epoch " << e + 1;
    }
  }
}

TEST_P(ExchangeModes, NoneLeavesZeros) {
  const Exchanged run = this->run(mode("none"), 2);
  for (int epoch = 1; epoch <= 2; ++epoch) {
    for_each_row(run, run, epoch, [&](std::span<const float> row, const auto&) {
      EXPECT_TRUE(std::ranges::all_of(row, [](float value) { return value == 0; }));
    });
    for (const ExchangedChannel& channel :
         run.epochs[static_cast<std::size_t>(epoch - 1)].channels) {
      EXPECT_EQ(channel.bytes, 0);
    }
  }
  EXPECT_EQ(run.epochs[0].report->mean_bits, 0);
}

TEST_P(ExchangeModes, StaleRowsAreThoseOfTheEpochBefore) {
  const Exchanged exact = this->exact(7);
  const Exchanged run = this->run(mode("stale", {.synchronous_every = 5}), 7);
  for (int epoch = 1; epoch <= 7; ++epoch) {
    const int of = epoch == 1 || epoch == 5 ? epoch : epoch - 1;
    for_each_row(run, exact, epoch, [&](std::span<const float> row, const auto& exact_row) {
      EXPECT_TRUE(same(row, exact_row(of))) << epoch;
    });
    // The first exchange of a channel also asks whether there are rows of a checkpoint.
    if (epoch == 1) continue;
    EXPECT_EQ(run.epochs[static_cast<std::size_t>(epoch - 1)].channels[0].bytes,
              run.messages[0] * wire_row_bytes(32, kColumns, DType::kF32));
  }
}

TEST_P(ExchangeModes, PeriodicRowsAreThoseThatWereSentLast) {
  const Exchanged exact = this->exact(7);
  const Exchanged run = this->run(mode("periodic", {.every = 3}), 7);
  for (int epoch = 1; epoch <= 7; ++epoch) {
    const int of = 1 + (epoch - 1) / 3 * 3;
    for_each_row(run, exact, epoch, [&](std::span<const float> row, const auto& exact_row) {
      EXPECT_TRUE(same(row, exact_row(of))) << epoch;
    });
    // The first exchange of a channel also asks whether there are rows of a checkpoint.
    if (epoch == 1) continue;
    const std::int64_t bytes = run.epochs[static_cast<std::size_t>(epoch - 1)].channels[1].bytes;
    EXPECT_EQ(bytes, epoch == of ? run.messages[1] * wire_row_bytes(32, kColumns, DType::kF32) : 0);
  }
}

TEST_P(ExchangeModes, StaggeredRowsTakeTurns) {
  const Exchanged exact = this->exact(8);
  const Exchanged run = this->run(mode("periodic", {.every = 3, .stagger = true}), 8);
  for (int epoch = 4; epoch <= 8; ++epoch) {
    int found[3] = {0, 0, 0};
    for_each_row(run, exact, epoch, [&](std::span<const float> row, const auto& exact_row) {
      int age = 0;
      while (age < 3 && !same(row, exact_row(epoch - age))) ++age;
      ASSERT_LT(age, 3);
      ++found[age];
    });
    // Rows that never move look new.
    EXPECT_GT(found[1], 0);
    EXPECT_GT(found[2], 0);
    const auto sent =
        static_cast<double>(run.epochs[static_cast<std::size_t>(epoch - 1)].channels[0].bytes);
    const auto all =
        static_cast<double>(run.messages[0] * wire_row_bytes(32, kColumns, DType::kF32));
    EXPECT_NEAR(sent / all, 1.0 / 3, 0.06);  // six pairs of ranks, a message more or less each
  }
}

TEST_P(ExchangeModes, SampledRowsAreZeroOrEnlarged) {
  const Exchanged exact = this->exact(1);
  ExchangeSetup setup = this->setup(mode("sampled", {.rate = 0.25}), 40);
  setup.value = [](std::int64_t node, std::int64_t column, int) {
    return moving_value(node, column, 1);
  };
  const Exchanged run = exchanged(graph_, setup);
  std::int64_t sent = 0;
  std::int64_t all = 0;
  double variance = 0;
  double size = 0;
  for (int epoch = 1; epoch <= 40; ++epoch) {
    std::int64_t sent_now = 0;
    for_each_row(run, exact, epoch, [&](std::span<const float> row, const auto& exact_row) {
      ++all;
      variance += squared_distance(row, exact_row(1));
      size += squared_distance(exact_row(1), {});
      if (std::ranges::all_of(row, [](float value) { return value == 0; })) return;
      ++sent_now;
      for (std::size_t j = 0; j < row.size(); ++j) {
        EXPECT_NEAR(row[j], 4 * exact_row(1)[j], 1e-5);
      }
    });
    sent += sent_now;
    const ExchangedEpoch& seen = run.epochs[static_cast<std::size_t>(epoch - 1)];
    EXPECT_EQ(seen.channels[0].bytes + seen.channels[1].bytes,
              sent_now * wire_row_bytes(32, kColumns, DType::kF32));
  }
  // Five standard deviations of a binomial share.
  const auto n = static_cast<double>(all);
  EXPECT_NEAR(static_cast<double>(sent) / n, 0.25, 5 * std::sqrt(0.25 * 0.75 / n));
  EXPECT_NEAR(variance / size, (1 - 0.25) / 0.25, 0.05 * 3);
  // A run that begins later draws what this one has drawn.
  setup.first_epoch = 31;
  const Exchanged later = exchanged(graph_, setup);
  for (std::size_t e = 0; e < 10; ++e) {
    EXPECT_TRUE(same_halo(later.epochs[e], run.epochs[30 + e]));
  }
}

TEST_P(ExchangeModes, SkippedRowsStayWithinTheirBounds) {
  const Exchanged exact = this->exact(14);
  const Exchanged run = this->run(mode("skip", {.bound = 0.05, .oldest = 6}), 14);
  int old_rows = 0;
  std::int64_t bytes = 0;
  for (int epoch = 3; epoch <= 14; ++epoch) {
    for_each_row(run, exact, epoch, [&](std::span<const float> row, const auto& exact_row) {
      int age = 0;
      while (epoch - age > 1 && !same(row, exact_row(epoch - age))) ++age;
      ASSERT_TRUE(same(row, exact_row(epoch - age))) << "a row that nobody has sent";
      ASSERT_LT(age, 6);
      old_rows += age > 0 ? 1 : 0;
      // One epoch's movement beyond the bound, as the sender decides when the last one is over.
      double moved = 0;
      double size = 0;
      double step = 0;
      for (std::size_t j = 0; j < row.size(); ++j) {
        const auto of = [&](int e) { return static_cast<double>(exact_row(e)[j]); };
        moved += std::pow(of(epoch) - row[j], 2);
        step += std::pow(of(epoch) - of(epoch - 1), 2);
        size += std::pow(of(epoch - 1), 2);
      }
      EXPECT_LE(std::sqrt(moved), 0.051 * std::sqrt(size) + std::sqrt(step));
    });
    const ExchangedEpoch& seen = run.epochs[static_cast<std::size_t>(epoch - 1)];
    bytes += seen.channels[0].bytes + seen.channels[1].bytes;
  }
  EXPECT_GT(old_rows, 100);
  // A third never moves, a third slowly.
  const std::int64_t all =
      12 * (run.messages[0] + run.messages[1]) * wire_row_bytes(32, kColumns, DType::kF32);
  EXPECT_LT(static_cast<double>(bytes), 0.75 * static_cast<double>(all));
  EXPECT_GT(static_cast<double>(bytes), 0.33 * static_cast<double>(all));
}

TEST_P(ExchangeModes, DifferencesCloseInOnRowsThatRest) {
  for (const auto& [bits, factor] :
       {std::pair{"1", 0.75}, std::pair{"2", 0.4}, std::pair{"4", 0.1}}) {
    ExchangeSetup setup = this->setup(with_bits(mode("compensated"), bits), 10);
    setup.value = row_value;
    const Exchanged run = exchanged(graph_, setup);
    setup.exchange = {};
    setup.last_epoch = 1;
    const Exchanged exact = exchanged(graph_, setup);
    double before = 0;
    double first = 0;
    for (int epoch = 1; epoch <= 10; ++epoch) {
      double error = 0;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const auto& halo = run.epochs[static_cast<std::size_t>(epoch - 1)].channels[0].halo[rank];
        for (std::size_t i = 0; i < halo.size(); ++i) {
          error += std::pow(halo[i] - exact.epochs[0].channels[0].halo[rank][i], 2);
        }
      }
      if (epoch == 1) first = error;
      // Until differences are of the size of roundings of the rows themselves.
      if (epoch > 1 && before > 1e-10 * first) {
        EXPECT_LT(error, factor * before) << bits << " bits, epoch " << epoch;
      }
      before = error;
    }
    EXPECT_LT(before, 0.02 * first) << bits;
  }
}

// A quantizer that leaves a share c of a row's square leaves that share of what the receiver lacks:
// its error of the epoch before and the movement since.
TEST_P(ExchangeModes, DifferencesLeaveAShareOfErrorAndMovement) {
  for (const char* bits : {"2", "4"}) {
    constexpr int kEpochs = 12;
    ExchangeSetup setup = this->setup(with_bits(mode("compensated"), bits), kEpochs);
    setup.value = wandering_value;
    const Exchanged run = exchanged(graph_, setup);
    setup.exchange = {};
    const Exchanged exact = exchanged(graph_, setup);
    double share = 0;
    double before = 0;
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      double error = 0;
      double movement = 0;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const auto rows = [&](const Exchanged& from, int of) {
          return of == 0
                     ? std::span<const float>()
                     : std::span<const float>(
                           from.epochs[static_cast<std::size_t>(of - 1)].channels[0].halo[rank]);
        };
        error += squared_distance(rows(run, epoch), rows(exact, epoch));
        movement += squared_distance(rows(exact, epoch), rows(exact, epoch - 1));
      }
      if (epoch == 1) {
        share = error / movement;
      } else {
        EXPECT_NEAR(error / (before + movement), share, 0.2 * share) << bits << ", " << epoch;
      }
      before = error;
    }
  }
}

TEST_P(ExchangeModes, CorrectedRowsAddUpToWhatWasSent) {
  const Exchanged exact = this->exact(30);
  const Exchanged run = this->run(with_bits(mode("compensated"), "1"), 30);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::size_t values = run.epochs[0].channels[1].halo[rank].size();
    double lost = 0;
    double size = 0;
    for (std::size_t i = 0; i < values; ++i) {
      double sent = 0;
      double received = 0;
      for (std::size_t e = 0; e < 30; ++e) {
        const double row = exact.epochs[e].channels[1].halo[rank][i];
        sent += row;
        received += run.epochs[e].channels[1].halo[rank][i];
        size += row * row / 30;
      }
      lost += std::pow(sent - received, 2);
    }
    // A few of thirty rows at most are still to come.
    EXPECT_GT(size, 0);
    EXPECT_LT(lost, 4 * size);
  }
}

TEST_P(ExchangeModes, AShiftFollowsACommonDrift) {
  for (const auto& [name, sending] : {std::pair{"periodic", SendOptions{.every = 4, .shift = true}},
                                      std::pair{"stale", SendOptions{.shift = true}}}) {
    ExchangeSetup setup = this->setup(mode(name, sending), 9);
    setup.normalisation = Normalisation::kMean;  // rows travel as they are
    setup.value = drifting_value;
    const Exchanged shifted = exchanged(graph_, setup);
    setup.exchange.sending.shift = false;
    const Exchanged kept = exchanged(graph_, setup);
    setup.exchange = {};
    const Exchanged exact = exchanged(graph_, setup);
    const auto error = [&](const Exchanged& run, std::size_t e) {
      double sum = 0;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const auto& halo = run.epochs[e].channels[0].halo[rank];
        for (std::size_t i = 0; i < halo.size(); ++i) {
          sum += std::pow(halo[i] - exact.epochs[e].channels[0].halo[rank][i], 2);
        }
      }
      return sum;
    };
    for (const std::size_t e : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}}) {
      EXPECT_GT(error(kept, e), 1) << name;
      EXPECT_LT(error(shifted, e), 1e-6 * error(kept, e)) << name << ", epoch " << e + 1;
    }
  }
}

// The options of all modes with something to keep, and some without.
std::vector<ExchangeOptions> kept_modes() {
  return {mode("stale"),
          mode("stale", {.shift = true}),
          mode("sampled", {.rate = 0.5}),
          mode("one-bit", {.schedule = MessageSchedule::kPipelined, .synchronous_every = 4}),
          with_bits(mode("quantized", {.schedule = MessageSchedule::kPipelined}), "random"),
          mode("periodic", {.every = 4}),
          with_bits(mode("periodic", {.every = 3, .stagger = true, .shift = true}), "8"),
          mode("skip", {.bound = 0.3, .oldest = 3}),
          with_bits(mode("skip", {.bound = 0.1, .shift = true}), "4"),
          mode("compensated"),
          with_bits(mode("compensated", {.shift = true}), "1"),
          with_bits(mode("compensated"), "random"),
          with_bits(mode("compensated"), "2,32"),
          mode("compensated", {.schedule = MessageSchedule::kPipelined})};
}

std::string describe(const ExchangeOptions& options) {
  return options.mode + " at " + to_string(options.message_bits.bits);
}

TEST_P(ExchangeModes, GoOnFromTheirState) {
  for (const ExchangeOptions& options : kept_modes()) {
    const Exchanged whole = run(options, 8);
    const Exchanged first = run(options, 3);
    ExchangeSetup rest = setup(options, 8);
    rest.first_epoch = 4;
    const Exchanged second = exchanged(graph_, rest, first.states);
    for (std::size_t e = 0; e < 5; ++e) {
      EXPECT_TRUE(same_halo(second.epochs[e], whole.epochs[e + 3]))
          << describe(options) << ", epoch " << e + 4;
    }
    EXPECT_EQ(second.states, whole.states) << describe(options);
  }
}

// Nobody waits for the last messages of a run, nor do they find memory that is gone.
TEST_P(ExchangeModes, EndWithMessagesUnderWay) {
  run_parts(graph_, 3, [&](Transport& transport, const LocalGraphView& local) {
    const ExchangeSetup setup = this->setup(mode("stale", {.shift = true}), 3);
    ExchangingRank rank(setup, transport, local);
    ExchangedEpoch seen;
    for (ExchangedChannel& channel : seen.channels) channel.halo.resize(3);
    std::mutex mutex;
    for (int epoch = 1; epoch <= 3; ++epoch) rank.run_epoch(epoch, seen, mutex);
  });
}

TEST_P(ExchangeModes, TellOfAStateThatIsCutOff) {
  std::vector<std::string> states = run(mode("periodic"), 2).states;
  for (std::string& state : states) state.resize(state.size() / 2);
  ExchangeSetup rest = setup(mode("periodic"), 3);
  rest.first_epoch = 3;
  const Error error = thrown_error([&] { exchanged(graph_, rest, states); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("the state"));
}

// The state of other messages: all are sent anew, as in a first epoch.
TEST_P(ExchangeModes, BeginAnewWithOtherMessages) {
  const Csr csr = random_graph(90, 5, true, true, 12);
  const ExchangeSetup before = setup(mode("periodic"), 2);
  const Exchanged other = exchanged({csr.view(), false}, before);
  ExchangeSetup rest = setup(mode("periodic"), 3);
  rest.first_epoch = 3;
  const Exchanged run = exchanged(graph_, rest, other.states);
  EXPECT_TRUE(same_halo(run.epochs[0], exact(3).epochs[2]));
}

// But for shifts: these are sums, which each backend adds up in its own order.
TEST_P(ExchangeModes, ReceiveTheBitsOfTheReference) {
  for (const ExchangeOptions& options : kept_modes()) {
    if (options.sending.shift) continue;
    ExchangeSetup setup = this->setup(options, 6);
    const Exchanged run = exchanged(graph_, setup);
    setup.backend = "reference";
    const Exchanged expected = exchanged(graph_, setup);
    for (std::size_t e = 0; e < 6; ++e) {
      EXPECT_TRUE(same_halo(run.epochs[e], expected.epochs[e]))
          << describe(options) << ", epoch " << e + 1;
      for (const std::size_t d : {std::size_t{0}, std::size_t{1}}) {
        EXPECT_EQ(run.epochs[e].channels[d].bytes, expected.epochs[e].channels[d].bytes);
      }
    }
  }
}

TEST(ExchangeModesOfBackends, KeepRowsInTheTypeOfStorage) {
  const Csr csr = random_graph(90, 5, true, true, 11);
  const GraphView graph{csr.view(), false};
  for (const ExchangeOptions& options : kept_modes()) {
    ExchangeSetup setup{.parts = 2,
                        .dtype = DType::kBf16,
                        .columns = kColumns,
                        .exchange = options,
                        .last_epoch = 8,
                        .value = moving_value};
    const Exchanged whole = exchanged(graph, setup);
    setup.last_epoch = 3;
    const Exchanged first = exchanged(graph, setup);
    setup.first_epoch = 4;
    setup.last_epoch = 8;
    const Exchanged second = exchanged(graph, setup, first.states);
    for (std::size_t e = 0; e < 5; ++e) {
      EXPECT_TRUE(same_halo(second.epochs[e], whole.epochs[e + 3])) << describe(options);
    }
  }
}

TEST(ExchangeModesOfOneRank, AreExact) {
  const Csr csr = random_graph(90, 5, true, true, 11);
  for (const std::string& name : exchange_modes()) {
    ExchangeSetup setup{.parts = 1, .exchange = mode(name), .last_epoch = 2};
    const Exchanged run = exchanged({csr.view(), false}, setup);
    EXPECT_EQ(run.epochs[1].channels[0].bytes, 0) << name;
  }
}

TEST(ExchangeOptions, ContradictionsAreNamed) {
  const auto error_of = [](const ExchangeOptions& options) {
    return std::string(thrown_error([&] { check_exchange(options); }).what());
  };
  EXPECT_THAT(error_of({.mode = "fast"}), AllOf(HasSubstr("--exchange fast"), HasSubstr("stale")));
  EXPECT_THAT(error_of(mode("exact", {.schedule = MessageSchedule::kPipelined})),
              AllOf(HasSubstr("--schedule pipelined"), HasSubstr("--exchange exact")));
  EXPECT_THAT(error_of(mode("sampled", {.schedule = MessageSchedule::kPipelined})),
              HasSubstr("--exchange sampled"));
  EXPECT_THAT(error_of(mode("quantized", {.shift = true})), HasSubstr("--shift on"));
  EXPECT_THAT(error_of(mode("periodic", {.synchronous_every = 3})),
              HasSubstr("--synchronous-every 3"));
  EXPECT_THAT(error_of(mode("quantized", {.schedule = MessageSchedule::kPipelined})),
              AllOf(HasSubstr("--bits adaptive"), HasSubstr("--schedule pipelined")));
  EXPECT_THAT(error_of(with_bits(mode("sampled"), "random")), HasSubstr("--bits random"));
  EXPECT_THAT(error_of(with_bits(mode("skip"), "adaptive")), HasSubstr("--exchange skip"));
  for (const ExchangeOptions& options : kept_modes()) check_exchange(options);
}

}  // namespace
}  // namespace atl
