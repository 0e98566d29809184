#include "engine/exchange/halo_exchange.hpp"

#include <algorithm>
#include <array>

namespace atl {

namespace {

constexpr std::array kModes = {
    ExchangeMode{.name = kExactMode},
    ExchangeMode{.name = kModeOfBits, .usual_bits = "adaptive"},
    ExchangeMode{.name = "one-bit", .usual_bits = "1"},
    ExchangeMode{.name = "stale", .usual_bits = "32", .pipelined = true},
    ExchangeMode{.name = "sampled", .sent = MessagesSent::kSampled, .usual_bits = "32"},
    ExchangeMode{.name = "periodic", .sent = MessagesSent::kPeriodic, .usual_bits = "32"},
    ExchangeMode{.name = "skip", .sent = MessagesSent::kDrifted, .usual_bits = "32"},
    ExchangeMode{.name = "compensated", .usual_bits = "2", .differences = true},
    ExchangeMode{.name = "unified",
                 .sent = MessagesSent::kByCost,
                 .usual_bits = "adaptive",
                 .differences = true},
    ExchangeMode{.name = "none", .sent = MessagesSent::kNone},
};

}  // namespace

const char* to_string(Sensitivity sensitivity) {
  return sensitivity == Sensitivity::kVariance ? "variance" : "upper-bound";
}

const char* to_string(MessageSchedule schedule) {
  return std::array{"auto", "synchronous", "pipelined"}.at(static_cast<std::size_t>(schedule));
}

std::vector<std::string> exchange_modes() {
  std::vector<std::string> names;
  for (const ExchangeMode& mode : kModes) names.emplace_back(mode.name);
  return names;
}

const ExchangeMode* find_exchange_mode(std::string_view name) {
  const auto found = std::ranges::find(kModes, name, &ExchangeMode::name);
  return found == kModes.end() ? nullptr : &*found;
}

const ExchangeMode& exchange_mode(const std::string& name) {
  const ExchangeMode* found = find_exchange_mode(name);
  if (found == nullptr) {
    fail_option("--exchange {}: unknown exchange mode; allowed are: {}", name,
                fmt::join(exchange_modes(), ", "));
  }
  return *found;
}

bool ExchangeOptions::keeps_rows() const {
  const ExchangeMode& made = exchange_mode(mode);
  return made.sent == MessagesSent::kPeriodic || made.sent == MessagesSent::kDrifted ||
         made.differences || pipelined();
}

bool ExchangeOptions::is_plain() const { return exchange_mode(mode).sends_all() && !keeps_rows(); }

void check_exchange(const ExchangeOptions& options) {
  const ExchangeMode& mode = exchange_mode(options.mode);
  const SendOptions& sending = options.sending;
  const BitChoice& bits = options.message_bits.bits;
  const bool pipelined = options.pipelined();
  if (sending.schedule == MessageSchedule::kPipelined && !(mode.sends_all() && mode.takes_bits())) {
    fail_option(
        "--schedule pipelined: --exchange {} has no messages that could be used later; "
        "allowed are quantized, one-bit, stale and compensated",
        mode.name);
  }
  if (sending.shift && !options.keeps_rows()) {
    fail_option(
        "--shift on: with --exchange {}, synchronous, nobody keeps rows that could be shifted; "
        "allowed "
        "are stale, periodic, skip, compensated, and others with --schedule pipelined",
        mode.name);
  }
  if (sending.synchronous_every > 0 && !pipelined) {
    fail_option(
        "--synchronous-every {}: all epochs of --exchange {} are synchronous; it is for "
        "stale, and others with --schedule pipelined",
        sending.synchronous_every, mode.name);
  }
  const bool adaptive = bits.by == BitChoice::By::kAdaptive;
  if (mode.sent == MessagesSent::kByCost) {
    if (adaptive) return;
    fail_option("--bits {}: --exchange {} chooses widths by itself; allowed is adaptive",
                to_string(bits), mode.name);
  }
  if (!mode.takes_bits() || bits.by == BitChoice::By::kFixed) return;
  if (mode.sends_all() && !(adaptive && pipelined)) return;
  fail_option(
      "--bits {}: allowed with --exchange {}{} are 1, 2, 4, 8, 16, 32, or a width per layer "
      "as in 8,4,32",
      to_string(bits), mode.name, pipelined ? " and --schedule pipelined" : "");
}

std::unique_ptr<HaloExchange> make_exchange(const ExchangeOptions& options, const Rank& rank) {
  check_exchange(options);
  const ExchangeMode& mode = exchange_mode(options.mode);
  if (mode.sends_all() && !mode.takes_bits()) return make_exact_exchange(rank);
  return make_message_exchange(options, rank);
}

}  // namespace atl
