// The emulated device memory: a reserved range of addresses that host code can't touch, with guard
// pages between allocations. Also knows pinned host memory. Callers hold the emulator's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace atl::cuda_emulation {

// Part of an allocation whose access rights change together.
enum class ChunkState : unsigned char { kUntouched, kClosed, kOpen };

struct Allocation {
  std::uintptr_t first_page = 0;
  std::size_t page_bytes = 0;
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  int device = 0;
  const void* pool = nullptr;
  bool freed = false;  // cudaFreeAsync was called but has not been executed yet
  std::vector<ChunkState> chunks;
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
  // Bytes of live allocations, those included that wait for cudaFreeAsync to be executed.
  std::size_t used(int device) const;
  std::size_t used_of_pool(const void* pool) const;

  // Lets the calling thread read and write device memory, until close(). Each chunk is made
  // accessible at its first access, by the handler of the access fault.
  void open();
  void close();
  // From the handler of access faults: true if the access may be repeated.
  bool resolve_fault(std::uintptr_t address);
  // The allocation before the address, for messages; null if there is none.
  const Allocation* nearest_before(std::uintptr_t address) const;

  // Page-locked memory filled with bytes 0xFF; a guard page follows within 255 bytes.
  void* allocate_pinned(std::size_t bytes);
  // False if `base` is no pinned allocation. Afterwards every access to it crashes.
  bool release_pinned(void* base);
  bool is_pinned(const void* address) const;

 private:
  struct OpenChunk {
    Allocation* allocation;
    std::size_t chunk;
  };

  std::uintptr_t find_room(std::size_t bytes);
  void open_chunk(Allocation& allocation, std::size_t chunk);

  std::map<std::uintptr_t, Allocation> live_;  // by first page
  std::map<int, std::size_t> used_;            // by device
  std::map<std::uintptr_t, Allocation> pinned_;
  std::vector<OpenChunk> open_chunks_;  // has room for all chunks: a signal handler appends
  std::size_t chunk_count_ = 0;         // of live allocations
  std::uintptr_t next_ = 0;
};

Memory& memory();

// Whether devices have pools of memory.
bool has_pools();

}  // namespace atl::cuda_emulation
