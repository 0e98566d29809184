// Lengths of time as users write and read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl {

// Seconds of "45s", "90m", "1h30m", "1.5h", "2d"; empty for anything else, a bare number included.
std::optional<double> parse_duration(std::string_view text);

// "2:05" (minutes), "1:02:05" (hours), for whole seconds and more; "0.4 s" below a minute.
std::string format_duration(double seconds);

}  // namespace atl
