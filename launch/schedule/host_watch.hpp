// Asks hosts whether they can be reached, as `atoll launch` does, until they answer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/elapsed.hpp"
#include "launch/supervisor/host_question.hpp"
#include "launch/supervisor/supervisor_port.hpp"

namespace atl {

class HostWatch {
 public:
  // agent: the words that start a command on a host, before its name. address: of this machine, for
  // other hosts; empty: its name. Throws Error{kOption} if no port can be had.
  HostWatch(std::vector<std::string> agent, std::string program, const std::string& address);

  // Asks each of these hosts every few seconds, and returns those that have answered since the last
  // call. Never waits.
  std::vector<std::string> look_for(const std::vector<std::string>& lost);
  // Why one of those has not answered, as far as it is known.
  std::string why_silent(const std::string& host);
  // The machines of all that have ever answered: see SupervisorPort.
  const std::map<std::string, std::string>& machines() const { return port_.machines(); }

 private:
  void ask(const std::string& host);

  std::vector<std::string> agent_;
  std::string program_;
  SupervisorPort port_;
  std::string address_;  // with the port
  std::string key_;
  struct Question {
    SteadyTime asked;
    std::unique_ptr<HostQuestion> question;
  };
  std::map<std::string, Question> questions_;  // by host
  std::map<std::string, std::string> whys_;    // of the questions before, by host
};

}  // namespace atl
