// Declares the subcommands, reads command line and configuration file, and is the one place where
// errors become messages and exit codes.
#include "launch/atoll.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/address_space.hpp"
#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/comm/mpi_library.hpp"
#include "engine/comm/supervisor_link.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/loss_options.hpp"
#include "launch/command.hpp"
#include "launch/command_list.hpp"
#include "launch/command_words.hpp"
#include "launch/config_file.hpp"
#include "launch/embed.hpp"
#include "launch/job_start.hpp"
#include "launch/run_end.hpp"
#include "launch/short_help.hpp"
#include "launch/version.hpp"

namespace atl {
namespace {

constexpr int kUserError = 2;  // what the user can mend; other failures exit with 1

// Prints one error and returns the exit code. A launcher ends the job when a first rank has exited,
// so under one rank 0 speaks at once and the others give it time to: what all ranks saw is then
// printed once, and what only one rank saw is still printed. `same_everywhere`: every rank has seen
// this error if one has, as far as can be known.
int report_error(const CLI::App& program, const LauncherInfo& launcher, const std::string& message,
                 int exit_code, bool same_everywhere, const std::string& hint = "") {
  yield_to_signal();
  std::string rank;
  if (launcher.rank != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(same_everywhere ? 10 : 2));
    const bool says_it = message.starts_with(fmt::format("rank {} ", launcher.rank));
    if (!says_it) rank = fmt::format("rank {}: ", launcher.rank);
  }
  std::fflush(stdout);
  std::fprintf(stderr, "%s: error: %s%s%s\n", program.get_name().c_str(), rank.c_str(),
               printable(message).c_str(), hint.c_str());
  return exit_code;
}

std::string where_to_read_on(CLI::App& program) {
  const CLI::App* selected = selected_command(program);
  const std::string name = selected == nullptr ? "" : full_name(*selected);
  return fmt::format("\nSee '{}{}{} --help'.", program.get_name(), name.empty() ? "" : " ", name);
}

std::string mpi_line() {
  const MpiFacts mpi = find_mpi();
  return "MPI: " + mpi.text() + (mpi.version.empty() ? " (atoll doctor says why)" : "");
}

void declare(CLI::App& program, Manner& manner) {
  program.description(
      "Atoll trains graph neural networks on the whole graph, split over MPI ranks.");
  program.set_version_flag(
      "--version", [] { return version_line() + "\n" + mpi_line(); },
      "Print version and commit, and which MPI library is used, then exit");
  program.require_subcommand(1);
  // Every default belongs into --help and into the effective configuration.
  program.option_defaults()->always_capture_default();
  program.get_formatter()->column_width(36);
  program.footer(
      "Examples:\n"
      "  atoll generate sbm --out data/sbm\n"
      "  mpirun -n 4 atoll train data/sbm --model gcn --epochs 50\n"
      "  atoll report runs/*\n"
      "Every subcommand has --help with examples: atoll help train.");
  add_import_command(program);
  add_generate_command(program);
  add_info_command(program);
  add_append_command(program);
  add_compact_command(program);
  add_split_command(program);
  add_features_command(program);
  add_partition_command(program);
  add_plan_command(program);
  add_schedule_command(program);
  add_train_command(program);
  add_launch_command(program);
  add_jobs_command(program);
  add_predict_command(program);
  add_evaluate_command(program);
  add_export_command(program);
  add_bench_command(program);
  add_report_command(program);
  add_topology_command(program);
  add_program_command(program);
  add_trace_command(program);
  add_doctor_command(program);
  add_completion_command(program);
  add_reference_command(program);
  for (CLI::App* command : program.get_subcommands({})) add_manner(*command, manner);
  add_config_option(program);
  add_help_all(program, manner.help_all);
}

std::string help_of(const CLI::App& program, const Manner& manner) {
  const CLI::App* command = selected_command(const_cast<CLI::App&>(program));
  const std::string screen = command == nullptr || manner.help_all ? "" : short_help(*command);
  return screen.empty() ? program.help() : screen;
}

// Says that standard output could not be written, and why; `error`: of errno.
std::string unwritten_output(int error) {
  return fmt::format("standard output: can't write all of it: {}", std::strerror(error));
}

// The text and exit code of the error being handled. `everywhere`: every rank sees it if one does,
// as far as can be known.
struct Report {
  std::string message;
  int exit_code = 1;
  bool everywhere = false;
  std::string hint = "";
};

Report describe_current_error(CLI::App& program) {
  try {
    throw;
  } catch (const CLI::ParseError& error) {
    return {describe(error, program), kUserError, true, where_to_read_on(program)};
  } catch (const Error& error) {
    return {error.what(), error.exit_code(), error.kind() == ErrorKind::kOption};
  } catch (const std::bad_alloc&) {
    return {"out of memory: an allocation failed; use more ranks or a smaller model",
            Error(ErrorKind::kMemory, "").exit_code(), false};
  } catch (const std::system_error& error) {
    // From fmt::print, where more was printed at once than the stream keeps for later.
    if (std::ferror(stdout) != 0)
      return {unwritten_output(error.code().value()), kUserError, false};
    if (error.code() != std::errc::resource_unavailable_try_again) return {error.what(), 1, false};
    return {
        fmt::format("a thread can't be started ({}): the limit of the address space (ulimit -v) "
                    "or of processes (ulimit -u) is too small; raise it, or use fewer --threads",
                    error.what()),
        Error(ErrorKind::kMemory, "").exit_code(), false};
  } catch (const std::exception& error) {
    return {error.what(), 1, false};
  }
}

// Answers --help or --version. Ranks that were asked for something else don't wait for this one.
int answer_request(CLI::App& program, const std::string& request, const std::string& answer,
                   const LauncherInfo& launcher, JobStart& job) {
  try {
    if (launcher.rank == 0) print_lines(answer);
    job.compare_request(request);
    return 0;
  } catch (...) {
    const Report report = describe_current_error(program);
    return report_error(program, launcher, report.message, report.exit_code, true);
  }
}

// The program's name in messages and hints: a user's own by its file's name.
std::string name_of(const char* path, const Extensions& extensions) {
  const bool extended = !extensions.convolutions.empty() || !extensions.partitioners.empty() ||
                        !extensions.functions.empty();
  const bool own = path != nullptr && extended;
  return own ? printable(std::filesystem::path(path).filename().string()) : "atoll";
}

// `atoll help train` is `atoll train --help`, and nothing at all asks for help, too. As CLI11 wants
// them: the last first.
std::vector<std::string> asked_words(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return {"--help"};
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  complete_bare_flags(words);
  std::ranges::reverse(words);
  return words;
}

void take_functions(const OwnFunctions& functions) {
  std::vector<std::string> metrics = {kUsualMetric};
  set_own_functions({}, {}, {});
  for (const auto& [name, lower_is_better] : metric_directions()) metrics.push_back(name);
  set_own_functions(functions, loss_names(), metrics);
}

int run_program(int argc, char** argv, const Extensions& extensions, JobStart& job) {
  const LauncherInfo launcher = launcher_info();
  log::configure(launcher.rank, launcher.size, /*verbose=*/false);
  if (launcher.size > 1) set_assertion_rank(launcher.rank);
  const auto supervisor = SupervisorLink::from_environment(launcher.rank, launcher.size);
  CLI::App program{"", name_of(argv[0], extensions)};
  Manner manner;
  try {
    // Before the options' tables are made.
    add_convolutions(extensions.convolutions);
    add_partition_methods(extensions.partitioners);
    take_functions(extensions.functions);
    declare(program, manner);
    // Runs before the subcommand's own callback.
    program.parse_complete_callback([&] {
      log::configure(launcher.rank, launcher.size, manner.verbose);
      if (manner.quiet) log::silence();
      complete_options(program);
      job.compare(program);
    });
    program.parse(asked_words(argc, argv));
    return 0;
  } catch (const CLI::CallForHelp& request) {
    return answer_request(program, request.get_name(), help_of(program, manner), launcher, job);
  } catch (const CLI::Success& request) {  // --version
    return answer_request(program, request.get_name(), request.what() + std::string("\n"), launcher,
                          job);
  } catch (const CLI::RuntimeError& result) {  // a subcommand has reported its result itself
    return result.get_exit_code();
  } catch (...) {
    const Report report = describe_current_error(program);
    return report_error(program, launcher, job.share_failure(report.message), report.exit_code,
                        report.everywhere, report.hint);
  }
}

// Collects what is printed on standard output while this lives. Commands print with C's functions,
// and whoever embeds them may have other threads that write to the descriptor: so the stream is
// exchanged, which glibc allows.
class CapturedOutput {
 public:
  CapturedOutput() : replaced_(stdout), stream_(::open_memstream(&text_, &size_)) {
    if (stream_ == nullptr) throw std::bad_alloc();
    stdout = stream_;
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput() {
    stdout = replaced_;
    std::fclose(stream_);
    std::free(text_);
  }
  std::string text() {
    std::fflush(stream_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* replaced_;
  std::FILE* stream_;
};

// Writes out what was printed. Returns errno where that failed; 0 also where nobody reads it.
int flush_output() {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || errno == EPIPE || errno == EBADF) return 0;
  return errno != 0 ? errno : EIO;
}

Outcome parse_and_run(const std::vector<std::string>& words, const OwnFunctions& functions) {
  CLI::App program{"", "atoll"};
  Manner manner;
  try {
    take_functions(functions);
    declare(program, manner);
    program.parse_complete_callback([&] { complete_options(program); });
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
    program.parse(std::move(reversed));
    return {};
  } catch (const CLI::CallForHelp&) {
    return {.output = help_of(program, manner)};
  } catch (const CLI::Success& request) {
    std::ostringstream text;
    const int exit_code = program.exit(request, text, text);
    return {.exit_code = exit_code, .output = text.str()};
  } catch (const CLI::RuntimeError& result) {
    return {.exit_code = result.get_exit_code()};
  } catch (...) {
    const Report report = describe_current_error(program);
    return {.exit_code = report.exit_code, .error = printable(report.message)};
  }
}

}  // namespace

int main(int argc, char** argv, const Extensions& extensions) {
  try {
    if (const auto threads = fit_address_space()) {
      omp_set_num_threads(std::min(*threads, omp_get_max_threads()));
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: error: %s\n", name_of(argv[0], extensions).c_str(), error.what());
    return error.exit_code();
  }
  handle_signals(/*ends_in_good_order=*/argc > 1 && std::string_view(argv[1]) == "train");
  keep_command_line(argc, argv);
  JobStart job;
  int exit_code = run_program(argc, argv, extensions, job);
  yield_to_signal();
  if (const int error = flush_output(); error != 0 && exit_code == 0) {
    std::fprintf(stderr, "%s: error: %s\n", name_of(argv[0], extensions).c_str(),
                 unwritten_output(error).c_str());
    exit_code = kUserError;
  }
  // Peers may be waiting for this rank: a failed rank takes the whole job with it. (What a signal
  // asked for, all ranks have ended together.)
  const bool failed = exit_code != 0 && exit_code <= 128;
  if (failed && launched_by_mpi()) abort_job(exit_code);
  return exit_code;
}

Outcome run_command(const std::vector<std::string>& words, const OwnFunctions& functions) {
  static std::mutex running;
  const std::unique_lock one_at_a_time(running, std::try_to_lock);
  if (!one_at_a_time) {
    return {.exit_code = kUserError,
            .error = "another command is running in this process; one can at a time"};
  }
  forget_signal();
  CapturedOutput captured;
  Outcome outcome = parse_and_run(words, functions);
  set_own_functions({}, {}, {});  // whoever made them may be gone by the next command
  outcome.output += captured.text();
  forget_signal();
  return outcome;
}

void stop_command() { note_signal(SIGINT); }

void send_log_to(const std::function<void(bool warning, const std::string& line)>& receiver) {
  log::send_to([receiver](spdlog::level::level_enum level, const std::string& line) {
    receiver(level >= spdlog::level::warn, line);
  });
}

std::string describe_commands() {
  CLI::App program{"", "atoll"};
  Manner manner;
  declare(program, manner);
  return commands_json(program).dump();
}

}  // namespace atl
