#include "tests/support/cuda_emulation/memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/cuda_emulation/block.hpp"
#include "tests/support/cuda_emulation/environment.hpp"

namespace atl::cuda_emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;
// Addresses are handed out in order, so that freed ones stay unmapped for as long as possible.
constexpr std::size_t kArenaBytes = std::size_t{1} << 40;
constexpr unsigned char kFresh = 0xff;
constexpr unsigned char kSurroundings = 0xa5;

std::uintptr_t arena_begin = 0;
struct sigaction previous_action;

std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

bool protects() {
  static const bool protects = environment_number("ATOLL_EMULATION_PROTECT", 1) != 0;
  return protects;
}

// Says what the access was, then lets it fault again under the action that was there before.
void explain_fault(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (address >= arena_begin && address < arena_begin + kArenaBytes) {
    char text[512];
    const char* kernel = running_kernel();
    const int length = std::snprintf(
        text, sizeof(text),
        kernel != nullptr ? "CUDA emulation: out of bounds: %s%s touched device address %p\n"
                          : "CUDA emulation: %s%s touched device address %p\n",
        kernel != nullptr ? "kernel " : "host code (or a copy out of bounds)",
        kernel != nullptr ? kernel : "", info->si_addr);
    if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) _exit(1);
  }
  sigaction(SIGSEGV, &previous_action, nullptr);
}

void reserve_arena() {
  void* begin =
      mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) {
    std::perror("CUDA emulation: reserving addresses for device memory");
    std::abort();
  }
  arena_begin = reinterpret_cast<std::uintptr_t>(begin);
  struct sigaction action {};
  action.sa_sigaction = explain_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &previous_action);
}

void protect(const Allocation& allocation, int protection) {
  if (mprotect(reinterpret_cast<void*>(allocation.first_page), allocation.page_bytes, protection) !=
      0) {
    std::perror("CUDA emulation: mprotect");
    std::abort();
  }
}

void fill(const Allocation& allocation) {
  auto* pages = reinterpret_cast<unsigned char*>(allocation.first_page);
  const std::size_t before = allocation.base - allocation.first_page;
  const std::size_t after = allocation.page_bytes - before - allocation.bytes;
  std::memset(pages, kSurroundings, before);
  std::memset(pages + before, kFresh, allocation.bytes);
  std::memset(pages + before + allocation.bytes, kSurroundings, after);
}

// Pages for `bytes` whose end is the end of the last page, up to the alignment.
Allocation place(std::uintptr_t first_page, std::size_t bytes, int device) {
  const std::size_t padded = round_up(bytes == 0 ? 1 : bytes, kAlignment);
  const std::size_t page_bytes = round_up(padded, kPage);
  return {first_page, page_bytes, first_page + page_bytes - padded, bytes, device, false, true};
}

template <typename Map>
auto find_in(Map& map, std::uintptr_t address) -> decltype(&map.begin()->second) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return nullptr;
  auto& candidate = (--after)->second;
  const bool inside = address >= candidate.base &&
                      (address < candidate.base + candidate.bytes || address == candidate.base);
  return inside ? &candidate : nullptr;
}

}  // namespace

std::size_t Memory::capacity() {
  static const std::size_t bytes =
      environment_number("ATOLL_EMULATION_MEMORY", std::uint64_t{2} << 30);
  return bytes;
}

std::uintptr_t Memory::find_room(std::size_t bytes) {
  if (arena_begin == 0) reserve_arena();
  if (next_ == 0 || next_ + bytes > arena_begin + kArenaBytes) next_ = arena_begin;
  while (true) {
    const auto following = live_.upper_bound(next_);
    if (following != live_.begin()) {
      const Allocation& before = std::prev(following)->second;
      const std::uintptr_t end = before.first_page + before.page_bytes + kPage;
      if (end > next_) next_ = end;
    }
    if (following == live_.end() || next_ + bytes <= following->first) break;
    next_ = following->first;
  }
  const std::uintptr_t found = next_;
  next_ += bytes;
  return found;
}

