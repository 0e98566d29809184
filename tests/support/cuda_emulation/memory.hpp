// The emulated device memory: a reserved range of addresses that host code can't touch, with guard
// pages between allocations. Also knows pinned host memory. Callers hold the emulator's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace atl::cuda_emulation {

struct Allocation {
  std::uintptr_t first_page;
  std::size_t page_bytes;
  std::uintptr_t base;
  std::size_t bytes;
  int device;
  bool freed;     // cudaFreeAsync was called but has not been executed yet
  bool readable;  // to host code; true while work runs
};

class Memory {
 public:
  // Memory of one device, in bytes: ATOLL_EMULATION_MEMORY, 2 GiB by default.
  static std::size_t capacity();

  // Device memory filled with bytes 0xFF, aligned to 256 bytes; its end meets a guard page within
  // 255 bytes. Null if the device has no more.
  void* allocate(int device, std::size_t bytes);
  // Ends the process if bytes around the allocation were overwritten.
  void release(void* base);
  // The live allocation that holds the address, null if none does.
  Allocation* find(const void* address);
  std::size_t used(int device) const;
  // No longer counted as used, though work that still runs may use it: what cudaFreeAsync does.
  void mark_freed(Allocation& allocation);

  // Lets the calling process read and write device memory, until close().
  void open();
  void close();

  // Page-locked memory filled with bytes 0xFF; a guard page follows within 255 bytes.
  void* allocate_pinned(std::size_t bytes);
  // False if `base` is no pinned allocation. Afterwards every access to it crashes.
  bool release_pinned(void* base);
  bool is_pinned(const void* address) const;

 private:
  std::uintptr_t find_room(std::size_t bytes);
  void check_surroundings(const Allocation& allocation) const;

  std::map<std::uintptr_t, Allocation> live_;  // by first page
  std::map<int, std::size_t> used_;            // by device
  std::map<std::uintptr_t, Allocation> pinned_;
  std::uintptr_t next_ = 0;
  bool open_ = false;
};

Memory& memory();

}  // namespace atl::cuda_emulation
