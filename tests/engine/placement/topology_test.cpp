#include "engine/placement/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/files.hpp"
#include "engine/placement/topology_format.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Two hosts of two ranks, of which the first has a socket per rank.
const char* const kFile = R"({
  "format": 1,
  "hosts": [
    {"name": "a", "send_mbit_per_s": 200, "receive_mbit_per_s": null},
    {"name": "b"}
  ],
  "ranks": [
    {"host": "a", "island": "left", "kind": "cpu", "memory_gib": 12,
     "spmm_gb_per_s": {"64": 4, "16": 3.1}, "gemm_gflop_per_s": {"64": 30},
     "elementwise_gb_per_s": 5, "quantize_gb_per_s": 1.2, "progress_ms_per_gb": 300,
     "polling_percent": 7},
    {"host": "a", "island": "right", "kind": "cpu", "memory_gib": 0.5,
     "spmm_gb_per_s": {"16": 3.1}, "gemm_gflop_per_s": {"64": 30},
     "elementwise_gb_per_s": 5, "quantize_gb_per_s": 1.2},
    {"host": "b", "kind": "cuda", "memory_gib": 80, "spmm_gb_per_s": {"16": 900},
     "gemm_gflop_per_s": {"64": 20000}, "elementwise_gb_per_s": 2000, "quantize_gb_per_s": 400,
     "count": 2}
  ],
  "links": {
    "within_island": {"latency_us": 5, "gbit_per_s": 400},
    "within_host": {"latency_us": 10, "gbit_per_s": 40},
    "between_hosts": {"latency_us": 50.5, "gbit_per_s": 0.2},
    "pairs": [{"from": 3, "to": 0, "latency_us": 0, "gbit_per_s": 0.1}]
  }
})";

Json file() { return Json::parse(kFile); }

void expect_equal(const std::vector<RateAtColumns>& a, const std::vector<RateAtColumns>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].columns, b[i].columns);
    EXPECT_EQ(a[i].per_s, b[i].per_s);
  }
}

// To the last bit.
void expect_equal(const Topology& a, const Topology& b) {
  ASSERT_EQ(a.hosts.size(), b.hosts.size());
  for (std::size_t h = 0; h < a.hosts.size(); ++h) {
    EXPECT_EQ(a.hosts[h].name, b.hosts[h].name);
    EXPECT_EQ(a.hosts[h].send_bytes_per_s, b.hosts[h].send_bytes_per_s);
    EXPECT_EQ(a.hosts[h].receive_bytes_per_s, b.hosts[h].receive_bytes_per_s);
  }
  ASSERT_EQ(a.ranks(), b.ranks());
  for (std::size_t r = 0; r < a.devices.size(); ++r) {
    const Device& x = a.devices[r];
    const Device& y = b.devices[r];
    EXPECT_EQ(x.host, y.host) << r;
    EXPECT_EQ(x.island, y.island) << r;
    EXPECT_EQ(x.kind, y.kind) << r;
    EXPECT_EQ(x.memory_bytes, y.memory_bytes) << r;
    EXPECT_EQ(x.elementwise_bytes_per_s, y.elementwise_bytes_per_s) << r;
    EXPECT_EQ(x.quantize_bytes_per_s, y.quantize_bytes_per_s) << r;
    EXPECT_EQ(x.progress_s_per_byte, y.progress_s_per_byte) << r;
    EXPECT_EQ(x.polling_share, y.polling_share) << r;
    expect_equal(x.spmm_bytes_per_s, y.spmm_bytes_per_s);
    expect_equal(x.gemm_flop_per_s, y.gemm_flop_per_s);
  }
  ASSERT_EQ(a.links.size(), b.links.size());
  for (std::size_t i = 0; i < a.links.size(); ++i) {
    EXPECT_EQ(a.links[i].latency_s, b.links[i].latency_s) << i;
    EXPECT_EQ(a.links[i].bytes_per_s, b.links[i].bytes_per_s) << i;
  }
}

void expect_round_trip(const Topology& topology) {
  const Json written = to_json(topology);
  // Through text, as a file holds it.
  expect_equal(parse_topology(Json::parse(written.dump()), "round trip"), topology);
}

