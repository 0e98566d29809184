// Clocks whose true offsets and drifts are known.
#include "engine/trace/clock_alignment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/trace/clock_line.hpp"
#include "tests/engine/trace/made_traces.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ClockAlignment, OneHostNeedsNoPackets) {
  const ClockAlignment clocks = MadeTrace({"a", "a"}).work(0, "loss", 5, 7).align();
  ASSERT_EQ(clocks.hosts.size(), 1U);
  EXPECT_THAT(clocks.hosts[0].ranks, ElementsAre(0, 1));
  EXPECT_EQ(clocks.hosts[0].low_us, 0);
  EXPECT_EQ(clocks.hosts[0].high_us, 0);
  EXPECT_THAT(clocks.host_of, ElementsAre(0, 0));
}

TEST(ClockAlignment, TwoPacketsBoundAnOffset) {
  // There: posted at 100, arrived at 1040 of the other clock, so its offset is at least -940.
  // Back: posted at 1100, arrived at 210, so it is at most -890.
  const ClockAlignment clocks = MadeTrace({"a", "b"})
                                    .packet(0, 1, 100, 101, 1030, 1040)
                                    .packet(1, 0, 1100, 1101, 200, 210)
                                    .align();
  ASSERT_EQ(clocks.hosts.size(), 2U);
  EXPECT_EQ(clocks.hosts[1].name, "b");
  EXPECT_DOUBLE_EQ(clocks.hosts[1].low_us, -940);
  EXPECT_DOUBLE_EQ(clocks.hosts[1].high_us, -890);
  EXPECT_DOUBLE_EQ(clocks.hosts[1].offset_us(), -915);
  EXPECT_EQ(clocks.hosts[1].drift, 0);
  EXPECT_DOUBLE_EQ(clocks.hosts[1].common_us(1000), 85);
}

TEST(ClockAlignment, HostsThatNeverMeetAreBoundThroughOthers) {
  // Host c has messages with b only: o[b] + 1150 <= o[c] <= o[b] + 1190.
  const ClockAlignment clocks = MadeTrace({"a", "b", "c"})
                                    .packet(0, 1, 100, 101, 1030, 1040)
                                    .packet(1, 0, 1100, 1101, 200, 210)
                                    .packet(1, 2, 1200, 1201, 40, 50)
                                    .packet(2, 1, 60, 61, 1240, 1250)
                                    .align();
  EXPECT_DOUBLE_EQ(clocks.hosts[2].low_us, 210);
  EXPECT_DOUBLE_EQ(clocks.hosts[2].high_us, 300);
  EXPECT_TRUE(std::isnan(clocks.hosts[2].least_drift));
}

