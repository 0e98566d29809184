// Asks a host whether it can be reached: an agent such as ssh starts a small program there, which
// connects back (SupervisorPort).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "launch/supervisor/child_process.hpp"

namespace atl {

class HostQuestion {
 public:
  // command: the agent, the host, and the program with its words.
  HostQuestion(std::string host, const std::vector<std::string>& command);

  const std::string& host() const { return host_; }
  // Why there is no answer, as far as the agent tells: "ssh has ended with exit code 255: ...".
  std::string why_silent();

 private:
  std::string host_;
  std::string agent_;
  Descriptor said_;  // what the agent prints
  std::unique_ptr<ChildProcess> process_;
};

// Whether this name of a host is one of this machine.
bool is_here(const std::string& host);

// Names of hosts that are one machine, as "a and b"; empty: there are none. machines: by name, as
// SupervisorPort::machines().
std::string names_of_one_machine(const std::map<std::string, std::string>& machines);
// The same for names that are this machine, which can be told without asking.
std::string names_of_here(std::span<const std::string> hosts);

}  // namespace atl
