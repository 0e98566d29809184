// States and calibrations that adaptive widths keep from run to run, good and damaged ones.
#include <gmock/gmock.h>

#include "tests/engine/exchange/messages/adaptive_setup.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A run cut in two goes on as if nothing had happened: in the warm-up, at an assignment, between.
TEST_F(AdaptiveBitsTest, GoesOnFromItsStateBitForBit) {
  const Json given = calibration(3, 1e-6);
  const Exchanged whole = exchanged(graph(), adaptive_setup(3, given, 14));
  const Exchanged again = exchanged(graph(), adaptive_setup(3, given, 14));
  EXPECT_EQ(whole.states, again.states);
  for (const int cut : {1, 3, 4, 5, 7, 8, 10}) {
    ExchangeSetup first = adaptive_setup(3, given, cut);
    const Exchanged begun = exchanged(graph(), first);
    ExchangeSetup rest = adaptive_setup(3, given, 14);
    rest.first_epoch = cut + 1;
    const Exchanged resumed = exchanged(graph(), rest, begun.states);
    for (int epoch = 1; epoch <= 14; ++epoch) {
      const ExchangedEpoch& expected = whole.epochs[epoch - 1];
      const ExchangedEpoch& seen =
          epoch <= cut ? begun.epochs[epoch - 1] : resumed.epochs[epoch - cut - 1];
      ASSERT_TRUE(same_halo(seen, expected)) << "cut after " << cut << ", epoch " << epoch;
      if (!expected.report || epoch == cut + 1) continue;
      ASSERT_TRUE(seen.report) << epoch;
      EXPECT_EQ(seen.report->channels, expected.report->channels) << epoch;
      ASSERT_EQ(seen.report->choice.has_value(), expected.report->choice.has_value()) << epoch;
      if (!seen.report->choice) continue;
      EXPECT_EQ(seen.report->choice->channels, expected.report->choice->channels) << epoch;
    }
    EXPECT_EQ(resumed.states, whole.states) << "cut after " << cut;
  }
}

// Without a given one the calibration is measured, told and kept.
TEST_F(AdaptiveBitsTest, MeasuresAndKeepsItsCalibration) {
  const Exchanged early = exchanged(graph(), adaptive_setup(2, nullptr, 4));
  EXPECT_TRUE(early.calibration.is_null());
  const Exchanged run = exchanged(graph(), adaptive_setup(2, nullptr, 7));
  ASSERT_FALSE(run.calibration.is_null());
  EXPECT_EQ(run.calibration.at("ranks"), 2);
  EXPECT_EQ(run.calibration.at("links").size(), 2U);
  EXPECT_EQ(run.calibration.at("channels").size(), 2U);
  for (const Json& link : run.calibration.at("links")) {
    const double seconds =
        link.at("theta_s_per_byte").get<double>() * 1e4 + link.at("gamma_s").get<double>();
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 1);
  }
  // Two runs from the same state measure nothing and agree, also with one that is told.
  ExchangeSetup rest = adaptive_setup(2, nullptr, 12);
  rest.first_epoch = 8;
  const Exchanged one = exchanged(graph(), rest, run.states);
  rest.exchange.message_bits.calibration = run.calibration;
  const Exchanged two = exchanged(graph(), rest, run.states);
  EXPECT_EQ(one.calibration, run.calibration);
  EXPECT_EQ(one.states, two.states);
  EXPECT_TRUE(same_halo(one.epochs[4], two.epochs[4]));
}

// Widths of another graph's messages mean nothing here: the warm-up begins again.
TEST_F(AdaptiveBitsTest, AStateOfAnotherPartitionStartsAnew) {
  const Json given = calibration(2, 1e-6);
  const Csr other = random_graph(kNodes, 5, true, true, 12);
  const Exchanged elsewhere = exchanged({other.view(), false}, adaptive_setup(2, given, 7));
  ExchangeSetup setup = adaptive_setup(2, given, 14);
  setup.first_epoch = 8;
  const Exchanged fresh = exchanged(graph(), setup);
  const Exchanged resumed = exchanged(graph(), setup, elsewhere.states);
  for (std::size_t e = 0; e < fresh.epochs.size(); ++e) {
    EXPECT_TRUE(same_halo(resumed.epochs[e], fresh.epochs[e])) << 8 + e;
  }
  EXPECT_EQ(resumed.calibration, given) << "what the user gave still counts";
  EXPECT_EQ(resumed.states, fresh.states);
}