TEST(Topology, ReadsEveryField) {
  const Topology topology = parse_topology(file(), "t.json");
  ASSERT_EQ(topology.hosts.size(), 2U);
  EXPECT_EQ(topology.hosts[0].name, "a");
  EXPECT_EQ(topology.hosts[0].send_bytes_per_s, 25e6);
  EXPECT_EQ(topology.hosts[0].receive_bytes_per_s, kUnlimited);
  EXPECT_EQ(topology.hosts[1].name, "b");
  EXPECT_EQ(topology.hosts[1].send_bytes_per_s, kUnlimited);
  EXPECT_EQ(topology.hosts[1].receive_bytes_per_s, kUnlimited);

  ASSERT_EQ(topology.ranks(), 4);
  const std::vector<Device>& devices = topology.devices;
  EXPECT_EQ(devices[0].host, 0);
  EXPECT_EQ(devices[0].island, 0);
  EXPECT_EQ(devices[0].kind, "cpu");
  EXPECT_EQ(devices[0].memory_bytes, 12.0 * (1 << 30));
  ASSERT_EQ(devices[0].spmm_bytes_per_s.size(), 2U);
  EXPECT_EQ(devices[0].spmm_bytes_per_s[0].columns, 16);
  EXPECT_EQ(devices[0].spmm_bytes_per_s[0].per_s, 3.1e9);
  EXPECT_EQ(devices[0].spmm_bytes_per_s[1].columns, 64);
  EXPECT_EQ(devices[0].spmm_bytes_per_s[1].per_s, 4e9);
  ASSERT_EQ(devices[0].gemm_flop_per_s.size(), 1U);
  EXPECT_EQ(devices[0].gemm_flop_per_s[0].columns, 64);
  EXPECT_EQ(devices[0].gemm_flop_per_s[0].per_s, 30e9);
  EXPECT_EQ(devices[0].elementwise_bytes_per_s, 5e9);
  EXPECT_EQ(devices[0].quantize_bytes_per_s, 1.2e9);
  EXPECT_DOUBLE_EQ(devices[0].progress_s_per_byte, 0.3e-9);
  EXPECT_DOUBLE_EQ(devices[0].polling_share, 0.07);
  EXPECT_EQ(devices[1].host, 0);
  EXPECT_EQ(devices[1].island, 1);
  EXPECT_EQ(devices[1].memory_bytes, 0.5 * (1 << 30));
  EXPECT_EQ(devices[1].progress_s_per_byte, 0);
  for (const int rank : {2, 3}) {
    EXPECT_EQ(devices[rank].host, 1);
    EXPECT_EQ(devices[rank].island, 2);
    EXPECT_EQ(devices[rank].kind, "cuda");
  }

  EXPECT_EQ(link_class(topology, 0, 1), LinkClass::kWithinHost);
  EXPECT_EQ(link_class(topology, 2, 3), LinkClass::kWithinIsland);
  EXPECT_EQ(link_class(topology, 0, 3), LinkClass::kBetweenHosts);
  EXPECT_EQ(topology.link(0, 1).latency_s, 10e-6);
  EXPECT_EQ(topology.link(0, 1).bytes_per_s, 5e9);
  EXPECT_EQ(topology.link(3, 2).bytes_per_s, 50e9);
  EXPECT_EQ(topology.link(0, 3).latency_s, 50.5e-6);
  EXPECT_EQ(topology.link(0, 3).bytes_per_s, 25e6);
  EXPECT_EQ(topology.link(3, 0).latency_s, 0);
  EXPECT_EQ(topology.link(3, 0).bytes_per_s, 12.5e6);
}

