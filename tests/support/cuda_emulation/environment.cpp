#include "tests/support/cuda_emulation/environment.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace atl::cuda_emulation {

std::uint64_t environment_number(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end) {
    std::fprintf(stderr, "CUDA emulation: %s=%s is no number\n", name, text);
    std::abort();
  }
  return value;
}

}  // namespace atl::cuda_emulation
