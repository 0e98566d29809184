#include "tests/support/cuda_emulation/arena.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/cuda_emulation/block.hpp"
#include "tests/support/cuda_emulation/memory.hpp"

namespace atl::cuda_emulation {
namespace {

// Addresses are handed out in order, so that freed ones stay without access as long as possible.
constexpr std::size_t kArenaBytes = std::size_t{1} << 37;

Arena reserved{0, 0};
struct sigaction previous_action;

void explain(std::uintptr_t address) {
  const char* kernel = running_kernel();
  const Allocation* allocation = memory().nearest_before(address);
  char text[768];
  int length = std::snprintf(text, sizeof(text), "CUDA emulation: %s%s touched device address %#zx",
                             kernel != nullptr ? "out of bounds: kernel " : "host code",
                             kernel != nullptr ? kernel : "", static_cast<std::size_t>(address));
  if (allocation != nullptr) {
    length +=
        std::snprintf(text + length, sizeof(text) - static_cast<std::size_t>(length),
                      ", byte %zu of an allocation of %zu bytes",
                      static_cast<std::size_t>(address - allocation->base), allocation->bytes);
  }
  text[length++] = '\n';
  if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) _exit(1);
}

void handle_fault(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (address >= reserved.begin && address < reserved.end) {
    if (memory().resolve_fault(address)) return;
    explain(address);
  }
  sigaction(SIGSEGV, &previous_action, nullptr);
}

}  // namespace

const Arena& arena() {
  if (reserved.begin != 0) return reserved;
  void* begin =
      mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) {
    std::perror("CUDA emulation: reserving addresses for device memory");
    std::abort();
  }
  reserved.begin = reinterpret_cast<std::uintptr_t>(begin);
  reserved.end = reserved.begin + kArenaBytes;
  struct sigaction action {};
  action.sa_sigaction = handle_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &previous_action);
  return reserved;
}

void protect(std::uintptr_t first_page, std::size_t bytes, int protection) {
  if (mprotect(reinterpret_cast<void*>(first_page), bytes, protection) != 0) {
    std::perror("CUDA emulation: mprotect");
    std::abort();
  }
}

void discard(std::uintptr_t first_page, std::size_t bytes) {
  if (mmap(reinterpret_cast<void*>(first_page), bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    std::perror("CUDA emulation: mmap");
    std::abort();
  }
}

}  // namespace atl::cuda_emulation
