// The mode that gives each message a width and a period, by calibrations made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/exchange/messages/adaptive_setup.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRowColumns = 24;
constexpr int kRanks = 3;
constexpr double kSlow = 1e-4;  // seconds per byte
constexpr double kFast = 1e-12;
constexpr double kWork = 1;  // seconds beside messages

// Rows that turn slowly in one direction each; some not at all.
float slow_value(std::int64_t node, std::int64_t column, int epoch) {
  const double speed = 0.004 * static_cast<double>(node % 4);
  return static_cast<float>(std::sin(static_cast<double>(node * 31 + column * 17) + speed * epoch));
}

// Rows that every epoch draws anew.
float drawn_value(std::int64_t node, std::int64_t column, int epoch) {
  return static_cast<float>(std::sin(static_cast<double>(node * 31 + column * 17 + epoch * 1013)));
}

class UnifiedRuns : public ::testing::Test {
 protected:
  explicit UnifiedRuns(std::string backend) : backend_(std::move(backend)) {}
  void SetUp() override { require_backend(backend_); }

  ExchangeSetup setup(double theta, int epochs, double central_s = 0) const {
    ExchangeSetup setup{.parts = kRanks,
                        .backend = backend_,
                        .columns = kRowColumns,
                        .last_epoch = epochs,
                        .value = slow_value};
    setup.exchange.mode = "unified";
    setup.exchange.message_bits.bits = parse_bits("adaptive");
    setup.exchange.message_bits.reassign_every = 8;
    setup.exchange.message_bits.calibration = calibration(kRanks, theta, {}, central_s);
    return setup;
  }
  // Where few bits hide, 32 don't, and packing differences takes a tenth of the work.
  ExchangeSetup medium_setup(int epochs) const {
    ExchangeSetup setup = this->setup(medium(), epochs, kWork);
    for (Json& channel : setup.exchange.message_bits.calibration["channels"]) {
      channel["quantize_s"] = kWork / 10;
    }
    return setup;
  }
  Exchanged run(const ExchangeSetup& setup) const { return exchanged(graph_, setup); }
  Exchanged exact(ExchangeSetup setup) const {
    setup.exchange = {};
    return run(setup);
  }

  // The square of what is wrong in halo rows over the square of these. first: epoch of `run`.
  static double error(const Exchanged& run, const Exchanged& exact, int epoch, Direction direction,
                      int first = 1) {
    double wrong = 0;
    double size = 0;
    const auto channel = [&](const Exchanged& of, int begin) {
      return of.epochs[static_cast<std::size_t>(epoch - begin)].channels[place(direction)];
    };
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const auto found = channel(run, first).halo[rank];
      const auto expected = channel(exact, 1).halo[rank];
      for (std::size_t i = 0; i < found.size(); ++i) {
        wrong += std::pow(found[i] - expected[i], 2);
        size += std::pow(expected[i], 2);
      }
    }
    return wrong / size;
  }

  // Seconds per byte with which a link needs two and a half times kWork for 32 bits: fewer hide.
  double medium() const {
    const Exchanged exact = this->exact(setup(kFast, 1));
    const std::int64_t row = wire_row_bytes(32, kRowColumns, DType::kF32);
    constexpr double kLinks = kRanks * (kRanks - 1);
    return 2.5 * kWork * kLinks / static_cast<double>(exact.messages[0] * row);
  }

  std::string backend_;
  Csr csr_ = random_graph(300, 5, true, true, 11);
  GraphView graph_{csr_.view(), false};
};

const std::string kBackends[] = {"reference", "cpu", "cuda"};