// A host group of 32 with 8 ranks each, of which two islands are made in every host.
TEST(Topology, ShortFileOfManyRanks) {
  Json json = file();
  json["hosts"] = Json::parse(R"([{"name": "node", "count": 32, "send_mbit_per_s": 10000}])");
  json["ranks"][0]["host"] = "node";
  json["ranks"][0]["island"] = "{host} left";
  json["ranks"][0]["count"] = 6;
  json["ranks"][1]["host"] = "node-31";
  json["ranks"][1]["island"] = "node-31 left";
  json["ranks"][1]["count"] = 2;
  json["ranks"][2]["host"] = "node";
  json["links"].erase("pairs");
  const Topology topology = parse_topology(json, "t.json");
  ASSERT_EQ(topology.ranks(), 32 * 6 + 2 + 32 * 2);
  ASSERT_EQ(topology.hosts.size(), 32U);
  EXPECT_EQ(topology.hosts[31].name, "node-31");
  EXPECT_EQ(topology.hosts[31].send_bytes_per_s, 1.25e9);
  EXPECT_EQ(topology.devices[5].host, 0);
  EXPECT_EQ(topology.devices[6].host, 1);
  EXPECT_EQ(topology.devices[191].host, 31);
  EXPECT_EQ(topology.devices[192].host, 31);  // of the second entry
  EXPECT_EQ(topology.devices[194].host, 0);   // of the third
  EXPECT_EQ(topology.devices[257].host, 31);
  EXPECT_EQ(topology.devices[191].island, 31);
  EXPECT_EQ(topology.devices[193].island, 31);  // the name says it
  EXPECT_EQ(topology.devices[194].island, 32);  // the host's own
  EXPECT_EQ(topology.devices[257].island, 63);
  EXPECT_EQ(link_class(topology, 0, 194), LinkClass::kWithinHost);
  EXPECT_EQ(link_class(topology, 0, 5), LinkClass::kWithinIsland);
  EXPECT_EQ(link_class(topology, 5, 6), LinkClass::kBetweenHosts);
  expect_round_trip(topology);
}

TEST(Topology, IslandMaySpanHosts) {
  Json json = file();
  json["ranks"][1]["island"] = "b";  // the name that host b's ranks have by default
  const Topology topology = parse_topology(json, "t.json");
  EXPECT_EQ(topology.devices[1].island, topology.devices[2].island);
  EXPECT_EQ(link_class(topology, 1, 2), LinkClass::kWithinIsland);
  EXPECT_EQ(topology.link(1, 2).bytes_per_s, 50e9);
  expect_round_trip(topology);
}

TEST(Topology, OneRankNeedsNoLinks) {
  Json json = file();
  json["hosts"].erase(0);
  json["ranks"] = Json::array({json["ranks"][2]});
  json["ranks"][0].erase("count");
  json.erase("links");
  const Topology topology = parse_topology(json, "t.json");
  EXPECT_EQ(topology.ranks(), 1);
  expect_round_trip(topology);
}

TEST(Topology, RoundTripIsExact) {
  expect_round_trip(parse_topology(file(), "t.json"));
  // Numbers of 17 digits, and a rate that no short decimal gives.
  Json json = file();
  std::uint64_t state = 1;
  const auto odd = [&] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state >> 11U) * 0x1p-53 * std::exp2(static_cast<int>(state % 40));
  };
  for (int repetition = 0; repetition < 200; ++repetition) {
    json["hosts"][0]["send_mbit_per_s"] = odd();
    json["ranks"][0]["memory_gib"] = odd();
    json["ranks"][0]["spmm_gb_per_s"]["16"] = odd();
    json["ranks"][0]["gemm_gflop_per_s"]["64"] = odd();
    json["ranks"][0]["elementwise_gb_per_s"] = odd();
    json["ranks"][0]["quantize_gb_per_s"] = odd();
    json["ranks"][0]["progress_ms_per_gb"] = odd();
    json["ranks"][0]["polling_percent"] = std::min(100.0, odd());
    json["links"]["between_hosts"]["latency_us"] = odd();
    json["links"]["between_hosts"]["gbit_per_s"] = odd();
    expect_round_trip(parse_topology(json, "t.json"));
  }
}

TEST(Topology, FileThatIsWrittenIsShort) {
  const Json written = to_json(parse_topology(file(), "t.json"));
  // Numbers as a person wrote them; equal neighbours and equal pairs once.
  EXPECT_EQ(written.at("hosts").at(0).dump(),
            R"({"name":"a","send_mbit_per_s":200.0,"receive_mbit_per_s":null})");
  ASSERT_EQ(written.at("ranks").size(), 3U);
  EXPECT_EQ(written.at("ranks").at(0).dump(),
            R"({"host":"a","island":"island 0","kind":"cpu","memory_gib":12.0,)"
            R"("spmm_gb_per_s":{"16":3.1,"64":4.0},"gemm_gflop_per_s":{"64":30.0},)"
            R"("elementwise_gb_per_s":5.0,"quantize_gb_per_s":1.2,"progress_ms_per_gb":300.0,)"
            R"("polling_percent":7.0})");
  EXPECT_EQ(written.at("ranks").at(2).at("count"), 2);
  EXPECT_FALSE(written.at("ranks").at(2).contains("island"));
  EXPECT_EQ(written.at("links").dump(),
            R"({"within_island":{"latency_us":5.0,"gbit_per_s":400.0},)"
            R"("within_host":{"latency_us":10.0,"gbit_per_s":40.0},)"
            R"("between_hosts":{"latency_us":50.5,"gbit_per_s":0.2},)"
            R"("pairs":[{"from":3,"to":0,"latency_us":0.0,"gbit_per_s":0.1}]})");
}