void* Memory::allocate(int device, std::size_t bytes) {
  if (bytes > capacity() - used_[device]) return nullptr;
  Allocation allocation = place(0, bytes, device);
  allocation = place(find_room(allocation.page_bytes + kPage), bytes, device);
  protect(allocation, PROT_READ | PROT_WRITE);
  fill(allocation);
  if (protects() && !open_) {
    protect(allocation, PROT_NONE);
    allocation.readable = false;
  }
  used_[device] += bytes;
  live_[allocation.first_page] = allocation;
  return reinterpret_cast<void*>(allocation.base);
}

void Memory::check_surroundings(const Allocation& allocation) const {
  const auto* byte = reinterpret_cast<const unsigned char*>(allocation.first_page);
  const unsigned char* const end = byte + allocation.page_bytes;
  for (; byte != end; ++byte) {
    const auto address = reinterpret_cast<std::uintptr_t>(byte);
    if (address == allocation.base) byte += allocation.bytes;
    if (byte == end) break;
    if (*byte == kSurroundings) continue;
    std::fprintf(
        stderr,
        "CUDA emulation: out of bounds: byte %td of an allocation of %zu bytes was "
        "overwritten\n",
        static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(byte) - allocation.base),
        allocation.bytes);
    std::abort();
  }
}

void Memory::release(void* base) {
  const Allocation* allocation = find(base);
  if (!allocation->readable) protect(*allocation, PROT_READ);
  check_surroundings(*allocation);
  if (!allocation->freed) used_[allocation->device] -= allocation->bytes;
  // Fresh pages without access, so that the old contents are gone too.
  if (mmap(reinterpret_cast<void*>(allocation->first_page), allocation->page_bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    std::perror("CUDA emulation: mmap");
    std::abort();
  }
  live_.erase(allocation->first_page);
}

Allocation* Memory::find(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return find_in(live_, number);
}

std::size_t Memory::used(int device) const {
  const auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

void Memory::mark_freed(Allocation& allocation) {
  allocation.freed = true;
  used_[allocation.device] -= allocation.bytes;
}

void Memory::open() {
  if (open_) return;
  open_ = true;
  if (!protects()) return;
  for (auto& [page, allocation] : live_) {
    protect(allocation, PROT_READ | PROT_WRITE);
    allocation.readable = true;
  }
}

void Memory::close() {
  if (!open_) return;
  open_ = false;
  if (!protects()) return;
  for (auto& [page, allocation] : live_) {
    protect(allocation, PROT_NONE);
    allocation.readable = false;
  }
}

void* Memory::allocate_pinned(std::size_t bytes) {
  Allocation allocation = place(0, bytes, 0);
  void* pages = mmap(nullptr, allocation.page_bytes + kPage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  allocation = place(reinterpret_cast<std::uintptr_t>(pages), bytes, 0);
  protect(allocation, PROT_READ | PROT_WRITE);
  fill(allocation);
  pinned_[allocation.first_page] = allocation;
  return reinterpret_cast<void*>(allocation.base);
}

bool Memory::release_pinned(void* base) {
  const auto number = reinterpret_cast<std::uintptr_t>(base);
  const Allocation* allocation = find_in(pinned_, number);
  if (allocation == nullptr || allocation->base != number) return false;
  check_surroundings(*allocation);
  munmap(reinterpret_cast<void*>(allocation->first_page), allocation->page_bytes + kPage);
  pinned_.erase(allocation->first_page);
  return true;
}

bool Memory::is_pinned(const void* address) const {
  return find_in(pinned_, reinterpret_cast<std::uintptr_t>(address)) != nullptr;
}

Memory& memory() {
  static Memory* const only = new Memory;
  return *only;
}

}  // namespace atl::cuda_emulation
