// Which host this process runs on, what time it is there, and which processes and programs are.
#pragma once

#include <string>
#include <vector>

namespace atl {

// For messages; "unknown" where the system does not tell.
std::string host_name();
// Equal in two processes if and only if they share a host: its name and when its kernel booted.
std::string host_key();

// The time of this host's clock, as "2026-01-31T23:59:59Z".
std::string now_text();

// The fields of /proc/PID/stat from the third on, the state; empty if there is no such process.
// Those before are its id and the program's name, which may hold anything.
std::vector<std::string> process_stat(long pid);

// The file that a shell would run for `name`; empty if there is none.
std::string find_program(const std::string& name);
// The file of this process's program.
std::string this_program();

}  // namespace atl