TEST(Topology, MeasuredPairsAreAllWritten) {
  Topology topology = parse_topology(file(), "t.json");
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    if (i % 5 != 0)
      topology.links[i] = {1e-6 * static_cast<double>(i), 1.25e8 * static_cast<double>(i + 1)};
  }
  const Json links = to_json(topology).at("links");
  EXPECT_FALSE(links.contains("within_host"));
  EXPECT_FALSE(links.contains("between_hosts"));
  EXPECT_EQ(links.at("pairs").size(), 12U);
  EXPECT_EQ(links.at("pairs").at(0).dump(),
            R"({"from":0,"to":1,"latency_us":1.0,"gbit_per_s":2.0})");
  expect_round_trip(topology);
}

TEST(Topology, NameOfAnIslandIsNoHost) {
  Json json = file();
  json["hosts"][1]["name"] = "island 0";
  json["ranks"][2]["host"] = "island 0";
  expect_round_trip(parse_topology(json, "t.json"));
}

TEST(Topology, ReadsFiles) {
  const TempDir folder;
  write_atomically(folder.path() / "t.json", kFile);
  expect_equal(read_topology(folder.path() / "t.json"), parse_topology(file(), "t.json"));
  write_atomically(folder.path() / "cut.json", R"({"format": 1, "hosts": [)");
  EXPECT_THAT(thrown_error([&] { read_topology(folder.path() / "cut.json"); }).what(),
              HasSubstr("cut.json: not valid JSON"));
  write_atomically(folder.path() / "huge.json", R"({"format": 1e999})");
  EXPECT_THAT(thrown_error([&] { read_topology(folder.path() / "huge.json"); }).what(),
              HasSubstr("huge.json: not valid JSON"));
  EXPECT_THAT(thrown_error([&] { read_topology(folder.path() / "none.json"); }).what(),
              HasSubstr("none.json"));
}

struct BadFile {
  const char* pointer;  // JSON pointer to what is replaced, or added to a list with "-"
  const char* value;    // JSON; "" removes it
  std::vector<const char*> words;
};

