#include "engine/training/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"

namespace atl {
namespace {

// The error that all of three ranks throw if rank 1 does `work`.
std::string error_on_all(const std::function<void()>& work) {
  std::atomic<int> agreed{0};
  std::string said;
  run_local_ranks(3, 60, [&](Transport& transport) {
    try {
      on_all_ranks(transport, [&] {
        if (transport.rank() == 1) work();
      });
    } catch (const Error& error) {
      if (transport.rank() == 0) said = error.what();
      ++agreed;
    }
    transport.barrier({"end"});
  });
  EXPECT_EQ(agreed, 3);
  return said;
}

TEST(OnAllRanks, ErrorOfOneIsThrownOnAll) {
  EXPECT_EQ(error_on_all([] { fail_input("part 1 is damaged"); }), "part 1 is damaged");
}

TEST(OnAllRanks, ForeignExceptionsEndAllRanksToo) {
  EXPECT_EQ(error_on_all([] { throw std::length_error("too long"); }),
            "rank 1 failed unexpectedly: too long");
  EXPECT_EQ(error_on_all([] { throw 7; }), "rank 1 failed unexpectedly, with an unknown exception");
  EXPECT_EQ(error_on_all([] { throw std::bad_alloc(); }), "out of memory: an allocation failed");
}

TEST(OnAllRanks, WorkMayTakeLongerThanTheTimeout) {
  run_local_ranks(2, 0.1, [](Transport& transport) {
    on_all_ranks(transport, [&] {
      if (transport.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    });
  });
}

}  // namespace
}  // namespace atl
