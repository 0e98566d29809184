// The content that makes a file a trace, and the errors for one that lacks it.
#include "engine/trace/trace_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "tests/engine/trace/made_traces.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;

Json named(int rank, const std::string& host) {
  return {{"name", "process_name"},
          {"ph", "M"},
          {"pid", rank},
          {"args", {{"name", "rank"}, {"host", host}, {"host_key", host + " 7"}}}};
}

Json span(const std::string& name, int rank, int lane, double begin, double duration,
          const Json& arguments) {
  return {{"name", name}, {"ph", "X"},   {"ts", begin},      {"dur", duration},
          {"pid", rank},  {"tid", lane}, {"args", arguments}};
}

// Two ranks, one packet from rank 0 to rank 1, one sum.
Json small() {
  const Json packet = {
      {"epoch", 3},  {"layer", 1}, {"source", 0}, {"destination", 1}, {"direction", "backward"},
      {"bytes", 640}};
  const Json sum = {{"what", "gradient all-reduce"}, {"epoch", 3}, {"bytes", 16}};
  return {{"metadata", {{"format", "atoll trace"}, {"version", 1}, {"ranks", 2}}},
          {"traceEvents",
           {named(0, "x"), named(1, "y"), span("all-reduce", 0, 0, 30.5, 4, sum),
            span("send", 0, 6, 10, 2, packet), span("packet", 1, 3, 11, 5, packet),
            span("all-reduce", 1, 0, 31, 3.5, sum)}}};
}

TEST(TraceFile, ReadsBackWhatItHolds) {
  const TempDir dir;
  write_json(dir.path() / "trace.json", small());
  const Trace trace = read_trace(dir.path() / "trace.json");
  ASSERT_EQ(trace.ranks.size(), 2U);
  EXPECT_EQ(trace.ranks[0].host, "x");
  EXPECT_EQ(trace.ranks[1].host_key, "y 7");
  ASSERT_EQ(trace.ranks[0].events.size(), 2U);
  const TraceEvent& send = trace.ranks[0].events[0];  // by begin
  EXPECT_TRUE(send.is_send());
  EXPECT_EQ(send.begin_us, 10);
  EXPECT_EQ(send.end_us, 12);
  EXPECT_EQ(send.bytes, 640);
  EXPECT_EQ(send.direction, "backward");
  EXPECT_EQ(send.tag.epoch, 3);
  EXPECT_EQ(send.tag.layer, 1);
  EXPECT_EQ(send.tag.destination, 1);
  EXPECT_EQ(trace.ranks[0].events[1].what, "gradient all-reduce");

  const auto packets = match_packets(trace);
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].source, 0);
  EXPECT_EQ(packets[0].destination, 1);
  EXPECT_EQ(packets[0].send, 0);
  EXPECT_EQ(packets[0].packet, 0);
  const auto sums = match_reductions(trace);
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_THAT(sums[0], testing::ElementsAre(1, 1));
}

TEST(TraceFile, ReadsWhatTheRecorderWrites) {
  TraceRecorder recorder(0);
  TraceSpan span;
  span.name = "all-reduce";
  span.what = "batch norm statistics";
  span.start_us = 12.5;
  span.duration_us = 2.25;
  span.bytes = 24;
  span.tag.epoch = 2;
  const Json document =
      Json::parse(R"({"metadata": {"format": "atoll trace", "version": 1, "ranks": 1},)"
                  R"("traceEvents": [)" +
                  recorder.chrome_events({span}) + "]}");
  const Trace trace = parse_trace(document, "t");
  ASSERT_EQ(trace.ranks[0].events.size(), 1U);
  const TraceEvent& event = trace.ranks[0].events[0];
  EXPECT_NEAR(event.duration_us(), 2.25, 1e-3);
  EXPECT_EQ(event.what, "batch norm statistics");
  EXPECT_FALSE(trace.ranks[0].host.empty());
}

// The k-th packet sent is the k-th received: an evaluation repeats the labels of its epoch.
TEST(TraceFile, MatchesRepeatedPacketsInOrder) {
  const Trace trace =
      MadeTrace({"a", "a"}).packet(0, 1, 50, 51, 52, 60).packet(0, 1, 10, 11, 12, 20).trace();
  const auto packets = match_packets(trace);
  ASSERT_EQ(packets.size(), 2U);
  for (const MatchedPacket& packet : packets) {
    EXPECT_EQ(trace.ranks[0].events[static_cast<std::size_t>(packet.send)].begin_us + 10,
              trace.ranks[1].events[static_cast<std::size_t>(packet.packet)].end_us);
  }
}

