#include "engine/training/first_phase.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace atl {

namespace {

constexpr const char* kByAccuracy = "accuracy";
constexpr int kLatestEpoch = 10000000;

PhaseEnd parse_phase_end(const char* option, const std::string& text) {
  if (text == kByAccuracy) return {.by_accuracy = true};
  const auto epoch = parse_number<int>(text, 0, kLatestEpoch);
  if (!epoch) {
    fail_option("{} {}: allowed are whole numbers from 0 to {}, and {}", option, text, kLatestEpoch,
                kByAccuracy);
  }
  return {.epoch = *epoch};
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
