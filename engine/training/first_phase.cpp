#include "engine/training/first_phase.hpp"

#include <charconv>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr const char* kByAccuracy = "accuracy";
constexpr int kLatestEpoch = 10000000;

PhaseEnd parse_phase_end(const char* option, const std::string& text) {
  if (text == kByAccuracy) return {.by_accuracy = true};
  PhaseEnd phase;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, phase.epoch);
  if (error != std::errc() || parsed != end || phase.epoch < 0 || phase.epoch > kLatestEpoch) {
    fail_option("{} {}: allowed are whole numbers from 0 to {}, and {}", option, text, kLatestEpoch,
                kByAccuracy);
  }
  return phase;
}

}  // namespace

std::string to_string(const PhaseEnd& end) {
  return end.by_accuracy ? kByAccuracy : std::to_string(end.epoch);
}

PhaseEnd parse_blocks_until(const std::string& text) {
  return parse_phase_end("--blocks-until", text);
}

PhaseEnd parse_local_until(const std::string& text) {
  return parse_phase_end("--local-until", text);
}

}  // namespace atl
