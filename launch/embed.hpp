// Commands of Atoll inside of another program's process: what the Python package and C++ programs
// that embed a training use. The ranks are threads (--transport local); a job of several processes
// is started by mpirun or `atoll launch`.
//
//   const atl::Outcome outcome = atl::run_command({"train", "data/arxiv", "--transport", "local",
//                                                  "--ranks", "4", "--run-dir", "runs/a"});
//   if (outcome.exit_code != 0) std::cerr << outcome.error << '\n';
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/program/own_functions.hpp"

namespace atl {

// The end of a command.
struct Outcome {
  int exit_code = 0;        // as that of `atoll`: 0 done, 2 what the caller can mend, 128 + signal
  std::string output = "";  // what it has printed on standard output
  std::string error = "";   // "" or one sentence
};

// Runs one command with the words of a command line, without the program's name, and returns when
// it has ended. It throws nothing, handles no signals, and leaves standard error alone, except for
// log lines (see send_log_to). One command can run at a time in a process: a second one is refused
// with exit code 2. What is printed by C's stdout meanwhile, by any thread, goes to the outcome.
// It knows the models and partitioners that add_convolutions() and add_partition_methods()
// (atoll.hpp) have added before the first command.
// `functions`: losses and metrics of its own that this command knows.
Outcome run_command(const std::vector<std::string>& words, const OwnFunctions& functions = {});

// From any thread: a training that runs ends after its epoch as on Ctrl-C, with a checkpoint, the
// best model and exit code 130. Work before the first epoch goes on until it is done.
void stop_command();

// Log lines go to `receiver` from now on, which any thread may call.
void send_log_to(const std::function<void(bool warning, const std::string& line)>& receiver);

// The output of `atoll reference --json`: commands with their options, and metrics.
std::string describe_commands();

}  // namespace atl
