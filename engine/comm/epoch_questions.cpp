#include "engine/comm/epoch_questions.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/log.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "engine/comm/connection.hpp"

namespace atl {

namespace {

bool must_wait() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

std::unique_ptr<EpochQuestions> EpochQuestions::from_environment() {
  const char* const variable = std::getenv(kAddress);
  const std::vector<std::string> words = words_of(variable == nullptr ? "" : variable);
  if (words.size() != 2) return nullptr;
  std::string why;
  Descriptor socket = connected_to(words[0], why);
  if (!socket) {
    log::warn("can't reach the progress function at {}: {}; it hears of epochs by metrics.jsonl",
              words[0], why);
    return nullptr;
  }
  std::unique_ptr<EpochQuestions> questions(new EpochQuestions(std::move(socket)));
  return questions->send("hello " + words[1]) ? std::move(questions) : nullptr;
}

EpochQuestions::Answer EpochQuestions::ask(const std::string& line) {
  const std::string answer = send(line) ? receive() : "";
  if (answer == "go on") return {Verdict::kGoOn};
  if (answer == "enough") return {Verdict::kEnough};
  constexpr std::string_view kRate = "rate ";
  if (answer.starts_with(kRate)) {
    const auto rate = parse_number<double>(std::string_view(answer).substr(kRate.size()));
    if (rate && std::isfinite(*rate) && *rate > 0) return {Verdict::kGoOn, *rate};
  }
  return {Verdict::kInterrupt};
}

bool EpochQuestions::send(const std::string& line) {
  const std::string bytes = line + "\n";
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
      continue;
    }
    if (!must_wait()) return false;
    pollfd ready{socket_.get(), POLLOUT, 0};
    ::poll(&ready, 1, -1);
  }
  return true;
}

std::string EpochQuestions::receive() {
  std::array<char, 256> bytes;
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      const std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(count));
      continue;
    }
    if (count == 0 || !must_wait()) return "";
    pollfd ready{socket_.get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
  }
}

}  // namespace atl
