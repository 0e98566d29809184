// Spans on one clock, clipped, and the Chrome trace made of them.
#include "engine/trace/merge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/engine/trace/two_ranks.hpp"

namespace atl {
namespace {

const TraceEvent& packet_event(const MergedTrace& merged, const MatchedPacket& packet) {
  return merged.trace.ranks[static_cast<std::size_t>(packet.destination)]
      .events[static_cast<std::size_t>(packet.packet)];
}
const TraceEvent& send_event(const MergedTrace& merged, const MatchedPacket& packet) {
  return merged.trace.ranks[static_cast<std::size_t>(packet.source)]
      .events[static_cast<std::size_t>(packet.send)];
}

TEST(Merge, ClipsPacketsToTheirSending) {
  const MergedTrace merged = TwoRanks{}.merged();
  ASSERT_EQ(merged.packets.size(), 2U);
  const TraceEvent& to_1 = packet_event(merged, merged.packets[0]);
  EXPECT_EQ(to_1.begin_us, 33);  // awaited later than sent: stays
  EXPECT_EQ(to_1.end_us, 45);
  EXPECT_EQ(merged.packets[0].awaited_us, 33);
  const TraceEvent& to_0 = packet_event(merged, merged.packets[1]);
  EXPECT_EQ(to_0.begin_us, 33);  // awaited from 11, but posted at 33
  EXPECT_EQ(to_0.end_us, 58);
  EXPECT_EQ(merged.packets[1].awaited_us, 11);
}

TEST(Merge, MovesHostsToTheClockOfTheFirst) {
  // The other clock has these bounds alone: o >= 90 - 1100 by the sum, o <= 97 - 1080 by it.
  const MergedTrace merged =
      TwoRanks{.second_host = "b", .second_clock = 1000, .begin = 7e9}.merged();
  const HostClock& second = merged.clocks.hosts[1];
  EXPECT_NEAR(second.low_us, -1010, 1e-5);
  EXPECT_NEAR(second.high_us, -983, 1e-5);
  // Everything counts from the first event, rank 0's epoch.
  EXPECT_EQ(merged.trace.ranks[0].events.front().begin_us, 0);
  EXPECT_NEAR(merged.trace.ranks[1].events.front().begin_us, 5 + 1000 - 996.5, 1e-5);
  for (const MatchedPacket& packet : merged.packets) {
    EXPECT_GE(packet_event(merged, packet).begin_us, send_event(merged, packet).begin_us);
    EXPECT_LE(packet_event(merged, packet).begin_us, packet_event(merged, packet).end_us);
  }
}

// The slice of a lane that an arrow's end lies in, or -1.
int slice_around(const Json& events, const Json& arrow) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& e = events[i];
    if (e.at("ph") != "X" || e.at("pid") != arrow.at("pid") || e.at("tid") != arrow.at("tid")) {
      continue;
    }
    const double begin = e.at("ts").get<double>();
    const double ts = arrow.at("ts").get<double>();
    if (begin <= ts && ts < begin + e.at("dur").get<double>()) return static_cast<int>(i);
  }
  return -1;
}

TEST(Merge, ChromeTraceHasNamesAndArrows) {
  const MergedTrace merged = TwoRanks{.second_host = "b", .second_clock = 1000}.merged();
  const Json trace = Json::parse(chrome_trace(merged));
  const Json& events = trace.at("traceEvents");
  std::set<std::string> processes;
  std::set<std::string> threads;
  int spans = 0;
  int starts = 0;
  int ends = 0;
  for (const Json& event : events) {
    const std::string kind = event.at("ph");
    if (event.at("name") == "process_name") processes.insert(event.at("args").at("name"));
    if (event.at("name") == "thread_name") threads.insert(event.at("args").at("name"));
    spans += kind == "X" ? 1 : 0;
    if (kind == "s") {
      ++starts;
      const int slice = slice_around(events, event);
      ASSERT_GE(slice, 0);
      EXPECT_EQ(events[static_cast<std::size_t>(slice)].at("name"), "post");
    } else if (kind == "f") {
      ++ends;
      const int slice = slice_around(events, event);
      ASSERT_GE(slice, 0);
      EXPECT_EQ(events[static_cast<std::size_t>(slice)].at("name"), "packet");
    }
  }
  EXPECT_THAT(processes, testing::ElementsAre("rank 0 on a", "rank 1 on b"));
  EXPECT_THAT(threads, testing::ElementsAre("epochs", "from rank 0", "from rank 1", "main thread",
                                            "to rank 0", "to rank 1"));
  EXPECT_EQ(spans, 2 + 12 + 2 + 4);
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(ends, 2);
  const Json& hosts = trace.at("metadata").at("hosts");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[1].at("host"), "b");
  EXPECT_NEAR(hosts[1].at("offset_low_us").get<double>(), -1010, 1e-9);
  EXPECT_NEAR(hosts[1].at("offset_high_us").get<double>(), -983, 1e-9);
}

}  // namespace
}  // namespace atl
