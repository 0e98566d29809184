// Names that a program of a user's own gives to what it adds to Atoll's: words of a command line.
#pragma once

#include <string>
#include <vector>

namespace atl {

// Throws Error{kOption} unless `name` is 1 to 64 letters, digits, '_' and '-', the first of them no
// '-', and none of `taken`. what: "model", for messages.
void check_own_name(const std::string& what, const std::string& name,
                    const std::vector<std::string>& taken);

}  // namespace atl
