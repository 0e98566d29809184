#include "base/byte_order_mark.hpp"

#include "base/error.hpp"

namespace atl {

std::size_t byte_order_mark(std::string_view text, const std::string& place) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xEF\xBB\xBF")) return 3;
  const char* encoding = nullptr;
  // That of UTF-32 begins with that of UTF-16.
  if (text.starts_with("\xFF\xFE\0\0"sv)) {
    encoding = "UTF-32LE";
  } else if (text.starts_with("\0\0\xFE\xFF"sv)) {
    encoding = "UTF-32BE";
  } else if (text.starts_with("\xFF\xFE"sv)) {
    encoding = "UTF-16LE";
  } else if (text.starts_with("\xFE\xFF"sv)) {
    encoding = "UTF-16BE";
  }
  if (encoding == nullptr) return 0;
  fail_input(
      "{}: its byte order mark says {}; only UTF-8 is read: iconv -f {} -t UTF-8 makes it so",
      place, encoding, encoding);
}

}  // namespace atl
