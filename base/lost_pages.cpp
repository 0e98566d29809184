#include "base/lost_pages.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace atl {

namespace {

// A signal handler may not wait for a lock nor take memory: everything lies in place, and `begin`
// says last whether a slot is in use.
struct Slot {
  std::atomic<std::uintptr_t> begin = 0;  // 0: free
  std::atomic<std::uintptr_t> end = 0;
  std::array<char, 400> path{};
};
constexpr std::size_t kSlots = 4096;
std::array<Slot, kSlots> g_slots;
// No slot from here on has ever been in use, nor its memory touched.
std::atomic<std::size_t> g_used = 0;
std::mutex g_registering;  // of those who register

void print(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void on_lost_page(int signal, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Slot& slot : std::span(g_slots).first(g_used.load())) {
    const std::uintptr_t begin = slot.begin.load();
    if (begin == 0 || address < begin || address >= slot.end.load()) continue;
    print("atoll: error: ");
    print(slot.path.data());
    print(
        ": a part of it can't be read any more: it became shorter while it was in use, or its disk "
        "failed\n");
    ::_exit(2);
  }
  std::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
}

}  // namespace

void report_lost_pages() {
  struct sigaction action {};
  action.sa_sigaction = on_lost_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void register_mapping(std::span<const std::byte> mapped, const std::filesystem::path& path) {
  const std::lock_guard lock(g_registering);
  for (std::size_t s = 0; s < kSlots; ++s) {
    Slot& slot = g_slots[s];
    if (slot.begin.load() != 0) continue;
    if (s == g_used.load()) g_used = s + 1;
    const std::string& name = path.native();
    const std::size_t length = std::min(name.size(), slot.path.size() - 1);
    std::memcpy(slot.path.data(), name.data() + (name.size() - length), length);
    slot.path[length] = '\0';
    const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
    slot.end = begin + mapped.size();
    slot.begin = begin;
    return;
  }
}

void unregister_mapping(std::span<const std::byte> mapped) {
  const std::lock_guard lock(g_registering);
  for (Slot& slot : std::span(g_slots).first(g_used.load())) {
    if (slot.begin.load() != reinterpret_cast<std::uintptr_t>(mapped.data())) continue;
    slot.begin = 0;
    return;
  }
}

}  // namespace atl