const BadFile kBadFiles[] = {
    {"", "[]", {"t.json", "[]", "format, hosts, ranks, links"}},
    {"/format", "", {"t.json", "'format' is missing", "1"}},
    {"/format", "2", {"'format' is 2", "allowed are 1"}},
    {"/format", "\"1\"", {"'format' is \"1\""}},
    {"/hots", "[]", {"t.json", "unknown field 'hots'", "format, hosts, ranks, links"}},
    {"/hosts", "", {"t.json", "'hosts' is missing"}},
    {"/hosts", "[]", {"'hosts' is []", "at least one"}},
    {"/hosts", "{}", {"'hosts' is {}", "lists"}},
    {"/hosts/1", "7", {"hosts[1]", "found 7", "name"}},
    {"/hosts/1/name", "", {"hosts[1]", "'name' is missing"}},
    {"/hosts/1/name", "3", {"hosts[1]", "'name' is 3"}},
    {"/hosts/1/name", "\"\"", {"hosts[1]", "'name' is \"\""}},
    {"/hosts/1/name", "\"a\"", {"hosts[1]", "'a'", "already"}},
    {"/hosts/1/speed", "3", {"hosts[1]", "unknown field 'speed'", "send_mbit_per_s"}},
    {"/hosts/1/count", "0", {"hosts[1]", "'count' is 0", "1 to 4095"}},
    {"/hosts/1/count", "5000", {"hosts[1]", "'count' is 5000", "1 to 4095"}},
    {"/hosts/1/count", "1.5", {"hosts[1]", "'count' is 1.5", "whole numbers"}},
    {"/hosts/0/send_mbit_per_s", "0", {"hosts[0]", "'send_mbit_per_s' is 0", "above 0", "null"}},
    {"/hosts/0/send_mbit_per_s", "-2", {"hosts[0]", "'send_mbit_per_s' is -2"}},
    {"/hosts/0/receive_mbit_per_s", "\"fast\"", {"'receive_mbit_per_s' is \"fast\"", "numbers"}},
    {"/hosts/0/receive_mbit_per_s", "1e306", {"'receive_mbit_per_s' is 1e+306", "finite"}},
    {"/hosts/-", R"({"name": "idle"})", {"hosts", "'idle' has no rank"}},
    {"/ranks", "", {"'ranks' is missing"}},
    {"/ranks", "[]", {"'ranks' is []"}},
    {"/ranks/0", "\"cpu\"", {"ranks[0]", "found \"cpu\"", "memory_gib"}},
    {"/ranks/0/memory", "3", {"ranks[0]", "unknown field 'memory'", "memory_gib"}},
    {"/ranks/0/host", "", {"ranks[0]", "'host' is missing"}},
    {"/ranks/0/host", "\"c\"", {"ranks[0]", "'host' is \"c\"", "allowed are a, b"}},
    {"/ranks/0/island", "\"\"", {"ranks[0]", "'island' is \"\""}},
    {"/ranks/0/island", "0", {"ranks[0]", "'island' is 0"}},
    {"/ranks/0/kind", "", {"ranks[0]", "'kind' is missing", "cpu and cuda"}},
    {"/ranks/0/kind", "\"tpu\"", {"ranks[0]", "'kind' is \"tpu\"", "cpu and cuda"}},
    {"/ranks/0/memory_gib", "", {"ranks[0]", "'memory_gib' is missing"}},
    {"/ranks/0/memory_gib", "0", {"ranks[0]", "'memory_gib' is 0", "above 0"}},
    {"/ranks/0/memory_gib", "null", {"ranks[0]", "'memory_gib' is null", "above 0"}},
    {
        "/ranks/0/memory_gib",
        "1e300",
        {"ranks[0]", "'memory_gib' is 1e+300", "finite"},
    },
    {"/ranks/0/spmm_gb_per_s", "", {"ranks[0]", "'spmm_gb_per_s' is missing"}},
    {"/ranks/0/spmm_gb_per_s", "4", {"'spmm_gb_per_s' is 4", "columns"}},
    {"/ranks/0/spmm_gb_per_s", "{}", {"'spmm_gb_per_s' is {}", "columns"}},
    {"/ranks/0/spmm_gb_per_s/16", "0", {"ranks[0].spmm_gb_per_s", "'16' is 0", "above 0"}},
    {"/ranks/0/spmm_gb_per_s/16", "true", {"ranks[0].spmm_gb_per_s", "'16' is true"}},
    {"/ranks/0/spmm_gb_per_s/wide", "3", {"ranks[0].spmm_gb_per_s", "'wide'", "whole numbers"}},
    {"/ranks/0/spmm_gb_per_s/0", "3", {"ranks[0].spmm_gb_per_s", "'0'", "from 1"}},
    {"/ranks/0/spmm_gb_per_s/016", "3", {"ranks[0].spmm_gb_per_s", "'016'"}},
    {"/ranks/0/spmm_gb_per_s/9999999999", "3", {"'9999999999'"}},
    {"/ranks/0/gemm_gflop_per_s", "", {"ranks[0]", "'gemm_gflop_per_s' is missing"}},
    {"/ranks/0/gemm_gflop_per_s/64", "-1", {"ranks[0].gemm_gflop_per_s", "'64' is -1"}},
    {"/ranks/0/elementwise_gb_per_s", "", {"'elementwise_gb_per_s' is missing"}},
    {"/ranks/0/elementwise_gb_per_s", "0", {"ranks[0]", "'elementwise_gb_per_s' is 0"}},
    {"/ranks/0/quantize_gb_per_s", "", {"'quantize_gb_per_s' is missing"}},
    {"/ranks/0/quantize_gb_per_s", "[1]", {"ranks[0]", "'quantize_gb_per_s' is [1]"}},
    {"/ranks/0/progress_ms_per_gb", "-1", {"ranks[0]", "'progress_ms_per_gb' is -1", "at least 0"}},
    {"/ranks/0/polling_percent", "-1", {"ranks[0]", "'polling_percent' is -1", "at least 0"}},
    {"/ranks/0/polling_percent", "101", {"ranks[0]", "'polling_percent' is", "101", "0 to 100"}},
    {"/ranks/2/count", "0", {"ranks[2]", "'count' is 0", "1 to 4094"}},
    {"/ranks/2/count", "4095", {"ranks[2]", "'count' is 4095", "1 to 4094"}},
    {"/links", "", {"t.json", "'links' is missing"}},
    {"/links", "[]", {"links", "found []", "within_island"}},
    {"/links/between_host", "{}", {"links", "unknown field 'between_host'", "between_hosts"}},
    {"/links/between_hosts", "", {"links", "rank 0 to rank 2", "'between_hosts'"}},
    {"/links/within_host", "", {"links", "rank 0 to rank 1", "'within_host'"}},
    {"/links/within_island", "", {"links", "rank 2 to rank 3", "'within_island'"}},
    {"/links/within_host", "40", {"links.within_host", "found 40", "gbit_per_s"}},
    {"/links/within_host/gbit_per_s", "", {"links.within_host", "'gbit_per_s' is missing"}},
    {"/links/within_host/gbit_per_s", "0", {"links.within_host", "'gbit_per_s' is 0", "above 0"}},
    {"/links/within_host/latency_us", "-1", {"links.within_host", "'latency_us' is -1"}},
    {"/links/within_host/latency_ms", "1", {"links.within_host", "'latency_ms'", "latency_us"}},
    {"/links/pairs", "{}", {"links", "'pairs' is {}", "lists"}},
    {"/links/pairs/0/from", "4", {"links.pairs[0]", "'from' is 4", "0 to 3"}},
    {"/links/pairs/0/to", "-1", {"links.pairs[0]", "'to' is -1", "0 to 3"}},
    {"/links/pairs/0/to", "", {"links.pairs[0]", "'to' is missing", "0 to 3"}},
    {"/links/pairs/0/to", "3", {"links.pairs[0]", "rank 3 to rank 3", "two ranks"}},
    {"/links/pairs/0/gbit_per_s", "null", {"links.pairs[0]", "'gbit_per_s' is null"}},
    {"/links/pairs/-",
     R"({"from": 3, "to": 0, "latency_us": 1, "gbit_per_s": 1})",
     {"links.pairs[1]", "rank 3 to rank 0", "once"}},
};