class Unified : public UnifiedRuns, public ::testing::WithParamInterface<std::string> {
 protected:
  Unified() : UnifiedRuns(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Backends, Unified, ::testing::ValuesIn(kBackends),
                         [](const auto& test) { return test.param; });

// Bytes of a channel over the epochs [first, last].
std::int64_t bytes_between(const Exchanged& run, Direction direction, int first, int last) {
  std::int64_t bytes = 0;
  for (int epoch = first; epoch <= last; ++epoch) {
    bytes += run.epochs[static_cast<std::size_t>(epoch - 1)].channels[place(direction)].bytes;
  }
  return bytes;
}

TEST_P(Unified, SendsLessThanABitOfRowsThatMoveLittle) {
  const ExchangeSetup setup = this->setup(kSlow, 21);
  const Exchanged run = this->run(setup);
  const Exchanged exact = this->exact(setup);
  const std::int64_t one_bit = 8 * run.messages[0] * wire_row_bytes(1, kRowColumns, DType::kF32);
  // Epochs 6 to 12 lie between assignments, after epochs 5 and 13; so do 14 to 20.
  const std::int64_t sent = bytes_between(run, Direction::kForward, 6, 12);
  EXPECT_LT(static_cast<double>(sent), 0.7 * 7 / 8 * static_cast<double>(one_bit));
  EXPECT_GT(sent, 0);
  for (int epoch = 6; epoch <= 21; ++epoch) {
    EXPECT_LT(error(run, exact, epoch, Direction::kForward), 0.02) << epoch;
  }
  // The report counts a mean over turns.
  const std::optional<ExchangeReport>& report = run.epochs[5].report;
  ASSERT_TRUE(report && report->choice);
  const ExchangeReport::Messages& forward = report->channels[0];
  EXPECT_FALSE(forward.as_rows);
  std::int64_t rare = 0;
  for (const auto& [period, rows] : forward.rows_of_period) {
    EXPECT_TRUE(period == 2 || period == 4 || period == 8) << period;
    rare += rows;
  }
  EXPECT_GT(rare, forward.rows / 2);
  EXPECT_LE(rare, forward.rows);
  EXPECT_NEAR(static_cast<double>(forward.bytes) * 7, static_cast<double>(sent),
              0.1 * static_cast<double>(sent));
  EXPECT_GT(report->choice->channels.begin()->second.error, 0);
}

TEST_P(Unified, NoGradientIsLost) {
  const ExchangeSetup setup = this->setup(kSlow, 40);
  const Exchanged run = this->run(setup);
  const Exchanged exact = this->exact(setup);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const std::size_t values = run.epochs[0].channels[1].halo[rank].size();
    double lost = 0;
    double size = 0;
    for (std::size_t i = 0; i < values; ++i) {
      double sent = 0;
      double received = 0;
      for (std::size_t e = 0; e < 40; ++e) {
        sent += exact.epochs[e].channels[1].halo[rank][i];
        received += run.epochs[e].channels[1].halo[rank][i];
      }
      lost += std::pow(sent - received, 2);
      size += std::pow(sent, 2);
    }
    // Eight epochs of forty at most are still to come.
    EXPECT_LT(lost, 0.06 * size);
  }
}

// A gradient loses what comes with later ones. The more noise counts against that, the fewer bits
// gradients get; rows that are sent in every epoch have neither lag nor anything to come.
TEST_P(Unified, WhatComesLaterIsWorthFewerBits) {
  ExchangeSetup setup = this->setup(kSlow, 12);
  setup.value = drawn_value;
  setup.exchange.message_bits.lambda = 0.8;  // error counts
  const auto bytes = [&](double weight) {
    setup.exchange.sending.staleness_weight = weight;
    const Exchanged run = this->run(setup);
    return std::pair(bytes_between(run, Direction::kForward, 6, 12),
                     bytes_between(run, Direction::kBackward, 6, 12));
  };
  const auto [forward, backward] = bytes(1);
  const auto [later_forward, later_backward] = bytes(10);
  EXPECT_EQ(later_forward, forward);
  EXPECT_LT(static_cast<double>(later_backward), 0.8 * static_cast<double>(backward));
}

TEST_P(Unified, RowsThatMoveMuchAreSentInEveryEpoch) {
  ExchangeSetup setup = this->setup(kSlow, 14);
  setup.value = drawn_value;
  const Exchanged run = this->run(setup);
  EXPECT_TRUE(run.epochs[5].report->channels[0].rows_of_period.empty());
  EXPECT_TRUE(run.epochs[5].report->channels[1].rows_of_period.empty());
  setup.value = slow_value;
  setup.exchange.sending.drift_limit = 0;
  EXPECT_TRUE(this->run(setup).epochs[5].report->channels[0].rows_of_period.empty());
}

