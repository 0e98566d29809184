#include "engine/exchange/halo_exchange.hpp"

namespace atl {

const char* to_string(Sensitivity sensitivity) {
  return sensitivity == Sensitivity::kVariance ? "variance" : "upper-bound";
}

std::vector<std::string> exchange_modes() { return {"exact", "quantized", "none"}; }

std::unique_ptr<HaloExchange> make_exchange(const ExchangeOptions& options, const Rank& rank) {
  if (options.mode == "exact") return make_exact_exchange(rank);
  if (options.mode == "none") return make_isolated_exchange(rank);
  if (options.mode == "quantized") return make_quantized_exchange(options.message_bits, rank);
  fail_option("--exchange {}: unknown exchange mode; allowed are: {}", options.mode,
              fmt::join(exchange_modes(), ", "));
}

}  // namespace atl
