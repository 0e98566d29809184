#include "engine/comm/supervisor_link.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "engine/comm/connection.hpp"

namespace atl {

namespace {

constexpr auto kPause = std::chrono::seconds(1);

SupervisorLink* g_of_process = nullptr;

// The segments that this process has mapped.
std::vector<std::string> mapped_segments() {
  std::vector<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || !SupervisorLink::is_segment(line.substr(path))) continue;
    if (std::ranges::count(files, line.substr(path)) == 0) files.push_back(line.substr(path));
  }
  return files;
}

}  // namespace

bool SupervisorLink::is_segment(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return file.is_absolute() && name.starts_with("vader_segment.") &&
         name.find(' ') == std::string::npos;
}

std::unique_ptr<SupervisorLink> SupervisorLink::from_environment(int rank, int size) {
  const char* const address = std::getenv(kAddress);
  if (address == nullptr) return nullptr;
  std::string why;
  Descriptor socket = connected_to(address, why);
  if (!socket) {
    log::warn("rank {}: can't reach the supervisor at {}: {}", rank, address, why);
    return nullptr;
  }
  const char* const key = std::getenv(kKey);
  return std::unique_ptr<SupervisorLink>(new SupervisorLink(
      std::move(socket), fmt::format("hello {} {} {} {} {}", key == nullptr ? "-" : key, rank, size,
                                     host_name(), ::getpid())));
}

void SupervisorLink::send_once(const std::string& address, const std::string& line) {
  std::string why;
  const Descriptor socket = connected_to(address, why);
  const std::string bytes = line + "\n";
  if (socket && ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    why = std::strerror(errno);
  }
  if (!why.empty()) fail(ErrorKind::kCommunication, "{}: can't be reached: {}", address, why);
}

SupervisorLink::SupervisorLink(Descriptor socket, const std::string& hello)
    : socket_(std::move(socket)) {
  send(hello);
  thread_ = std::thread([this] { beat(); });
  g_of_process = this;
}

SupervisorLink* SupervisorLink::of_process() { return g_of_process; }

SupervisorLink::~SupervisorLink() {
  g_of_process = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void SupervisorLink::ready() {
  const std::lock_guard lock(mutex_);
  for (const std::string& file : mapped_segments()) send("segment " + file);
  send("ready");
}

void SupervisorLink::epoch_done(int epoch) {
  const std::lock_guard lock(mutex_);
  send(fmt::format("epoch {}", epoch));
}

void SupervisorLink::say_goodbye() {
  const std::lock_guard lock(mutex_);
  send("bye");
}

// Never waits: a supervisor that reads nothing for long is none.
void SupervisorLink::send(const std::string& line) {
  if (!socket_) return;
  const std::string bytes = line + "\n";
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return;
  socket_.reset();
  log::warn("the supervisor can't be reached any more; the run goes on without it");
}

void SupervisorLink::beat() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kPause, [this] { return ends_; })) send("beat");
}

}  // namespace atl
