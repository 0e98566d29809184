#include "base/checksum.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {

namespace {

TEST(Checksum, KnownAnswers) {
  // XXH3_64bits of nothing with seed 0, as its specification lists it.
  EXPECT_EQ(to_hex(checksum(std::string_view())), "2d06800538d394c2");
}

TEST(Checksum, SeesEveryByteAndTheLength) {
  const std::string text(1000, 'a');
  for (std::size_t k = 0; k < text.size(); ++k) {
    std::string changed = text;
    changed[k] = 'b';
    ASSERT_NE(checksum(changed), checksum(text)) << k;
  }
  EXPECT_NE(checksum(text + '\0'), checksum(text));
}

TEST(Checksum, OfAFileIsThatOfItsBytes) {
  const TempDir dir;
  const auto path = dir.path() / "a";
  const std::string text(100'000, 'x');
  write_atomically(path, text);
  EXPECT_EQ(file_checksum(path), checksum(text));
  EXPECT_THROW(file_checksum(dir.path() / "absent"), Error);
}

TEST(Checksum, HexHas16Digits) { EXPECT_EQ(to_hex(0xABC), "0000000000000abc"); }

}  // namespace

}  // namespace atl
