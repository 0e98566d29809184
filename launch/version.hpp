// The version of this program and the commit it was built from.
#pragma once

#include <string>

namespace atl {

// "0.1.0"
const char* program_version();
// Twelve hex digits, followed by "-changed" if tracked files differed from that commit when the
// program was built; "unknown" outside a git checkout.
const char* program_commit();
// "atoll 0.1.0 (commit 0123456789ab)"
std::string version_line();

}  // namespace atl
