#include "tests/support/cuda_emulation/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/support/cuda_emulation/arena.hpp"
#include "tests/support/cuda_emulation/environment.hpp"

namespace atl::cuda_emulation {
namespace {

constexpr std::size_t kAlignment = 256;
// Changing the rights of a page that was touched costs time, and so does a fault.
constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr unsigned char kFresh = 0xff;
constexpr unsigned char kSurroundings = 0xa5;

// Whether the calling thread executes work of a stream.
thread_local bool may_touch_device_memory = false;

std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

bool protects() {
  static const bool protects = environment_number("ATOLL_EMULATION_PROTECT", 1) != 0;
  return protects;
}

// Pages for `bytes` whose end is the end of the last page, up to the alignment.
Allocation measure(std::size_t bytes, int device) {
  const std::size_t padded = round_up(bytes == 0 ? 1 : bytes, kAlignment);
  Allocation allocation;
  allocation.page_bytes = round_up(padded, kPage);
  allocation.base = allocation.page_bytes - padded;
  allocation.bytes = bytes;
  allocation.device = device;
  allocation.chunks.assign((allocation.page_bytes + kChunkBytes - 1) / kChunkBytes,
                           ChunkState::kUntouched);
  return allocation;
}

void place(Allocation& allocation, std::uintptr_t first_page) {
  allocation.first_page = first_page;
  allocation.base += first_page;
}

struct Range {
  std::uintptr_t begin, end;
  std::size_t bytes() const { return end - begin; }
};

Range chunk_range(const Allocation& allocation, std::size_t chunk) {
  const std::uintptr_t begin = allocation.first_page + chunk * kChunkBytes;
  return {begin, std::min(begin + kChunkBytes, allocation.first_page + allocation.page_bytes)};
}

void fill_bytes(const Allocation& allocation, const Range& range) {
  std::memset(reinterpret_cast<void*>(range.begin), kFresh, range.bytes());
  if (range.begin < allocation.base) {
    std::memset(reinterpret_cast<void*>(range.begin), kSurroundings, allocation.base - range.begin);
  }
  const std::uintptr_t end = allocation.base + allocation.bytes;
  if (end < range.end) std::memset(reinterpret_cast<void*>(end), kSurroundings, range.end - end);
}

void check_surroundings(const Allocation& allocation, const Range& range) {
  const std::uintptr_t end = allocation.base + allocation.bytes;
  for (std::uintptr_t at = range.begin; at < range.end; ++at) {
    if (at >= allocation.base && at < end) {
      at = end - 1;
    } else if (*reinterpret_cast<const unsigned char*>(at) != kSurroundings) {
      std::fprintf(stderr,
                   "CUDA emulation: out of bounds: byte %td of an allocation of %zu bytes was "
                   "overwritten\n",
                   static_cast<std::ptrdiff_t>(at - allocation.base), allocation.bytes);
      std::abort();
    }
  }
}

template <typename Map>
auto last_before(Map& map, std::uintptr_t address) -> decltype(&map.begin()->second) {
  auto after = map.upper_bound(address);
  return after == map.begin() ? nullptr : &std::prev(after)->second;
}

template <typename Map>
auto find_in(Map& map, const void* pointer) -> decltype(&map.begin()->second) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto* candidate = last_before(map, address);
  if (candidate == nullptr || address < candidate->base) return nullptr;
  return address < candidate->base + candidate->bytes ? candidate : nullptr;
}

}  // namespace

std::size_t Memory::capacity() {
  static const std::size_t bytes =
      environment_number("ATOLL_EMULATION_MEMORY", std::uint64_t{2} << 30);
  return bytes;
}

std::uintptr_t Memory::find_room(std::size_t bytes) {
  if (next_ == 0 || next_ + bytes > arena().end) next_ = arena().begin;
  while (true) {
    if (const Allocation* before = last_before(live_, next_)) {
      next_ = std::max(next_, before->first_page + before->page_bytes + kPage);
    }
    const auto following = live_.upper_bound(next_);
    if (following == live_.end() || next_ + bytes <= following->first) break;
    next_ = following->first;
  }
  return std::exchange(next_, next_ + bytes);
}

