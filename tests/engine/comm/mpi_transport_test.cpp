// The cases of every transport on the ranks that mpirun started; run by run_mpi.sh.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "engine/comm/mpi_library.hpp"
#include "engine/comm/mpi_progress.hpp"
#include "tests/engine/comm/transport_cases.hpp"

namespace atl {
namespace {

std::unique_ptr<Transport> world;

class MpiTransportCases : public testing::TestWithParam<TransportCase> {};

TEST_P(MpiTransportCases, Holds) { GetParam().run(*world); }

INSTANTIATE_TEST_SUITE_P(Mpi, MpiTransportCases, testing::ValuesIn(transport_cases()),
                         [](const auto& instance) { return std::string(instance.param.name); });

INSTANTIATE_TEST_SUITE_P(MpiGroups, MpiTransportCases, testing::ValuesIn(group_cases()),
                         [](const auto& instance) { return std::string(instance.param.name); });

// A rank has few chunks on their way to another one, all of one piece of the packet.
TEST(MpiTransport, HoldsChunksBackUntilOthersHaveLeft) {
  MpiTransfer transfer;
  transfer.queued.resize(2);
  transfer.sending.resize(2);
  std::vector<std::size_t> posted;
  transfer.post = [&](MpiTransfer&, const MpiTransfer::Queued& next) {
    posted.push_back(next.index);
  };
  // Ten chunks of the first piece, one of the second.
  for (std::size_t i = 0; i < 11; ++i) {
    transfer.chunks.push_back({.peer = 1, .bytes = 1, .piece = i < 10 ? 0 : 1});
    transfer.queued[1].push_back({.index = i});
  }
  const auto leave = [&] {
    --transfer.sending[1].chunks;
    transfer.post_next(1);
    return posted.size();
  };
  transfer.post_next(1);
  EXPECT_EQ(posted.size(), 8U);
  EXPECT_EQ(leave(), 9U);
  EXPECT_EQ(leave(), 10U);
  // The second piece waits for all of the first.
  for (int left = 8; left > 1; --left) EXPECT_EQ(leave(), 10U);
  EXPECT_EQ(leave(), 11U);
  EXPECT_EQ(posted, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(MpiTransport, AgreesWithTheLauncher) {
  EXPECT_EQ(world->size(), launcher_info().size);
  EXPECT_EQ(world->rank(), launcher_info().rank);
  EXPECT_EQ(world->name(), launched_by_mpi() ? "mpi" : "local");
}

std::string protocol() {
  const char* const value = std::getenv("OMPI_MCA_btl_tcp_flags");
  return value == nullptr ? "" : value;
}
std::string users_protocol;  // before MPI was started; empty: none

// Unless its user asks for another protocol, Open MPI sends large packets without "put".
TEST(MpiTransport, ChoosesTheProtocolOfOpenMpi) {
  if (!launched_by_mpi() || !mpi_calls().is_open_mpi) return;
  EXPECT_EQ(protocol(), users_protocol.empty() ? "send,inplace" : users_protocol);
}

// Two transports of one process have communicators of their own.
TEST(MpiTransport, SecondTransportIsSeparate) {
  const auto second = make_mpi_transport(30, {.thread = false});
  for (const TransportCase& transport_case : transport_cases()) transport_case.run(*second);
  EXPECT_EQ(second->split(0, "all")->size(), world->size());
  std::vector<double> values{1};
  world->all_reduce(std::span(values), {.operation = "sum"});
  EXPECT_EQ(values[0], world->size());
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  atl::users_protocol = atl::protocol();
  atl::world = atl::make_mpi_transport(60);
  const int result = RUN_ALL_TESTS();
  atl::world.reset();
  return result;
}
