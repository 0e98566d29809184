#include "base/interrupt.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>

#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

// Runs `work` in a process of its own that handles signals; what waitpid says of its end.
int status_of(const std::function<void()>& work, bool ends_in_good_order = false) {
  const pid_t child = ::fork();
  if (child == 0) {
    hold_signals();
    handle_signals(ends_in_good_order);
    work();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(Signals, EndTheProcessAndLeaveNothingHalfWritten) {
  const TempDir dir;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    const int status = status_of([&] {
      const AtomicFolder folder(dir.path() / "set");
      write_atomically(folder.path() / "a", "1");
      AtomicFile file(dir.path() / "file");
      ::kill(::getpid(), signal);
      for (;;) ::pause();
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << signal;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_TRUE(fs::is_empty(dir.path())) << signal;
  }
}

// Libraries such as METIS put handlers of their own in place while they compute.
TEST(Signals, EndTheProcessWhateverHandlerALibraryHasSet) {
  const int status = status_of([] {
    std::signal(SIGTERM, [](int) { ::_exit(7); });
    ::kill(::getpid(), SIGTERM);
    for (;;) ::pause();
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(Signals, TheFirstIsNotedAndTheSecondEndsTheProcess) {
  const TempDir dir;
  const fs::path noted = dir.path() / "noted";
  const int status = status_of([&] {
    // One of two ranks that are threads speaks.
    std::atomic<int> told = 0;
    const StopRequest request([&](int signal) { told += signal; });
    const StopRequest silent;
    ::kill(::getpid(), SIGTERM);
    while (told == 0) ::usleep(1000);
    if (told != SIGTERM) ::_exit(1);
    std::ofstream(noted) << signal_name(request.signal());
    ::kill(::getpid(), SIGINT);
    for (;;) ::pause();
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  EXPECT_EQ(read_text(noted), "SIGTERM");
}

TEST(Signals, AnOrderlyEndMayBeAskedForEarly) {
  const auto status_after = [](bool ends_in_good_order, int signal) {
    return status_of(
        [&] {
          ::kill(::getpid(), signal);
          ::usleep(50'000);
          int told = 0;
          const StopRequest request([&](int number) { told = number; });
          ::_exit(told == SIGUSR1 && request.signal() == SIGUSR1 ? 3 : 4);
        },
        ends_in_good_order);
  };
  const int noted = status_after(true, SIGUSR1);
  EXPECT_TRUE(WIFEXITED(noted) && WEXITSTATUS(noted) == 3) << noted;
  for (const int status : {status_after(false, SIGUSR1), status_after(true, SIGTERM)}) {
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
  }
}

TEST(Signals, ThatAreIgnoredStayIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  const int status = status_of([] {
    ::kill(::getpid(), SIGHUP);
    ::usleep(50'000);
  });
  std::signal(SIGHUP, SIG_DFL);
  EXPECT_TRUE(WIFEXITED(status));
}

}  // namespace

}  // namespace atl
