// Loops that the threads of the cpu backend share: whole, by as many threads as the work is worth,
// and without waiting for threads that do not come.
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "base/workers.hpp"
#include "kernels/registry.hpp"

namespace atl {
namespace {

TEST(Workers, ThreadsAreChosenByTheSizeOfTheWork) {
  EXPECT_EQ(threads_for(0, 8), 1);
  EXPECT_EQ(threads_for(2 * kElementsPerThread - 1, 8), 1);
  EXPECT_EQ(threads_for(2 * kElementsPerThread, 8), 2);
  EXPECT_EQ(threads_for(5 * kElementsPerThread, 8), 5);
  EXPECT_EQ(threads_for(1000 * kElementsPerThread, 8), 8);
  EXPECT_EQ(threads_for(1000 * kElementsPerThread, 1), 1);
}

TEST(Workers, EveryChunkIsDoneOnceByOneSlotAtATime) {
  for (const int threads : {1, 2, 3, 8}) {
    Workers workers(threads);
    for (int loop = 0; loop < 2000; ++loop) {
      const int asked = 1 + loop % (threads + 1);
      const int chunks = loop % 13;
      std::vector<std::atomic<int>> done(13);
      std::vector<std::atomic<bool>> busy(static_cast<std::size_t>(threads) + 1);
      workers.run(chunks, asked, [&](std::int64_t chunk, int slot) {
        EXPECT_LT(slot, asked);
        EXPECT_FALSE(busy[static_cast<std::size_t>(slot)].exchange(true));
        ++done[static_cast<std::size_t>(chunk)];
        busy[static_cast<std::size_t>(slot)] = false;
      });
      for (int chunk = 0; chunk < 13; ++chunk) {
        ASSERT_EQ(done[static_cast<std::size_t>(chunk)], chunk < chunks ? 1 : 0) << loop;
      }
    }
  }
}

TEST(Workers, SmallLoopsStayOnTheCallersThread) {
  Workers workers(4);
  std::set<std::thread::id> threads;
  workers.run(100, 1, [&](std::int64_t, int) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

// Whoever has chunk 0 stands still until all others are done.
TEST(Workers, AThreadThatIsHeldUpHoldsUpItsOwnChunkOnly) {
  Workers workers(3);
  for (int loop = 0; loop < 20; ++loop) {
    std::atomic<int> others{0};
    workers.run(50, 3, [&](std::int64_t chunk, int) {
      if (chunk > 0) {
        ++others;
        others.notify_all();
        return;
      }
      for (int seen = others; seen < 49; seen = others) others.wait(seen);
    });
    EXPECT_EQ(others, 49);
  }
}

// Its threads are just being made when a loop ends, and the next call may find them anywhere.
TEST(Workers, EndsWithoutHelpersThatHaveNotComeYet) {
  for (int owner = 0; owner < 200; ++owner) {
    Workers workers(8);
    std::atomic<int> done{0};
    workers.run(2, 8, [&](std::int64_t, int) { ++done; });
    EXPECT_EQ(done, 2);
  }
}

TEST(Workers, GivesTheCallerWhatAThreadThrew) {
  Workers workers(4);
  for (int loop = 0; loop < 50; ++loop) {
    EXPECT_THROW(workers.run(20, 4,
                             [&](std::int64_t chunk, int) {
                               if (chunk == loop % 20) throw std::runtime_error("no memory");
                             }),
                 std::runtime_error);
    std::atomic<int> done{0};
    workers.run(20, 4, [&](std::int64_t, int) { ++done; });
    EXPECT_EQ(done, 20);
  }
}

int threads_of_this_process() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// Several chunks, but together not worth a second thread: none is started.
TEST(Workers, SmallOperationsStartNoThread) {
  const auto backend = make_backend("cpu", {.threads = 5});
  const auto queue = backend->make_queue();
  const auto fill = [&](std::int64_t rows) {
    constexpr std::int64_t kCols = 16;
    std::vector<float> from(static_cast<std::size_t>(rows * kCols), 1.0F);
    std::vector<float> to(from.size());
    const int before = threads_of_this_process();
    const ConstMatrixView ones{from.data(), rows, kCols, kCols, DType::kF32};
    backend->run(*queue, kernels::ActivationBackward{
                             ones, {ones, {to.data(), rows, kCols, kCols, DType::kF32}}});
    EXPECT_EQ(to, from);
    return threads_of_this_process() - before;
  };
  EXPECT_EQ(fill(2000), 0);
  EXPECT_EQ(fill(3072), 2);   // worth three threads
  EXPECT_EQ(fill(60000), 2);  // worth all five
  EXPECT_EQ(fill(60000), 0);
}

}  // namespace
}  // namespace atl
