// Sums by every route that a plan may choose: the numbers of an all-reduce, and the bytes the steps
// say.
#include <gtest/gtest.h>

#include <mutex>

#include "engine/exchange/reduce.hpp"
#include "kernels/registry.hpp"
#include "tests/support/require_device.hpp"

namespace atl {
namespace {

constexpr std::int64_t kValues = 37;  // divides by no number of ranks

struct Route {
  const char* name;
  int ranks;
  SumRoute route;
};
std::ostream& operator<<(std::ostream& out, const Route& route) { return out << route.name; }

std::vector<Route> routes() {
  return {{"AllReduce", 4, {}},
          {"Pairs", 4, {{{0, 1}, {2, 3}}, -1}},
          {"CrossedPairs", 4, {{{2, 0}, {1, 3}}, -1}},
          {"ThreePairs", 6, {{{0, 1}, {2, 3}, {4, 5}}, -1}},
          {"TwoTriples", 6, {{{0, 1, 2}, {3, 4, 5}}, -1}},
          {"Server", 4, {{}, 2}},
          {"ServerOfTwo", 2, {{}, 0}}};
}

// Thirds are no float, so another order of additions could show.
float value_of(int rank, std::int64_t i) {
  return static_cast<float>(rank + 1) / 3.0F + static_cast<float>(i % 7) * 1e-3F;
}

class GradientSum : public ::testing::TestWithParam<std::tuple<Route, std::string>> {};

TEST_P(GradientSum, IsThatOfAnAllReduce) {
  const Route& setup = std::get<0>(GetParam());
  const std::string& backend_name = std::get<1>(GetParam());
  require_backend(backend_name);
  if (IsSkipped() || HasFailure()) return;
  std::vector<std::vector<float>> sums(static_cast<std::size_t>(setup.ranks));
  std::mutex mutex;
  for (const char* messages : {"auto", "staging"}) {
    run_local_ranks(setup.ranks, 20, [&](Transport& transport) {
      const auto backend =
          make_backend(backend_name, {.threads = 1, .local_rank = transport.rank()});
      const auto queue = backend->make_queue();
      const DeviceTransportChoice device = make_device_transport(messages, transport, *backend);
      TraceRecorder trace(transport.rank());
      Reducer reducer(*backend, *queue, transport, device.transport.get(), trace, setup.route);
      Tensor values(*backend, 1, kValues, DType::kF32);
      std::vector<float> own;
      for (std::int64_t i = 0; i < kValues; ++i) own.push_back(value_of(transport.rank(), i));
      upload_f32(*backend, *queue, own, values.view());
      const auto sent = [&] {
        return transport.bytes_sent() +
               (device.transport != nullptr ? device.transport->bytes_sent() : 0);
      };
      const std::int64_t before = sent();
      reducer.sum(values.view(), "gradients", 1);
      reducer.synchronize();
      std::size_t expected = 0;
      for (const SumStep& step : sum_steps(setup.route, transport.rank(), setup.ranks, kValues)) {
        expected += step.sent_values();
      }
      EXPECT_EQ(sent() - before, static_cast<std::int64_t>(4 * expected));
      trace.resolve();
      ASSERT_EQ(trace.spans().size(), 1U);
      EXPECT_EQ(trace.spans()[0].bytes, sent() - before);
      const std::lock_guard lock(mutex);
      sums[static_cast<std::size_t>(transport.rank())] =
          download_f32(*backend, *queue, values.view());
    });
    for (const std::vector<float>& sum : sums) {
      ASSERT_EQ(sum.size(), static_cast<std::size_t>(kValues));
      EXPECT_EQ(sum, sums[0]) << "another rank has other bits";
    }
    for (std::int64_t i = 0; i < kValues; ++i) {
      double exact = 0;
      for (int rank = 0; rank < setup.ranks; ++rank) exact += value_of(rank, i);
      EXPECT_NEAR(sums[0][static_cast<std::size_t>(i)], exact, 2e-7 * exact);
    }
  }
}

// Parts that are summed beside computing, twice, as in two epochs.
TEST_P(GradientSum, InPartsHasTheSameBits) {
  const Route& setup = std::get<0>(GetParam());
  const std::string& backend_name = std::get<1>(GetParam());
  require_backend(backend_name);
  if (IsSkipped() || HasFailure()) return;
  run_local_ranks(setup.ranks, 20, [&](Transport& transport) {
    const auto backend = make_backend(backend_name, {.threads = 1, .local_rank = transport.rank()});
    const auto queue = backend->make_queue();
    TraceRecorder trace(transport.rank());
    Reducer reducer(*backend, *queue, transport, nullptr, trace, setup.route);
    const bool beside = reducer.prepare_sums(2, DType::kF32);
    EXPECT_EQ(beside, backend->host_accessible() && setup.ranks > 1);
    EXPECT_FALSE(reducer.prepare_sums(2, DType::kF64));
    std::vector<float> own;
    for (std::int64_t i = 0; i < kValues; ++i) own.push_back(value_of(transport.rank(), i));
    Tensor values(*backend, 1, kValues, DType::kF32);
    upload_f32(*backend, *queue, own, values.view());
    reducer.sum(values.view(), "gradients", 1);
    const std::vector<float> whole = download_f32(*backend, *queue, values.view());
    for (int epoch = 1; epoch <= 2; ++epoch) {
      upload_f32(*backend, *queue, own, values.view());
      const auto part = [&](std::int64_t begin, std::int64_t end) {
        MatrixView view = values.view();
        view.data = static_cast<float*>(view.data) + begin;
        view.cols = view.stride = end - begin;
        return view;
      };
      const std::int64_t before = transport.bytes_sent();
      trace.clear();
      std::int64_t rest = kValues;
      if (beside) {
        for (const std::int64_t begin : {kValues - 5, kValues / 3}) {
          reducer.begin_sum(part(begin, rest), "gradients", epoch);
          reducer.advance_sums();
          rest = begin;
        }
      }
      reducer.finish_sums(part(0, rest), "gradients", epoch);
      reducer.synchronize();
      EXPECT_EQ(download_f32(*backend, *queue, values.view()), whole) << "epoch " << epoch;
      trace.resolve();
      ASSERT_EQ(trace.spans().size(), 1U);
      EXPECT_EQ(trace.spans()[0].bytes, transport.bytes_sent() - before);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Routes, GradientSum,
                         ::testing::Combine(::testing::ValuesIn(routes()),
                                            ::testing::Values("cpu", "cuda")));

// The sum that every rank of a job, or of the group of each rank, has.
template <typename GroupOf>
std::vector<std::vector<float>> sums_on(int ranks, const std::string& backend_name,
                                        const char* messages, const GroupOf& group_of) {
  std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run_local_ranks(ranks, 20, [&](Transport& job) {
    const auto backend = make_backend(backend_name, {.threads = 1, .local_rank = job.rank()});
    const auto queue = backend->make_queue();
    const DeviceTransportChoice device = make_device_transport(messages, job, *backend);
    const int number = group_of(job.rank());
    const auto group = job.split(number, "stage " + std::to_string(number));
    const auto device_group =
        device.transport != nullptr ? device.transport->split(group.get()) : nullptr;
    TraceRecorder trace(job.rank());
    Reducer reducer(*backend, *queue, *group, device_group.get(), trace);
    Tensor values(*backend, 1, kValues, DType::kF32);
    std::vector<float> own;
    for (std::int64_t i = 0; i < kValues; ++i) own.push_back(value_of(group->rank(), i));
    upload_f32(*backend, *queue, own, values.view());
    for (int round = 0; round <= number; ++round) reducer.sum(values.view(), "gradients", round);
    std::vector<std::int64_t> count{1};
    reducer.sum_host(count, "count", 0);
    EXPECT_EQ(count[0], group->size());
    reducer.synchronize();
    const std::lock_guard lock(mutex);
    sums[static_cast<std::size_t>(job.rank())] = download_f32(*backend, *queue, values.view());
  });
  return sums;
}

class GroupSum : public ::testing::TestWithParam<std::string> {};

// Two groups at work at once, of which one sums twice.
TEST_P(GroupSum, HasTheBitsOfAJobOfThatSize) {
  const std::string& backend = GetParam();
  require_backend(backend);
  if (IsSkipped() || HasFailure()) return;
  for (const char* messages : {"auto", "staging"}) {
    const auto of_groups =
        sums_on(4, backend, messages, [](int rank) { return rank == 2 ? 0 : 1; });
    const auto alone = sums_on(1, backend, messages, [](int) { return 0; });
    const auto of_three = sums_on(3, backend, messages, [](int) { return 1; });
    EXPECT_EQ(of_groups[2], alone[0]);
    EXPECT_EQ(of_groups[0], of_three[0]);
    EXPECT_EQ(of_groups[1], of_three[1]);
    EXPECT_EQ(of_groups[3], of_three[2]);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GroupSum, ::testing::Values("cpu", "cuda"));

// Bytes that a group of g ranks sends to others shrink to a g-th; a server sends what others
// receive.
TEST(SumSteps, CountWhatCrossesGroups) {
  const auto crossing = [](const SumRoute& route) {
    std::size_t values = 0;
    for (int rank = 0; rank < 4; ++rank) {
      for (const SumStep& step : sum_steps(route, rank, 4, 40)) {
        for (std::size_t m = 0; m < step.members.size(); ++m) {
          if (step.members[m] / 2 == rank / 2) continue;
          values +=
              step.kind == SumStep::Kind::kAdd ? step.blocks[m].count : step.own_block().count;
        }
      }
    }
    return values;
  };
  EXPECT_EQ(crossing({}), 2U * 8 * 10);  // twice, 8 crossing pairs, a block of 10
  EXPECT_EQ(crossing({{{0, 1}, {2, 3}}, -1}), 2U * 4 * 10);
  EXPECT_EQ(crossing({{}, 3}), 2U * 2 * 40);
}

}  // namespace
}  // namespace atl
