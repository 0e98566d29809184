// The byte order mark that some editors put before a text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace atl {

// Bytes to skip at the start of `text`: 3 where a UTF-8 byte order mark stands, which changes
// nothing, else 0. Throws Error{kInput} naming `place` if the mark says UTF-16 or UTF-32.
std::size_t byte_order_mark(std::string_view text, const std::string& place);

}  // namespace atl