TEST_P(Unified, NoMessageWaitsForLongerThanIsSaid) {
  for (const auto& [oldest, reassign_every] : {std::pair{2, 8}, std::pair{8, 5}}) {
    ExchangeSetup setup = this->setup(kSlow, 12);
    setup.exchange.sending.oldest = oldest;
    setup.exchange.message_bits.reassign_every = reassign_every;
    const Exchanged run = this->run(setup);
    ASSERT_FALSE(run.epochs[5].report->channels[0].rows_of_period.empty());
    for (const ExchangeReport::Messages& messages : run.epochs[5].report->channels) {
      for (const auto& [period, rows] : messages.rows_of_period) {
        EXPECT_LE(period, std::min(oldest, reassign_every));
      }
    }
  }
}

TEST_P(Unified, ExactWhereTimeDoesNotCount) {
  ExchangeSetup setup = this->setup(kSlow, 8);
  setup.exchange.message_bits.lambda = 1;
  const Exchanged run = this->run(setup);
  const Exchanged exact = this->exact(setup);
  for (std::size_t e = 0; e < 8; ++e) EXPECT_TRUE(same_halo(run.epochs[e], exact.epochs[e])) << e;
}

// Work that hides everything: nothing is kept or rounded once that is known, nor after it is.
TEST_P(Unified, ExactWhereMessagesHide) {
  const ExchangeSetup setup = this->setup(kFast, 16, kWork);
  const Exchanged run = this->run(setup);
  const Exchanged exact = this->exact(setup);
  for (std::size_t e = 5; e < 16; ++e) {
    EXPECT_TRUE(same_halo(run.epochs[e], exact.epochs[e])) << e + 1;
  }
  EXPECT_EQ(run.epochs[5].report->mean_bits, 32);
}

// Few bits hide, 32 don't: rows travel themselves, which costs less than differences do.
TEST_P(Unified, SendsRowsWhereTheyHide) {
  const ExchangeSetup setup = medium_setup(24);
  const Exchanged run = this->run(setup);
  const Exchanged exact = this->exact(setup);
  // After the assignments of epochs 5 and 13.
  for (const std::size_t epoch : {6, 14}) {
    const std::optional<ExchangeReport>& report = run.epochs[epoch - 1].report;
    ASSERT_TRUE(report) << epoch;
    EXPECT_GT(report->mean_bits, 4) << epoch;
    EXPECT_LT(report->mean_bits, 24) << epoch;
    for (const ExchangeReport::Messages& messages : report->channels) {
      EXPECT_TRUE(messages.as_rows) << epoch;
      EXPECT_TRUE(messages.rows_of_period.empty()) << epoch;
    }
  }
  for (int epoch = 6; epoch <= 24; ++epoch) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      EXPECT_LT(error(run, exact, epoch, direction), 0.005) << epoch;
      EXPECT_GT(error(run, exact, epoch, direction), 0) << epoch;
    }
  }
  // Rounded at random: what one epoch errs by says nothing of the next, so that the mean of all is
  // nearer than any.
  const auto mean_error = [&](int first, int last) {
    double wrong = 0;
    double size = 0;
    const std::size_t values = exact.epochs[0].channels[0].halo[0].size();
    for (std::size_t i = 0; i < values; ++i) {
      double sum = 0;
      for (int epoch = first; epoch <= last; ++epoch) {
        const auto e = static_cast<std::size_t>(epoch - 1);
        sum += run.epochs[e].channels[0].halo[0][i] - exact.epochs[e].channels[0].halo[0][i];
        size += std::pow(exact.epochs[e].channels[0].halo[0][i], 2);
      }
      wrong += std::pow(sum, 2) / (last - first + 1);
    }
    return wrong / size;  // that of one epoch, if errors are independent
  };
  EXPECT_LT(mean_error(6, 24), 2 * error(run, exact, 24, Direction::kForward));
}

