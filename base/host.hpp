// Which host this process runs on.
#pragma once

#include <string>

namespace atl {

// For messages; "unknown" where the system does not tell.
std::string host_name();
// Equal in two processes if and only if they share a host: its name and when its kernel booted.
std::string host_key();

}  // namespace atl
