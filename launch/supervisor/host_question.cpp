#include "launch/supervisor/host_question.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/host.hpp"
#include "base/text.hpp"

namespace atl {

namespace {

// More of what an agent prints is no message.
constexpr off_t kMostBytes = 1024;

// The last line of a file that is not blank, safe to print.
std::string last_line(int file) {
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) return {};
  std::string text(static_cast<std::size_t>(std::min<off_t>(status.st_size, kMostBytes)), '\0');
  const off_t begin = status.st_size - static_cast<off_t>(text.size());
  const ssize_t count = ::pread(file, text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return {};
  text.resize(end + 1);
  const std::size_t before = text.find_last_of("\r\n");
  return printable(before == std::string::npos ? text : text.substr(before + 1));
}

}  // namespace

HostQuestion::HostQuestion(std::string host, const std::vector<std::string>& command)
    : host_(std::move(host)),
      agent_(std::filesystem::path(command.front()).filename().string()),
      said_(::memfd_create("agent", MFD_CLOEXEC)) {
  // Without memory for the file, nothing is known of what it says.
  process_ = std::make_unique<ChildProcess>(
      command, ChildSetting{.quiet = true, .output = said_ ? said_.get() : -1});
}

std::string HostQuestion::why_silent() {
  const std::optional<int> code = process_->exit_code();
  if (!code) return agent_ + " gets no answer";
  const std::string said = last_line(said_.get());
  return fmt::format("{} has ended with exit code {}{}{}", agent_, *code, said.empty() ? "" : ": ",
                     said);
}

bool is_here(const std::string& host) { return host == "localhost" || host == host_name(); }

std::string names_of_one_machine(const std::map<std::string, std::string>& machines) {
  for (const auto& [name, machine] : machines) {
    std::vector<std::string> names;
    for (const auto& [other, of_other] : machines) {
      if (of_other == machine) names.push_back(other);
    }
    if (names.size() > 1) return fmt::format("{}", fmt::join(names, " and "));
  }
  return {};
}

std::string names_of_here(std::span<const std::string> hosts) {
  std::map<std::string, std::string> machines;
  for (const std::string& host : hosts) {
    if (is_here(host)) machines[host] = "here";
  }
  return names_of_one_machine(machines);
}

}  // namespace atl