// A wire that has become slow, as a resumed run measures it.
TEST_P(Unified, SendsDifferencesOnceRowsDoNotHide) {
  ExchangeSetup setup = medium_setup(12);
  const Exchanged first = run(setup);
  setup.first_epoch = 13;
  setup.last_epoch = 30;
  setup.exchange.message_bits.calibration = calibration(kRanks, kSlow, {}, 0);
  const Exchanged second = exchanged(graph_, setup, first.states);
  const Exchanged exact = this->exact(medium_setup(setup.last_epoch));
  const auto at = [&](int epoch) { return second.epochs[static_cast<std::size_t>(epoch - 13)]; };
  ASSERT_TRUE(at(14).report);
  EXPECT_FALSE(at(14).report->channels[0].as_rows);
  EXPECT_LT(at(14).report->mean_bits, 4);
  ASSERT_TRUE(at(22).report);
  EXPECT_FALSE(at(22).report->channels[0].rows_of_period.empty());
  // Differences begin with rows of zeros, and close in on them.
  const auto wrong = [&](int epoch) {
    return error(second, exact, epoch, Direction::kForward, setup.first_epoch);
  };
  EXPECT_LT(wrong(13), 0.005);
  EXPECT_GT(wrong(14), wrong(18));
  EXPECT_LT(wrong(21), 0.02);
}

// Backend, setting, epoch after which the run is cut.
using CutRun = std::tuple<std::string, std::string, int>;

class CutUnified : public UnifiedRuns, public ::testing::WithParamInterface<CutRun> {
 protected:
  CutUnified() : UnifiedRuns(std::get<0>(GetParam())) {}

  ExchangeSetup whole() const {
    constexpr int kEpochs = 24;
    const std::string& setting = std::get<1>(GetParam());
    if (setting == "medium") return medium_setup(kEpochs);
    if (setting == "fast") return setup(kFast, kEpochs, kWork);
    ExchangeSetup slow = setup(kSlow, kEpochs);
    if (setting == "exact") slow.exchange.message_bits.lambda = 1;
    return slow;
  }
};

TEST_P(CutUnified, GoesOnFromItsState) {
  const int cut = std::get<2>(GetParam());
  const ExchangeSetup whole = this->whole();
  const Exchanged expected = run(whole);
  ExchangeSetup part = whole;
  part.last_epoch = cut;
  const Exchanged first = run(part);
  part.first_epoch = cut + 1;
  part.last_epoch = whole.last_epoch;
  const Exchanged second = exchanged(graph_, part, first.states);
  for (int epoch = cut + 1; epoch <= whole.last_epoch; ++epoch) {
    EXPECT_TRUE(same_halo(second.epochs[static_cast<std::size_t>(epoch - cut - 1)],
                          expected.epochs[static_cast<std::size_t>(epoch - 1)]))
        << "epoch " << epoch;
  }
  EXPECT_EQ(second.states, expected.states);
}

INSTANTIATE_TEST_SUITE_P(Backends, CutUnified,
                         ::testing::Combine(::testing::ValuesIn(kBackends),
                                            ::testing::Values("slow", "fast", "exact", "medium"),
                                            ::testing::Values(3, 5, 9, 13, 14, 20)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param) +
                                  "_after_" + std::to_string(std::get<2>(test.param));
                         });

// Where the choices don't hang on the last digit of a sum.
TEST_P(Unified, ReceivesTheBitsOfTheReference) {
  ExchangeSetup setup = this->setup(kSlow, 14);
  const Exchanged run = this->run(setup);
  setup.backend = "reference";
  const Exchanged expected = exchanged(graph_, setup);
  for (std::size_t e = 0; e < 14; ++e) {
    EXPECT_TRUE(same_halo(run.epochs[e], expected.epochs[e])) << "epoch " << e + 1;
  }
}

TEST(UnifiedOptions, WidthsAreItsOwn) {
  ExchangeOptions options{.mode = "unified"};
  options.message_bits.bits = parse_bits("2");
  const Error error = thrown_error([&] { check_exchange(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("--bits 2"));
  EXPECT_THAT(error.what(), HasSubstr("unified"));
}

}  // namespace
}  // namespace atl
