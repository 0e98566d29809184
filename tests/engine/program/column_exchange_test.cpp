// Rows that become columns inside a group, and rows again, all at once and a few at a time.
#include "engine/program/column_exchange.hpp"

#include <gtest/gtest.h>

#include "engine/tensor/tensor.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/test_rank.hpp"

namespace atl {
namespace {

struct ConversionCase {
  std::string backend = "cpu";
  int roles = 2;
  std::int64_t columns = 40;
  Slices slices = {};
  DType dtype = DType::kF32;
  std::int64_t bytes_at_once = ColumnExchange::kBytesAtOnce;
};

std::string name_of(const ::testing::TestParamInfo<ConversionCase>& test) {
  const ConversionCase& c = test.param;
  return fmt::format("{}_{}_roles_{}_columns_{}_matrices_{}_{}_bytes", c.backend, c.roles,
                     c.columns, c.slices.matrices, to_string(c.dtype), c.bytes_at_once);
}

class ColumnExchangeOn : public ::testing::TestWithParam<ConversionCase> {
 protected:
  void SetUp() override { require_backend(GetParam().backend); }
};

constexpr std::int64_t kCentral = 41;
constexpr std::int64_t kMarginal = 26;
constexpr std::int64_t kRows = kCentral + kMarginal;

// Small whole numbers, which bf16 has, too.
float value_at(std::int64_t row, std::int64_t column) {
  return static_cast<float>((row * 37 + column * 11) % 251 + 1);
}

// Rows of a matrix, `columns` of them, by their number in the part.
std::vector<float> rows_of(std::span<const std::int64_t> rows,
                           std::span<const std::int64_t> columns) {
  std::vector<float> values;
  for (const std::int64_t row : rows) {
    for (const std::int64_t column : columns) values.push_back(value_at(row, column));
  }
  return values;
}

std::vector<std::int64_t> numbers(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = begin; n < end; ++n) all.push_back(n);
  return all;
}

TEST_P(ColumnExchangeOn, GivesEveryRankItsColumnsAndBack) {
  const ConversionCase& c = GetParam();
  run_local_ranks(c.roles, 30, [&](Transport& transport) {
    const LocalGraphView nothing;
    TestRank rank(transport, nothing, c.backend);
    const PartGroup group(transport, RankMap(1, c.roles), rank.device.transport.get());
    Rank self = rank.self;
    self.group = &group;
    RankShape shape;
    shape.rows.inner = kRows;
    shape.marginal = kMarginal;
    const std::array<RowRange, 2> mine = group.own_rows(kCentral, kRows);
    shape.divide(mine[0].size(), mine[1].size());
    ColumnExchange exchange(self, shape, c.bytes_at_once);
    const ColumnExchange::Columns columns{c.columns, c.slices, c.dtype};

    std::vector<std::int64_t> own_rows = numbers(mine[0].begin, mine[0].end);
    for (const std::int64_t row : numbers(mine[1].begin, mine[1].end)) own_rows.push_back(row);
    const ColumnRange slice = columns.slice_of(group.role(), c.roles);
    std::vector<std::int64_t> own_columns;
    for (std::int64_t k = 0; k < c.slices.matrices; ++k) {
      const std::int64_t first = k * columns.of_matrix() + slice.first;
      for (const std::int64_t column : numbers(first, first + slice.count)) {
        own_columns.push_back(column);
      }
    }

    const auto memory = std::make_shared<std::vector<Tensor>>();
    memory->emplace_back(*rank.backend, std::ssize(own_rows), c.columns, c.dtype);
    memory->emplace_back(*rank.backend, kRows, std::ssize(own_columns), c.dtype);
    const MatrixView shares = (*memory)[0].view();
    const MatrixView part = (*memory)[1].view();
    const auto all_columns = numbers(0, c.columns);
    const std::vector<float> before = rows_of(own_rows, all_columns);
    const OperationLabel label{"shares of columns", "forward", 1, 1};
    // Once for all rows, once range by range.
    for (const std::vector<Rows>& ranges :
         {std::vector{Rows::kAll}, std::vector{Rows::kMarginal, Rows::kCentral}}) {
      upload_f32(*rank.backend, *rank.queue, before, shares);
      rank.backend->run(*rank.queue, kernels::FillZero{part});
      for (const Rows range : ranges) {
        exchange.to_columns(columns, shares, part, range, label, memory);
      }
      EXPECT_EQ(download_f32(*rank.backend, *rank.queue, part),
                rows_of(numbers(0, kRows), own_columns));
      rank.backend->run(*rank.queue, kernels::FillZero{shares});
      for (const Rows range : ranges) {
        exchange.to_rows(columns, part, shares, range, label, memory);
      }
      EXPECT_EQ(download_f32(*rank.backend, *rank.queue, shares), before);
    }
  });
}

std::vector<ConversionCase> conversion_cases() {
  std::vector<ConversionCase> cases;
  for (const char* const backend : {"reference", "cpu", "cuda"}) {
    for (const std::int64_t bytes : {ColumnExchange::kBytesAtOnce, std::int64_t{1000}}) {
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        cases.push_back({backend, 2, 40, {}, dtype, bytes});
        cases.push_back({backend, 3, 72, {.matrices = 3, .packed = true}, dtype, bytes});
      }
      // Ranks without columns, and a row at a time.
      cases.push_back({backend, 4, 16, {}, DType::kF32, bytes});
    }
    cases.push_back({backend, 3, 48, {}, DType::kF32, 1});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Backends, ColumnExchangeOn, ::testing::ValuesIn(conversion_cases()),
                         name_of);

TEST(ColumnExchange, StatesTheMemoryOfWhatIsConvertedTogether) {
  const ColumnExchange::Columns columns{.all = 256, .slices = {}, .dtype = DType::kF32};
  const std::int64_t of_row = 128 * 4;  // sent to the other rank of two
  EXPECT_EQ(columns.buffer_bytes(0, 2, 100'000, /*at_once=*/true), 100'000 * of_row);
  EXPECT_EQ(columns.buffer_bytes(0, 2, 100'000, /*at_once=*/false),
            ColumnExchange::kBytesAtOnce);  // half of the columns, in two buffers
  EXPECT_EQ(columns.buffer_bytes(0, 2, 100, /*at_once=*/false), 100 * of_row);
}

}  // namespace
}  // namespace atl
