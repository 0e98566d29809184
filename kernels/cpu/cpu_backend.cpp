#include "kernels/cpu/cpu_backend.hpp"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {

// The processor's name as the kernel reports it; "CPU" where it does not.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "CPU";
}

struct IsaNames {
  Isa isa;
  const char* option;  // in ATOLL_VECTORS
  const char* shown;
};
// In the order of the enumeration.
constexpr IsaNames kIsaNames[] = {{Isa::kBaseline, "baseline", "baseline SIMD"},
                                  {Isa::kAvx2, "avx2", "AVX2"},
                                  {Isa::kAvx512, "avx512", "AVX-512"}};

Isa widest_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx512;
  }
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

}  // namespace

// The vectors that the processor has, or narrower ones if ATOLL_VECTORS says so: for tests and
// measurements.
Isa detect_isa() {
  const Isa widest = widest_isa();
  const char* const wanted = std::getenv("ATOLL_VECTORS");
  if (wanted == nullptr) return widest;
  for (const IsaNames& names : kIsaNames) {
    if (std::string_view(wanted) == names.option) return std::min(widest, names.isa);
  }
  fail_option("ATOLL_VECTORS={}: allowed are baseline, avx2, avx512", wanted);
}

const char* isa_name(Isa isa) { return kIsaNames[static_cast<std::size_t>(isa)].shown; }

CpuBackend::CpuBackend(int threads)
    // A product of oneDNN asks how many threads of OpenMP to use: these are shared out already.
    : workers_(threads > 0 ? threads : parallel_threads(), [] { omp_set_num_threads(1); }),
      isa_(detect_isa()),
      scratch_(nullptr, DeviceDeleter{this}) {}

std::string CpuBackend::device() const {
  const int threads = workers_.threads();
  return fmt::format("{}, {} thread{}, {}", processor_name(), threads, threads == 1 ? "" : "s",
                     isa_name(isa_));
}

void CpuBackend::copy(Queue&, void* to, const void* from, std::int64_t bytes, CopyKind) {
  ATOLL_ASSERT(bytes >= 0, "{} bytes", bytes);
  constexpr std::int64_t kChunk = 1 << 20;
  for_chunks(bytes, kChunk, bytes / 8, [&](RowRange range, int) {
    std::memcpy(static_cast<std::byte*>(to) + range.begin,
                static_cast<const std::byte*>(from) + range.begin,
                static_cast<std::size_t>(range.size()));
  });
}

void CpuBackend::reserve_scratch(std::int64_t bytes) {
  if (bytes <= scratch_bytes_) return;
  scratch_.reset();
  scratch_bytes_ = 0;
  scratch_.reset(allocate(bytes));
  scratch_bytes_ = bytes;
}

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  if (threads < 0)
    fail_option("threads {}; allowed are 0 (as many as OpenMP would use) and up", threads);
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace atl