TEST(ClockAlignment, RanksOfAHostShareItsClock) {
  // Ranks 1 and 3 are on b: each gives one side of the interval.
  const ClockAlignment clocks = MadeTrace({"a", "b", "a", "b"})
                                    .packet(0, 1, 100, 101, 1030, 1040)
                                    .packet(3, 2, 1100, 1101, 200, 210)
                                    .align();
  EXPECT_THAT(clocks.host_of, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(clocks.hosts[1].ranks, ElementsAre(1, 3));
  EXPECT_DOUBLE_EQ(clocks.hosts[1].low_us, -940);
  EXPECT_DOUBLE_EQ(clocks.hosts[1].high_us, -890);
}

TEST(ClockAlignment, SumsBoundOffsetsToo) {
  // Nobody ends before all have begun: o >= 500 - 1600 and o <= 560 - 1480.
  const ClockAlignment clocks = MadeTrace({"a", "b"}).sum(0, 500, 560).sum(1, 1480, 1600).align();
  EXPECT_DOUBLE_EQ(clocks.hosts[1].low_us, -1100);
  EXPECT_DOUBLE_EQ(clocks.hosts[1].high_us, -920);
}

TEST(ClockAlignment, OfRanksOnOneHostTheLastToBeginAndTheFirstToEndCount) {
  const ClockAlignment clocks = MadeTrace({"a", "a", "b", "b"})
                                    .sum(0, 500, 560)
                                    .sum(1, 510, 540)
                                    .sum(2, 1480, 1600)
                                    .sum(3, 1490, 1580)
                                    .align();
  EXPECT_DOUBLE_EQ(clocks.hosts[1].low_us, 510 - 1580);
  EXPECT_DOUBLE_EQ(clocks.hosts[1].high_us, 540 - 1490);
}

// Times of devices are not as exact: 100 us of margin, and nothing learned about one host.
TEST(ClockAlignment, SumsBetweenDevicesCountWithAMargin) {
  MadeTrace made({"a", "b", "b"});
  made.sum(0, 500, 560).sum(1, 1480, 1600).sum(2, 1650, 1700);  // rank 1 ends before rank 2 begins
  Trace trace = made.trace();
  for (RankTrace& rank : trace.ranks) rank.events[0].lane = kQueueLane;
  const ClockAlignment clocks = align_clocks(trace, match_packets(trace), match_reductions(trace));
  EXPECT_DOUBLE_EQ(clocks.hosts[1].low_us, 500 - 1600 - 100);
  EXPECT_DOUBLE_EQ(clocks.hosts[1].high_us, 560 - 1650 + 100);
}

TEST(ClockAlignment, ContradictionsNameTheHosts) {
  // o >= -940 and o <= -950, at nearly one time: no drift of 1000 ppm explains 10 us.
  const MadeTrace made = MadeTrace({"node-a", "node-b"})
                             .packet(0, 1, 100, 101, 1030, 1040)
                             .packet(1, 0, 1100, 1101, 140, 150);
  const Error error = thrown_error([&] { made.align(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("made.json: the clocks of hosts node-a and node-b contradict "
                                      "each other by 9.9 us"));
}

TEST(ClockAlignment, AHostThatContradictsItselfIsNamed) {
  const MadeTrace made = MadeTrace({"a", "a"}).packet(0, 1, 100, 101, 50, 60);
  EXPECT_THAT(thrown_error([&] { made.align(); }).what(),
              HasSubstr("the clock of host a contradicts itself by 40.0 us"));
}

TEST(ClockAlignment, ContradictionsBelowTheResolutionAreNone) {
  // o >= -940 and o <= -940.6.
  const ClockAlignment clocks = MadeTrace({"a", "b"})
                                    .packet(0, 1, 100, 101, 1030, 1040)
                                    .packet(1, 0, 1040, 1041, 90, 99.4)
                                    .align();
  EXPECT_NEAR(clocks.hosts[1].offset_us(), -940.3, 0.05);
}

TEST(ClockAlignment, OneWayIsNotEnough) {
  const MadeTrace made = MadeTrace({"a", "b"}).packet(0, 1, 100, 101, 1030, 1040);
  EXPECT_THAT(thrown_error([&] { made.align(); }).what(),
              HasSubstr("the clock of host b can't be aligned with that of host a"));
}

// Packets at random times between random ranks, each `least_us` or more under way, on clocks that
// are off by `offset` at true time 0 and run fast or slow by `drift`: true time = t + offset +
// drift * t.
struct Clocks {
  std::vector<double> offset, drift;
  double local(std::size_t host, double true_us) const {
    return (true_us - offset[host]) / (1 + drift[host]);
  }
};

struct RandomRun {
  RandomRun(const Clocks& clocks, double seconds, int packets, bool chain, unsigned seed) {
    const int hosts = static_cast<int>(clocks.offset.size());
    std::vector<std::string> names;
    for (int h = 0; h < hosts; ++h) names.push_back("host" + std::to_string(h));
    MadeTrace made(names);
    std::mt19937 random(seed);
    const auto uniform = [&](double most) {
      return std::uniform_real_distribution<double>(0, most)(random);
    };
    for (int i = 0; i < packets; ++i) {
      int source = static_cast<int>(uniform(hosts - 1e-9));
      int destination = static_cast<int>(uniform(hosts - 1e-9));
      if (chain) destination = source + (random() % 2 == 0 ? 1 : -1);
      if (destination < 0 || destination >= hosts || destination == source) continue;
      const double posted = seconds * 1e6 * (i + uniform(1)) / packets;
      const double arrived = posted + kLeastUs + uniform(300);
      const auto s = static_cast<std::size_t>(source);
      const auto d = static_cast<std::size_t>(destination);
      // Times of one rank may cross, but those of one pair are in order.
      made.packet(source, destination, clocks.local(s, posted), clocks.local(s, posted + 1),
                  clocks.local(d, posted), clocks.local(d, arrived), /*epoch=*/i);
      true_us.emplace_back(destination, std::pair(clocks.local(d, arrived), arrived));
    }
    alignment = made.align();
  }
  static constexpr double kLeastUs = 50;

  ClockAlignment alignment;
  std::vector<std::pair<int, std::pair<double, double>>> true_us;  // host, its time, the true time
};

TEST(ClockAlignment, IntervalsHoldTheTruth) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Clocks clocks{{0, 123456789.5, -77000.25, 3.5e11}, {0, 0, 0, 0}};
    for (const bool chain : {false, true}) {
      const RandomRun run(clocks, 5, 400, chain, seed);
      for (std::size_t h = 0; h < 4; ++h) {
        const HostClock& clock = run.alignment.hosts[h];
        EXPECT_EQ(clock.drift, 0) << "seed " << seed;
        EXPECT_LE(clock.low_us, clocks.offset[h] + 0.01) << "seed " << seed << " host " << h;
        EXPECT_GE(clock.high_us, clocks.offset[h] - 0.01) << "seed " << seed << " host " << h;
        // No packet is faster than 50 us, so a pair of hosts can't be known better than that.
        if (h == 0) continue;
        EXPECT_GT(clock.high_us - clock.low_us, 2 * RandomRun::kLeastUs - 0.1);
      }
    }
  }
}

TEST(ClockAlignment, DriftsAreFoundAndTakenOut) {
  // In 100 s, 40 ppm are 4000 us: far more than the 100 us to which an offset is known.
  const Clocks clocks{{0, 5e6, -2e7, 9e8}, {0, 40e-6, -25e-6, 3e-6}};
  for (unsigned seed = 1; seed <= 10; ++seed) {
    for (const bool chain : {false, true}) {
      const RandomRun run(clocks, 100, 2000, chain, seed);
      for (std::size_t h = 1; h < 4; ++h) {
        EXPECT_NEAR(run.alignment.hosts[h].drift, clocks.drift[h], 8e-6)
            << "seed " << seed << " chain " << chain << " host " << h;
      }
      for (const auto& [host, times] : run.true_us) {
        const HostClock& clock = run.alignment.hosts[static_cast<std::size_t>(host)];
        // Three hops of a chain add up what two hosts do not know of each other.
        EXPECT_NEAR(clock.common_us(times.first), times.second, chain ? 1000 : 350)
            << "seed " << seed << " chain " << chain << " host " << host;
      }
      const HostClock& second = run.alignment.hosts[1];
      EXPECT_LE(second.least_drift, clocks.drift[1] + 1e-9);
      EXPECT_GE(second.most_drift, clocks.drift[1] - 1e-9);
    }
  }
}

TEST(ClockAlignment, AClockThatWasSetIsAnError) {
  // 500 us forward in the middle of 2 s: no straight line.
  MadeTrace made({"a", "b"});
  for (int i = 0; i < 200; ++i) {
    const double now = 10000.0 * i;
    const double other = now + (i < 100 ? 0 : 500);
    made.packet(0, 1, now, now + 1, other, other + 60, i);
    made.packet(1, 0, other + 100, other + 101, now + 100, now + 160, i);
  }
  EXPECT_THAT(thrown_error([&] { made.align(); }).what(), HasSubstr("was a clock set"));
}

TEST(ClockLine, KnowsTheSlopesThatFit) {
  // Above (0, 0) and (10, 10), below (0, 4) and (10, 12): slopes 0.6 to 1.2.
  const ClockLine line = fit_clock_line({{0, 0}, {10, 10}, {5, 1}}, {{0, 4}, {10, 12}, {5, 30}}, 5);
  EXPECT_NEAR(line.least_slope, 0.6, 1e-9);
  EXPECT_NEAR(line.most_slope, 1.2, 1e-9);
  EXPECT_GE(line.slope, 0.6);
  EXPECT_LE(line.slope, 1.2);
  EXPECT_NEAR(line.room, 2, 1e-9);
}

TEST(ClockLine, StopsAtTheSteepestSlope) {
  const ClockLine line = fit_clock_line({{3, -100}}, {{4, 100}}, 5);
  EXPECT_EQ(line.least_slope, -5);
  EXPECT_EQ(line.most_slope, 5);
  EXPECT_LT(fit_clock_line({{0, 1}}, {{0, 0}}, 5).room, 0);
}

}  // namespace
}  // namespace atl
