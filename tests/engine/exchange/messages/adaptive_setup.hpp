// Exchanges with adaptive widths on one small graph, by calibrations made by hand.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/exchange/exchanged_rows.hpp"

namespace atl {

inline constexpr std::int64_t kNodes = 120;

// Rows that drift, so that later assignments differ from earlier ones.
inline float drifting(std::int64_t node, std::int64_t column, int epoch) {
  const double size = std::exp2(3 * std::sin(static_cast<double>(node) + 0.2 * epoch));
  return static_cast<float>(size * std::sin(static_cast<double>(node * 31 + column * 17 + 1)));
}

struct SlowLink {
  int from = 0;
  int to = 0;
  double theta = 0;
};

// All links at `theta` seconds per byte but for `others`; the channel of ExchangeSetup in both
// directions.
inline Json calibration(int ranks, double theta, const std::vector<SlowLink>& others = {},
                        double central_s = 0) {
  Json json = {{"ranks", ranks}, {"links", Json::array()}, {"channels", Json::array()}};
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      double mine = theta;
      for (const SlowLink& link : others) {
        if (link.from == from && link.to == to) mine = link.theta;
      }
      json["links"].push_back(
          {{"from", from}, {"to", to}, {"theta_s_per_byte", mine}, {"gamma_s", 1e-4}});
    }
  }
  for (const char* direction : {"forward", "backward"}) {
    json["channels"].push_back({{"layer", ExchangeSetup{}.channel},
                                {"direction", direction},
                                {"central_s", central_s},
                                {"slowdown_s", 0.0},
                                {"quantize_s", 1e-5}});
  }
  return json;
}

inline ExchangeSetup adaptive_setup(int parts, const Json& calibration, int last_epoch) {
  ExchangeSetup setup{.parts = parts, .columns = 24, .last_epoch = last_epoch, .value = drifting};
  setup.exchange.mode = "quantized";
  setup.exchange.message_bits.bits = parse_bits("adaptive");
  setup.exchange.message_bits.reassign_every = 3;
  setup.exchange.message_bits.calibration = calibration;
  return setup;
}

// Tests on a directed weighted graph of kNodes nodes.
class AdaptiveBitsTest : public ::testing::Test {
 protected:
  GraphView graph() const { return {csr_.view(), false}; }
  CsrView csr() const { return csr_.view(); }

 private:
  Csr csr_ = random_graph(kNodes, 5, true, true, 11);
};

}  // namespace atl