TEST(TraceFile, MissingEndsAreNamed) {
  Json lost = small();
  lost["traceEvents"].erase(4);
  EXPECT_STREQ(thrown_error([&] { match_packets(parse_trace(lost, "t.json")); }).what(),
               "t.json: epoch 3, layer 1, backward: rank 0 has sent 1 packets to rank 1, which "
               "received 0: the file is damaged");
  Json alone = small();
  alone["traceEvents"].erase(5);
  EXPECT_STREQ(thrown_error([&] { match_reductions(parse_trace(alone, "t.json")); }).what(),
               "t.json: epoch 3, gradient all-reduce: rank 0 has 1 spans 'all-reduce', rank 1 has "
               "0: the file is damaged");
}

struct Damage {
  const char* pointer;  // into small()
  Json value;           // null: removed
  const char* message;
};

TEST(TraceFile, DamageIsNamedByEventAndField) {
  const std::vector<Damage> damages{
      {"/metadata", nullptr, "t.json: no trace of atoll train --trace"},
      {"/metadata/format", "other", "metadata.format is not \"atoll trace\""},
      {"/metadata/version", 2, "t.json: metadata: field 'version' is 2; this program reads 1"},
      {"/metadata/ranks", 0, "t.json: metadata: field 'ranks' is 0; allowed are 1 to"},
      {"/metadata/ranks", 3, "has no event 'process_name' with a host of rank 2, of 3"},
      {"/traceEvents", nullptr, "field 'traceEvents' is missing"},
      {"/traceEvents/2", 5, "t.json: event 2: found 5, allowed is an object"},
      {"/traceEvents/3/ph", "B", "t.json: event 3: field 'ph' is 'B'; allowed are X and M"},
      {"/traceEvents/3/pid", 2, "t.json: event 3: field 'pid' is 2; allowed are 0 to 1"},
      {"/traceEvents/3/pid", 0.5, "t.json: event 3: field 'pid'"},
      {"/traceEvents/3/tid", 9, "t.json: event 3: field 'tid' is 9; allowed are 0 to 6"},
      {"/traceEvents/3/ts", "now", "t.json: event 3: "},
      {"/traceEvents/3/ts", nullptr, "t.json: event 3: field 'ts' is missing"},
      {"/traceEvents/3/dur", -1, "t.json: event 3: field 'dur' is -1; allowed are microseconds of"},
      {"/traceEvents/3/args", 3, "t.json: event 3: field 'args' is 3; allowed is an object"},
      {"/traceEvents/3/args/bytes", -2, "t.json: event 3: field 'bytes' is -2"},
      {"/traceEvents/3/args/layer", "top", "t.json: event 3: field 'layer'"},
      {"/traceEvents/3/args/source", 2, "t.json: event 3: field 'source' is 2; allowed are 0 to 1"},
      {"/traceEvents/3/args/source", 1, "t.json: event 3: fields 'source' and 'destination'"},
      {"/traceEvents/3/name", "packet",
       "t.json: event 3: field 'name' is 'packet'; allowed on tid"},
      {"/traceEvents/1/pid", 0, "t.json: event 1: rank 0 is named a second time"},
      {"/traceEvents/1/args/host_key", nullptr, "t.json: event 1: field 'host_key' is missing"},
  };
  for (const Damage& damage : damages) {
    Json json = small();
    const Json::json_pointer pointer(damage.pointer);
    if (damage.value.is_null()) {
      json[pointer.parent_pointer()].erase(pointer.back());
    } else {
      json[pointer] = damage.value;
    }
    const Error error = thrown_error([&] { parse_trace(json, "t.json"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr(damage.message)) << damage.pointer;
  }
}

TEST(TraceFile, OtherFilesAreRefused) {
  for (const char* text : {"[]", "3", "null", "{\"traceEvents\": []}"}) {
    EXPECT_THAT(thrown_error([&] { parse_trace(Json::parse(text), "t.json"); }).what(),
                HasSubstr("t.json: no trace of atoll train --trace"))
        << text;
  }
}

}  // namespace
}  // namespace atl
