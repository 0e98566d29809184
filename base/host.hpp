// Which host this process runs on, and which programs are there.
#pragma once

#include <string>

namespace atl {

// For messages; "unknown" where the system does not tell.
std::string host_name();
// Equal in two processes if and only if they share a host: its name and when its kernel booted.
std::string host_key();

// The file that a shell would run for `name`; empty if there is none.
std::string find_program(const std::string& name);
// The file of this process's program.
std::string this_program();

}  // namespace atl
