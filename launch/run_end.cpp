#include "launch/run_end.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <vector>

#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/shell_words.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {

namespace {

std::vector<std::string> g_command_line = {"atoll"};

// Open MPI's launcher turns Ctrl-C and SIGTERM into SIGTERM, and a second later into SIGKILL.
bool may_be_killed_soon(int signal) {
  return signal == SIGTERM && std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}

}  // namespace

void keep_command_line(int argc, char** argv) { g_command_line.assign(argv, argv + argc); }

void acknowledge_stop(int signal) {
  log::info("{}: stopping after this epoch; again to stop now{}", signal_name(signal),
            may_be_killed_soon(signal)
                ? ". If mpirun has sent it, it kills all ranks a second later; SIGUSR1 to mpirun "
                  "lets the epoch end"
                : "");
}

std::string resume_command(const Transport& transport, const std::filesystem::path& run_dir) {
  const std::string launcher = transport.name() == "mpi" && transport.size() > 1
                                   ? fmt::format("mpirun -n {} ", transport.size())
                                   : "";
  return fmt::format("{}{} train --config {} --resume", launcher,
                     shell_word(g_command_line.front()),
                     shell_word((run_dir / kConfigName).string()));
}

std::string resume_launch_command() {
  std::vector<std::string> words;
  for (const std::string& word : g_command_line) {
    if (word != "--overwrite" && word != "--resume") words.push_back(word);
  }
  words.emplace_back("--resume");  // the words behind -- are those of train
  return shell_line(words);
}

}  // namespace atl
