#include "launch/supervisor/restart_policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace atl {

std::string RestartPolicy::failed(int epoch) {
  ++failures_;
  without_progress_ = epoch > epoch_ ? 1 : without_progress_ + 1;
  epoch_ = std::max(epoch_, epoch);
  if (without_progress_ >= kMostWithoutProgress) {
    return fmt::format(
        "it has failed {} times in a row without an epoch between; that is no machine's fault",
        without_progress_);
  }
  if (failures_ > restarts_) {
    return fmt::format("it has failed {} times, and --restarts {} allows no more", failures_,
                       restarts_);
  }
  return "";
}

std::vector<std::string> words_of_attempt(const std::vector<std::string>& words, int attempt,
                                          RunThere run, int snapshot_every) {
  // Without a run --resume begins one, also in what a first attempt has half written.
  const bool begins = run == RunThere::kNone && std::ranges::count(words, "--overwrite") == 0;
  const bool goes_on = attempt > 1 && (run == RunThere::kOwn || begins);
  std::vector<std::string> result;
  for (const std::string& word : words) {
    if (!goes_on || word != "--overwrite") result.push_back(word);
  }
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(words, [&](const std::string& word) {
      return word == name || word.starts_with(name + "=");
    });
  };
  if (snapshot_every > 0 && !has("--snapshot-every")) {
    result.push_back(fmt::format("--snapshot-every={}", snapshot_every));
  }
  if (goes_on && !has("--resume")) result.emplace_back("--resume");
  if (attempt > 1 && !has("--take-over")) result.emplace_back("--take-over");
  return result;
}

std::vector<std::string> launcher_command(const LauncherWords& launcher, const std::string& program,
                                          const std::vector<std::string>& words) {
  std::vector<std::string> command = launcher.mpirun;
  if (!launcher.rsh.empty()) {
    for (const char* word :
         {"--mca", "plm", "rsh", "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_agent"}) {
      command.emplace_back(word);
    }
    command.push_back(launcher.rsh);
  }
  std::string hosts;
  for (const std::string& host : launcher.hosts) {
    hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", host, launcher.ranks_per_host);
  }
  const auto ranks = static_cast<int>(launcher.hosts.size()) * launcher.ranks_per_host;
  command.insert(command.end(), {"--host", hosts, "-n", std::to_string(ranks)});
  for (const std::string& name : launcher.exported) command.insert(command.end(), {"-x", name});
  command.push_back(program);
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

}  // namespace atl
