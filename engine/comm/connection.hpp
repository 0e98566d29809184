// A connection over TCP to a process that is no rank.
#pragma once

#include <string>

#include "base/descriptor.hpp"

namespace atl {

// To "ADDRESS:PORT", without waiting in later calls. Null, with the reason in `why`, if nobody
// answers there.
Descriptor connected_to(const std::string& place, std::string& why);

}  // namespace atl