Error refused(const Json& given) {
  const Csr csr = random_graph(kNodes, 5, true, true, 11);
  const GraphView graph{csr.view(), false};
  return thrown_error([&] { exchanged(graph, adaptive_setup(2, given, 7)); });
}

TEST(ExchangeCalibration, RefusesWhatWasNotMeasuredHere) {
  EXPECT_THAT(refused(calibration(3, 1e-6)).what(),
              AllOf(HasSubstr("--calibration"), HasSubstr("3 parts"), HasSubstr("has 2")));
  Json given = calibration(2, 1e-6);
  given.erase("ranks");
  EXPECT_THAT(refused(given).what(), AllOf(HasSubstr("--calibration"), HasSubstr("'ranks'")));
  given = calibration(2, -1e-6);
  EXPECT_THAT(refused(given).what(),
              AllOf(HasSubstr("'theta_s_per_byte'"), HasSubstr("-1e-06"), HasSubstr("at least 0")));
  given = calibration(2, 1e-6);
  given["links"][1]["gamma_s"] = "fast";
  EXPECT_THAT(refused(given).what(), AllOf(HasSubstr("'gamma_s'"), HasSubstr("\"fast\"")));
  given = calibration(2, 1e-6);
  given["links"][1]["to"] = 2;
  EXPECT_THAT(refused(given).what(), AllOf(HasSubstr("'to' is 2"), HasSubstr("0 to 1")));
  given = calibration(2, 1e-6);
  given["links"].erase(1);
  EXPECT_THAT(refused(given).what(), HasSubstr("from rank 1 to rank 0 is missing"));
  given = calibration(2, 1e-6);
  given["channels"][0]["direction"] = "sideways";
  EXPECT_THAT(refused(given).what(), AllOf(HasSubstr("sideways"), HasSubstr("backward")));
  given = calibration(2, 1e-6);
  given["channels"][0].erase("central_s");
  EXPECT_THAT(refused(given).what(), HasSubstr("'central_s' is missing"));
  given = calibration(2, 1e-6);
  given["channels"].erase(1);
  const Error missing = refused(given);
  EXPECT_EQ(missing.kind(), ErrorKind::kInput);
  EXPECT_THAT(missing.what(), AllOf(HasSubstr("--calibration"), HasSubstr("layer 1 backward")));
}

TEST_F(AdaptiveBitsTest, RefusesADamagedState) {
  const ExchangeSetup first = adaptive_setup(2, calibration(2, 1e-6), 6);
  const std::vector<std::string> good = exchanged(graph(), first).states;
  ExchangeSetup rest = adaptive_setup(2, calibration(2, 1e-6), 8);
  rest.first_epoch = 7;
  const auto message = [&](const std::function<void(Json&)>& damage) {
    std::vector<std::string> states = good;
    Json state = Json::parse(states[1]);
    damage(state);
    states[1] = state.dump();
    const Error error = thrown_error([&] { exchanged(graph(), rest, states); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  const auto expect = [&](const std::string& what, const std::function<void(Json&)>& damage) {
    EXPECT_THAT(message(damage), AllOf(HasSubstr("the state"), HasSubstr(what)));
  };
  expect("'first_epoch'", [](Json& s) { s.erase("first_epoch"); });
  expect("'ratio'", [](Json& s) { s["channels"][1]["ratio"] = "x"; });
  expect("width '9'", [](Json& s) { s["channels"][0]["bits"] = "0129"; });
  expect("'samples'", [](Json& s) { s["channels"][0]["samples"] = 3; });
  std::vector<std::string> states = good;
  states[0].resize(states[0].size() / 2);
  EXPECT_THAT(thrown_error([&] { exchanged(graph(), rest, states); }).what(),
              AllOf(HasSubstr("the state"), HasSubstr("not valid JSON")));
}

}  // namespace
}  // namespace atl
