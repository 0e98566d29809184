// The content of exact messages beside the columns of their rows.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/exchange/exchanged_rows.hpp"
#include "tests/support/require_device.hpp"

namespace atl {
namespace {

using ExactCase = std::tuple<std::string, DType>;  // backend, type of rows

class ExactExchangeOn : public ::testing::TestWithParam<ExactCase> {
 protected:
  void SetUp() override { require_backend(std::get<0>(GetParam())); }
};

// Leaves NaN in memory that allocations of this size are likely to get. An emulated device has it
// there anyway.
void leave_nan(Backend& backend, std::int64_t bytes) {
  if (!backend.host_accessible()) return;
  std::vector<DeviceMemory> left;
  for (int k = 0; k < 8; ++k) {
    left.push_back(allocate_device(backend, bytes));
    std::memset(left.back().get(), 0xFF, static_cast<std::size_t>(bytes));
  }
}

// Whatever the sender's memory held before.
TEST_P(ExactExchangeOn, PaddingArrivesAsZeros) {
  const std::string& backend_name = std::get<0>(GetParam());
  const DType dtype = std::get<1>(GetParam());
  constexpr std::int64_t kColumns = 13;
  const Csr csr = random_graph(90, 5, false, true, 11);
  run_parts({csr.view(), true}, 3, [&](Transport& transport, const LocalGraphView& local) {
    TestRank rank(transport, local, backend_name);
    const GraphOperators operators(*rank.backend, *rank.queue, local, Normalisation::kSymmetric);
    const DistributedOperator& op = operators.forward();
    const auto x = std::make_shared<Tensor>(op.with_halo(), kColumns, dtype);
    leave_nan(*rank.backend, x->bytes());
    x->allocate(*rank.backend);
    rank.exchange->keep_alive(x);
    rank.backend->run(*rank.queue, kernels::FillZero{x->view()});
    leave_nan(*rank.backend, rank.exchange->buffer_bytes(op, kColumns, dtype));
    for (int epoch = 1; epoch <= 2; ++epoch) {
      rank.exchange->begin(op, x->view(), {.number = 1, .layer = 1}, {.epoch = epoch})->finish();
      rank.reducer.synchronize();
      ConstMatrixView received = x->view().rows_in({op.inner(), op.with_halo()});
      ASSERT_GT(received.rows, 0);
      received.cols = received.stride;
      const std::vector<float> rows = download_f32(*rank.backend, *rank.queue, received);
      EXPECT_EQ(rows, std::vector<float>(rows.size(), 0)) << "epoch " << epoch;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, ExactExchangeOn,
                         ::testing::Combine(::testing::Values("reference", "cpu", "cuda"),
                                            ::testing::Values(DType::kF32, DType::kBf16)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace atl
