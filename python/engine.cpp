// atoll._engine: a command of Atoll that runs in a thread of the Python process, and the bridge to
// PyTorch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "launch/atoll.hpp"
#include "launch/embed.hpp"
#include "python/bridge.hpp"
#include "python/functions.hpp"

namespace nb = nanobind;

namespace {

// Lines wait here until Python asks for them, so that a log needs no lock of Python's.
class LogLines {
 public:
  void add(bool warning, const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(warning, line);
  }
  std::vector<std::pair<bool, std::string>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<bool, std::string>> lines_;
};

LogLines& log_lines() {
  static LogLines lines;
  return lines;
}

// Commands that run. A process may end meanwhile, by another thread: then what the engine has in
// static objects must outlive its threads, so nothing is destroyed any more.
std::atomic<int> g_running = 0;

void end_with(int status, void*) {
  if (g_running == 0) return;
  std::fflush(nullptr);
  ::_exit(status);
}

// The last thing of Python's own end. What is registered here runs before all that was registered
// while the engine worked.
void python_has_ended() {
  if (g_running > 0) ::on_exit(end_with, nullptr);
}

class Command {
 public:
  Command(std::vector<std::string> words, const nb::list& losses, const nb::list& metrics) {
    atl::OwnFunctions functions = functions_of_python(losses, metrics);
    std::promise<atl::Outcome> promise;
    outcome_ = promise.get_future().share();
    ++g_running;
    thread_ = std::thread([words = std::move(words), functions = std::move(functions),
                           promise = std::move(promise)]() mutable {
      atl::Outcome outcome = atl::run_command(words, functions);
      functions = {};
      --g_running;
      promise.set_value(std::move(outcome));
    });
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() {
    const nb::gil_scoped_release release;
    if (!wait(0)) atl::stop_command();
    thread_.join();
  }

  bool wait(double seconds) const {
    return outcome_.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
  }
  std::tuple<int, std::string, std::string> outcome() const {
    const atl::Outcome& outcome = outcome_.get();
    return {outcome.exit_code, outcome.output, outcome.error};
  }

 private:
  std::shared_future<atl::Outcome> outcome_;
  std::thread thread_;
};

// The whole program, in a process that is a rank.
int run_main(std::vector<std::string> words, const nb::list& losses, const nb::list& metrics) {
  const atl::Extensions extensions{.functions = functions_of_python(losses, metrics)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const nb::gil_scoped_release release;
  return atl::main(static_cast<int>(words.size()), arguments.data(), extensions);
}

nb::list take_log() {
  nb::list lines;
  for (const auto& [warning, line] : log_lines().take()) {
    lines.append(nb::make_tuple(warning, nb::str(line.c_str(), line.size())));
  }
  return lines;
}

}  // namespace

NB_MODULE(_engine, module) {
  Py_AtExit(python_has_ended);
  module.doc() = "Commands of Atoll in threads of this process.";
  atl::send_log_to([](bool warning, const std::string& line) { log_lines().add(warning, line); });
  nb::class_<Command>(module, "Command", "One command, from its start on.")
      .def(nb::init<std::vector<std::string>, const nb::list&, const nb::list&>(), nb::arg("words"),
           nb::arg("losses") = nb::list(), nb::arg("metrics") = nb::list(),
           "losses, metrics: functions that the command knows, see functions.hpp.")
      .def("wait", &Command::wait, nb::arg("seconds"), nb::call_guard<nb::gil_scoped_release>(),
           "Waits for so many seconds at most; True if the command has ended.")
      .def("outcome", &Command::outcome, nb::call_guard<nb::gil_scoped_release>(),
           "Exit code, standard output and error message; waits for the end.");
  module.def("main", &run_main, nb::arg("words"), nb::arg("losses"), nb::arg("metrics"),
             "The program `atoll`, with functions that it knows; its exit code.");
  module.def("stop", &atl::stop_command, "A training ends after its epoch, with a checkpoint.");
  module.def("take_log", &take_log, "(is_warning, line) of what was logged since the last call.");
  module.def("reference", &atl::describe_commands, "What `atoll reference --json` prints.");
  add_bridge(module);
}
