#include "engine/training/run_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/file_lock.hpp"
#include "base/host.hpp"
#include "base/json.hpp"
#include "base/log.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// When a process was started, in the kernel's ticks since boot: tells a process from a later one
// with the same id. Empty if there is none.
std::string start_of(long pid) {
  const std::vector<std::string> stat = process_stat(pid);
  return stat.size() > 19 ? stat[19] : "";
}

struct Holder {
  std::string host, host_key, process_start, since, token;
  long pid = 0;

  std::string describe() const {
    if (pid == 0) return "another process";
    return fmt::format("process {} on host {} (since {})", pid, host, since);
  }
  // Only where locks don't tell: false if it certainly is gone.
  bool may_live() const {
    return pid != 0 && (host_key != atl::host_key() || start_of(pid) == process_start);
  }
};

// The contents of the lock file; empty fields if it has none that can be read.
Holder read_holder(int fd) {
  char text[4096];
  const ssize_t length = ::pread(fd, text, sizeof(text), 0);
  Holder holder;
  if (length <= 0) return holder;
  const Json json = Json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return holder;
  const auto word = [&](const char* field) {
    const auto found = json.find(field);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  holder = {word("host"), word("host_key"), word("process_start"), word("since"), word("token")};
  const auto pid = json.find("pid");
  if (pid != json.end() && pid->is_number_integer()) holder.pid = pid->get<long>();
  return holder;
}

}  // namespace

RunLock::RunLock(const fs::path& run, bool take_over) : run_(run), file_(run / kFileName) {
  while (!try_take(take_over)) {
  }
  write_holder();
}

bool RunLock::try_take(bool take_over) {
  fd_ = Descriptor(::open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd_) {
    fail_option("--run-dir {}: can't be written: {}: {}", run_.string(), file_.string(),
                std::strerror(errno));
  }
  const LockResult result = try_lock(fd_.get());
  const Holder holder = read_holder(fd_.get());
  const bool held =
      result == LockResult::kHeld || (result == LockResult::kUnsupported && holder.may_live());
  if (held && !take_over) {
    fail_option(
        "--run-dir {}: {} works on it; wait for its end or end it. If it can't come back, or is "
        "not to, add --take-over",
        run_.string(), holder.describe());
  }
  if (held) {
    log::warn("{}: taken over from {}, which will write nothing more there", run_.string(),
              holder.describe());
    std::error_code error;
    fs::remove(file_, error);
    return false;
  }
  if (!is_held()) return false;  // removed by its last holder between open and lock
  if (holder.pid != 0) {
    log::warn("{}: {} has ended without leaving; its lock is taken over", run_.string(),
              holder.describe());
  }
  return true;
}

void RunLock::write_holder() const {
  const Json json = {{"host", host_name()},
                     {"host_key", host_key()},
                     {"pid", static_cast<long>(::getpid())},
                     {"process_start", start_of(::getpid())},
                     {"since", now_text()},
                     {"token", random_token()}};
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (::ftruncate(fd_.get(), 0) != 0 ||
      ::pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    fail_option("--run-dir {}: can't be written: {}: {}", run_.string(), file_.string(),
                std::strerror(errno));
  }
}

RunLock::~RunLock() {
  std::error_code ignored;
  if (is_held()) fs::remove(file_, ignored);
}

bool RunLock::is_held() const {
  struct stat mine {};
  struct stat there {};
  return ::fstat(fd_.get(), &mine) == 0 && mine.st_nlink > 0 &&
         ::lstat(file_.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

void RunLock::require_held() const {
  if (is_held()) return;
  const Descriptor other(::open(file_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!other) {
    fail_input(
        "{}: another process has taken the run folder over, or it was removed; nothing more is "
        "written here",
        run_.string());
  }
  fail_input("{}: {} has taken the run folder over; nothing more is written here", run_.string(),
             read_holder(other.get()).describe());
}

}  // namespace atl
