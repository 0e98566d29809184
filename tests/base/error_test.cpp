#include "base/error.hpp"

#include <gtest/gtest.h>

#include "base/csr.hpp"
#include "base/memory.hpp"

namespace atl {

namespace {

TEST(Error, ExitCodes) {
  for (const ErrorKind kind : {ErrorKind::kInput, ErrorKind::kOption, ErrorKind::kMemory}) {
    EXPECT_EQ(Error(kind, "").exit_code(), 2);
  }
  for (const ErrorKind kind :
       {ErrorKind::kDevice, ErrorKind::kCommunication, ErrorKind::kTimeout}) {
    EXPECT_EQ(Error(kind, "").exit_code(), 1);
  }
}

TEST(AssertDeathTest, NamesRankFileExpressionAndDetail) {
  const int found = 3;
  EXPECT_DEATH(ATOLL_ASSERT(found == 4, "found {}", found),
               "atoll: .*error_test.cpp:[0-9]+: invariant broken: found == 4: found 3");
  EXPECT_DEATH(
      {
        set_assertion_rank(5);
        ATOLL_ASSERT(found == 4);
      },
      "atoll: rank 5: ");
}

TEST(Memory, AmountsArePlausibleAndReadable) {
  EXPECT_GT(peak_resident_bytes(), 1 << 20);
  EXPECT_GT(available_memory_bytes(), 1 << 20);
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{5} << 40), "5.00 TiB");
}

TEST(Csr, RowsAndImplicitValues) {
  Csr csr;
  EXPECT_EQ(csr.view().rows(), 0);
  csr.row_ptr = {0, 2, 2, 3};
  csr.col_idx = {1, 2, 0};
  EXPECT_EQ(csr.view().rows(), 3);
  EXPECT_EQ(csr.view().nnz(), 3);
  EXPECT_TRUE(csr.view().row(1).empty());
  EXPECT_EQ(csr.view().row(2)[0], 0);
  EXPECT_EQ(csr.view().value(2), 1.0F);
  csr.values = {3, 4, 5};
  EXPECT_EQ(csr.view().value(2), 5.0F);
}

}  // namespace

}  // namespace atl
