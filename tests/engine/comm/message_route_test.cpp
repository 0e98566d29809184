#include "engine/comm/message_route.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/comm/rank_list.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

RankDevice cuda_device(const std::string& host, const std::string& device_id,
                       const std::string& nccl = "2.28.9") {
  return {"cuda", host, host + " 1234", device_id, nccl};
}
RankDevice cpu_device(const std::string& backend = "cpu") {
  return {backend, "a", "a 1234", "host", "2.28.9"};
}

TEST(RankList, NamesFewRanksAndCountsMany) {
  EXPECT_EQ(rank_list(std::vector<int>{3}), "rank 3");
  EXPECT_EQ(rank_list(std::vector<int>{0, 2}), "ranks 0 and 2");
  EXPECT_EQ(rank_list(std::vector<int>{0, 1, 5}), "ranks 0, 1 and 5");
  std::vector<int> ranks(8);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(rank_list(ranks), "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
  ranks.push_back(8);
  EXPECT_EQ(rank_list(ranks), "ranks 0, 1, 2, 3, 4, 5, 6 and 2 more");
}

TEST(NcclObstacle, NoneWithADevicePerRank) {
  EXPECT_EQ(nccl_obstacle(std::vector{cuda_device("a", "0000:1b:00.0")}), "");
  // The same PCI id on two hosts is two devices.
  EXPECT_EQ(
      nccl_obstacle(std::vector{cuda_device("a", "0000:1b:00.0"), cuda_device("a", "0000:1c:00.0"),
                                cuda_device("b", "0000:1b:00.0")}),
      "");
}

TEST(NcclObstacle, NamesRanksThatShareADevice) {
  EXPECT_EQ(nccl_obstacle(
                std::vector{cuda_device("x", "0000:1b:00.0"), cuda_device("x", "0000:1c:00.0"),
                            cuda_device("x", "0000:1d:00.0"), cuda_device("x", "0000:1c:00.0")}),
            "ranks 1 and 3 share device 0000:1c:00.0 of host x, which NCCL refuses");
}

// Two hosts may have one name, so the name alone decides nothing.
TEST(NcclObstacle, HostsAreToldApartByTheirKey) {
  RankDevice other = cuda_device("localhost", "0000:1b:00.0");
  other.host_key = "localhost 5678";
  EXPECT_EQ(nccl_obstacle(std::vector{cuda_device("localhost", "0000:1b:00.0"), other}), "");
}

TEST(NcclObstacle, NamesRanksWithoutADevice) {
  EXPECT_EQ(nccl_obstacle(std::vector{cpu_device(), cuda_device("a", "0000:1b:00.0"),
                                      cpu_device("reference")}),
            "ranks 0 and 2 compute on no CUDA device (backend cpu, reference)");
  EXPECT_EQ(nccl_obstacle(std::vector{cuda_device("a", "0000:1b:00.0"), cpu_device()}),
            "rank 1 computes on no CUDA device (backend cpu)");
  EXPECT_EQ(nccl_obstacle(std::vector{cpu_device(), cpu_device()}),
            "no rank computes on a CUDA device");
}

TEST(NcclObstacle, NamesRanksWithoutTheLibrary) {
  const RankDevice with = cuda_device("a", "0000:1b:00.0");
  RankDevice without = cuda_device("a", "0000:1c:00.0", "");
  without.nccl_absence = "libnccl.so.2 does not load";
  EXPECT_EQ(nccl_obstacle(std::vector{with, without}),
            "rank 1 has no NCCL (libnccl.so.2 does not load)");
  EXPECT_EQ(nccl_obstacle(std::vector{without, with, without}),
            "ranks 0 and 2 have no NCCL (libnccl.so.2 does not load)");
  EXPECT_EQ(nccl_obstacle(std::vector{without, without}), "libnccl.so.2 does not load");
  EXPECT_EQ(nccl_obstacle(std::vector{with, cuda_device("b", "0000:1b:00.0", "2.20.5")}),
            "rank 0 has NCCL 2.28.9, but rank 1 has 2.20.5");
}

TEST(DescribeRoute, SaysWhereMessagesTravelAndWhy) {
  const std::vector shared{cuda_device("x", "0000:1b:00.0"), cuda_device("x", "0000:1b:00.0")};
  EXPECT_EQ(describe_route(shared, nccl_obstacle(shared), "mpi"),
            "ranks 0 and 1 share device 0000:1b:00.0 of host x, which NCCL refuses: messages "
            "travel through pinned memory and mpi");
  const std::vector cpus{cpu_device(), cpu_device()};
  EXPECT_EQ(describe_route(cpus, nccl_obstacle(cpus), "local"),
            "no rank computes on a CUDA device: messages travel through host memory and local");
  const std::vector good{cuda_device("a", "1"), cuda_device("a", "2"), cuda_device("b", "1")};
  EXPECT_EQ(describe_route(good, nccl_obstacle(good), "mpi"),
            "messages travel by NCCL 2.28.9 between 3 devices of 2 hosts");
}

TEST(RankDevice, SurvivesTheWire) {
  const RankDevice device{"cuda", "h\"1\"", "h 12\n", "0000:1b:00.0", "", "not to be loaded"};
  const RankDevice back = rank_device_from_text(to_text(device));
  EXPECT_EQ(back.backend, device.backend);
  EXPECT_EQ(back.host, device.host);
  EXPECT_EQ(back.host_key, device.host_key);
  EXPECT_EQ(back.device_id, device.device_id);
  EXPECT_EQ(back.nccl_version, device.nccl_version);
  EXPECT_EQ(back.nccl_absence, device.nccl_absence);
}

TEST(RankDevice, RefusesOtherTexts) {
  for (const std::string text : {"", "nonsense", "[]", R"(["cuda","a","b","c"])",
                                 R"(["cuda","a","b","c","d"])", R"(["cuda","a","b","c","d",1])"}) {
    const Error error = thrown_error([&] { rank_device_from_text(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kCommunication) << text;
  }
}

TEST(RankDevice, OfThisHostHasItsNameAndKey) {
  const RankDevice device = rank_device("cpu", "host");
  EXPECT_EQ(device.backend, "cpu");
  EXPECT_EQ(device.device_id, "host");
  EXPECT_THAT(device.host_key, testing::StartsWith(device.host + " "));
  EXPECT_EQ(device.host_key, rank_device("cuda", "0000:1b:00.0").host_key);
}

}  // namespace
}  // namespace atl
