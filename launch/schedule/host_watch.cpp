#include "launch/schedule/host_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/host.hpp"
#include "engine/training/snapshot.hpp"

namespace atl {

namespace {

// Between two questions to a host; the first one is given up when the second comes.
constexpr double kBetweenQuestions = 5;

}  // namespace

HostWatch::HostWatch(std::vector<std::string> agent, std::string program,
                     const std::string& address)
    : agent_(std::move(agent)),
      program_(std::move(program)),
      port_(/*local=*/false),
      address_(fmt::format("{}:{}", address.empty() ? host_name() : address, port_.port())),
      key_(make_snapshot_id()) {
  port_.begin(/*key=*/"", key_);
}

std::vector<std::string> HostWatch::look_for(const std::vector<std::string>& lost) {
  std::erase_if(questions_, [&](const auto& question) {
    return std::ranges::count(lost, question.first) == 0;
  });
  if (lost.empty()) return {};
  for (const std::string& host : lost) {
    const auto question = questions_.find(host);
    const bool is_due =
        question == questions_.end() || seconds_since(question->second.asked) > kBetweenQuestions;
    if (is_due) ask(host);
  }
  // Connections and lines come one after the other.
  for (int k = 0; k < 3; ++k) port_.poll(std::chrono::milliseconds(0));
  std::vector<std::string> back;
  for (const std::string& host : port_.probes()) {
    if (std::ranges::count(lost, host) > 0 && std::ranges::count(back, host) == 0) {
      back.push_back(host);
    }
  }
  port_.forget_probes();
  return back;
}

std::string HostWatch::why_silent(const std::string& host) {
  const auto question = questions_.find(host);
  if (question == questions_.end()) return {};
  // The question before had the time to find out.
  const auto before = whys_.find(host);
  return before == whys_.end() ? question->second.question->why_silent() : before->second;
}

void HostWatch::ask(const std::string& host) {
  if (const auto before = questions_.find(host); before != questions_.end()) {
    whys_[host] = before->second.question->why_silent();
  }
  std::vector<std::string> words = agent_;
  words.insert(words.end(), {host, program_, "launch-probe", address_, key_, host});
  questions_[host] = {steady_now(), std::make_unique<HostQuestion>(host, words)};
}

}  // namespace atl
