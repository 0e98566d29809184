// The cases of every transport on the ranks that mpirun started; run by run_mpi.sh.
#include <gtest/gtest.h>

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

TEST(MpiTransport, AgreesWithTheLauncher) {
  EXPECT_EQ(world->size(), launcher_info().size);
  EXPECT_EQ(world->rank(), launcher_info().rank);
  EXPECT_EQ(world->name(), launched_by_mpi() ? "mpi" : "local");
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
  atl::world = atl::make_mpi_transport(60);
  const int result = RUN_ALL_TESTS();
  atl::world.reset();
  return result;
}
