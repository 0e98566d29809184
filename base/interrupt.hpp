// Signals that ask this process to end (SIGINT, SIGTERM, SIGHUP, SIGUSR1). A thread of their own
// waits for them, so that they also arrive while a library computes: it either notes the wish for
// whoever can end in good order, or removes what is half-written and lets the signal end the
// process. Signals are blocked in all other threads, so handlers that libraries install (METIS
// does) never run, and cleaning up may take locks and memory. In a training, the wish travels with
// the epoch's result, so that all ranks stop after the same epoch.
#pragma once

#include <array>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>

namespace atl {

inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// Call first thing in main, before any thread is started. Signals that are ignored (nohup, a job in
// the background) stay ignored. Also makes lost pages of mapped files an error (base/files).
// ends_in_good_order: a StopRequest will follow, which finds a SIGUSR1 that has come before it.
// That is what schedulers and launchers send to ask for an orderly end; the others end the process
// until there is a StopRequest.
void handle_signals(bool ends_in_good_order = false);
// Holds SIGUSR1 back until handle_signals(), for the time in which libraries are initialised.
void hold_signals();

// While at least one of these lives (one per rank, where ranks are threads), the first signal only
// is noted, for all of them; a second one ends the process at once.
class StopRequest {
 public:
  // `noted` is called with the first signal, at once and by the thread that waits for signals: an
  // epoch may be long, and whoever has pressed Ctrl-C wants to know that it was heard.
  using Noted = std::function<void(int signal)>;
  explicit StopRequest(Noted noted = {});
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  ~StopRequest();
  // The signal that has arrived; 0: none.
  int signal() const;
};

// For a process that handles its signals itself: as if `signal` had arrived. A StopRequest that is
// made later finds it, too.
void note_signal(int signal);
// Forgets one that nobody has listened for.
void forget_signal();

// "SIGTERM"; the number of others.
std::string signal_name(int signal);

// Files and folders to remove when a signal ends the process at once.
void remove_on_signal(const std::filesystem::path& path);
// The same for what `make` makes there, so that no signal comes between. False if it makes nothing,
// which it says by false; it may not throw. Doesn't return once a signal is ending the process.
bool remove_on_signal(const std::filesystem::path& path, const std::function<bool()>& make);
// From now on `path` stays. `last_step`, which may throw, is what makes it whole, such as its
// renaming: either it is done and the path stays, or a signal removes the path and this doesn't
// return.
void keep_on_signal(const std::filesystem::path& path, const std::function<void()>& last_step = {});

// Does nothing, or, once a signal is ending the process, waits for that end: what fails meanwhile
// fails because its files are being removed, and must not be reported.
void yield_to_signal();

}  // namespace atl