TEST(Topology, EveryBadFieldIsNamed) {
  for (const BadFile& bad : kBadFiles) {
    SCOPED_TRACE(std::string(bad.pointer) + " = " + bad.value);
    Json json = file();
    const Json::json_pointer pointer(bad.pointer);
    if (*bad.value == '\0') {
      json.at(pointer.parent_pointer()).erase(pointer.back());
    } else {
      json[pointer] = Json::parse(bad.value);
    }
    const Error error = thrown_error([&] { parse_topology(json, "t.json"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("t.json"));
    for (const char* word : bad.words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(Topology, BadJsonIsShownInShort) {
  Json json = file();
  json["hosts"] = std::string(10000, 'x');
  EXPECT_LT(std::string(thrown_error([&] { parse_topology(json, "t.json"); }).what()).size(), 200U);
}

TEST(Topology, RateBetweenColumnsIsInterpolated) {
  const std::vector<RateAtColumns> rates{{16, 100}, {64, 400}, {128, 200}};
  EXPECT_EQ(rate_at(rates, 1), 100);
  EXPECT_EQ(rate_at(rates, 16), 100);
  EXPECT_EQ(rate_at(rates, 40), 250);
  EXPECT_EQ(rate_at(rates, 64), 400);
  EXPECT_EQ(rate_at(rates, 96), 300);
  EXPECT_EQ(rate_at(rates, 128), 200);
  EXPECT_EQ(rate_at(rates, 1000), 200);
  EXPECT_EQ(rate_at({{64, 7}}, 1), 7);
  EXPECT_EQ(rate_at({{64, 7}}, 100), 7);
}

TEST(TopologyUnit, RoundsToDigitsOfTheFile) {
  EXPECT_EQ(kMbitPerS.rounded(23912345.678, 4), kMbitPerS.to_base(191.3));
  EXPECT_EQ(kMbitPerS.from_base(kMbitPerS.rounded(23912345.678, 4)), 191.3);
  EXPECT_EQ(kMicroseconds.from_base(kMicroseconds.rounded(12.34567e-6, 3)), 12.3);
  EXPECT_EQ(kGib.rounded(0, 4), 0);
}

}  // namespace
}  // namespace atl