void* Memory::allocate(int device, std::size_t bytes) {
  if (bytes > capacity() - std::min(capacity(), used_[device])) return nullptr;
  Allocation measured = measure(bytes, device);
  place(measured, find_room(measured.page_bytes + kPage));
  used_[device] += bytes;
  chunk_count_ += measured.chunks.size();
  if (open_chunks_.capacity() < chunk_count_) open_chunks_.reserve(2 * chunk_count_);
  Allocation& allocation = live_[measured.first_page] = std::move(measured);
  for (std::size_t i = 0; !protects() && i < allocation.chunks.size(); ++i) {
    open_chunk(allocation, i);
  }
  return reinterpret_cast<void*>(allocation.base);
}

void Memory::release(void* base) {
  Allocation& allocation = *find(base);
  for (std::size_t i = 0; i < allocation.chunks.size(); ++i) {
    if (allocation.chunks[i] == ChunkState::kUntouched) continue;
    const Range range = chunk_range(allocation, i);
    protect(range.begin, range.bytes(), PROT_READ);
    check_surroundings(allocation, range);
  }
  std::erase_if(open_chunks_,
                [&](const OpenChunk& open) { return open.allocation == &allocation; });
  used_[allocation.device] -= allocation.bytes;
  chunk_count_ -= allocation.chunks.size();
  discard(allocation.first_page, allocation.page_bytes);
  live_.erase(allocation.first_page);
}

Allocation* Memory::find(const void* address) { return find_in(live_, address); }

const Allocation* Memory::nearest_before(std::uintptr_t address) const {
  return last_before(live_, address);
}

std::size_t Memory::used_of_pool(const void* pool) const {
  std::size_t bytes = 0;
  for (const auto& [page, allocation] : live_) {
    if (allocation.pool == pool) bytes += allocation.bytes;
  }
  return bytes;
}

std::size_t Memory::used(int device) const {
  const auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

void Memory::open() { may_touch_device_memory = true; }

void Memory::close() {
  may_touch_device_memory = false;
  if (!protects()) return;
  for (const auto& [allocation, chunk] : open_chunks_) {
    const Range range = chunk_range(*allocation, chunk);
    protect(range.begin, range.bytes(), PROT_NONE);
    allocation->chunks[chunk] = ChunkState::kClosed;
  }
  open_chunks_.clear();
}

void Memory::open_chunk(Allocation& allocation, std::size_t chunk) {
  const Range range = chunk_range(allocation, chunk);
  protect(range.begin, range.bytes(), PROT_READ | PROT_WRITE);
  if (allocation.chunks[chunk] == ChunkState::kUntouched) fill_bytes(allocation, range);
  allocation.chunks[chunk] = ChunkState::kOpen;
  open_chunks_.push_back({&allocation, chunk});
}

bool Memory::resolve_fault(std::uintptr_t address) {
  if (!may_touch_device_memory) return false;
  Allocation* const allocation = last_before(live_, address);
  if (allocation == nullptr || address >= allocation->first_page + allocation->page_bytes) {
    return false;
  }
  const std::size_t chunk = (address - allocation->first_page) / kChunkBytes;
  if (allocation->chunks[chunk] == ChunkState::kOpen) return false;
  open_chunk(*allocation, chunk);
  return true;
}

void* Memory::allocate_pinned(std::size_t bytes) {
  Allocation allocation = measure(bytes, 0);
  void* pages = mmap(nullptr, allocation.page_bytes + kPage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  place(allocation, reinterpret_cast<std::uintptr_t>(pages));
  protect(allocation.first_page, allocation.page_bytes, PROT_READ | PROT_WRITE);
  fill_bytes(allocation, {allocation.first_page, allocation.first_page + allocation.page_bytes});
  void* const base = reinterpret_cast<void*>(allocation.base);
  pinned_[allocation.first_page] = std::move(allocation);
  return base;
}

bool Memory::release_pinned(void* base) {
  const Allocation* allocation = find_in(pinned_, base);
  if (allocation == nullptr || allocation->base != reinterpret_cast<std::uintptr_t>(base)) {
    return false;
  }
  check_surroundings(*allocation,
                     {allocation->first_page, allocation->first_page + allocation->page_bytes});
  discard(allocation->first_page, allocation->page_bytes);
  pinned_.erase(allocation->first_page);
  return true;
}

bool Memory::is_pinned(const void* address) const { return find_in(pinned_, address) != nullptr; }

bool has_pools() {
  static const bool pools = environment_number("ATOLL_EMULATION_POOLS", 1) != 0;
  return pools;
}

Memory& memory() {
  static Memory* const only = new Memory;
  return *only;
}

}  // namespace atl::cuda_emulation
