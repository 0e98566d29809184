#include "launch/planned_training.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace atl {

AskedMessages asked_messages(const TrainOptions& options,
                             const std::optional<std::string>& allowed) {
  AskedMessages asked;
  asked.arrival = options.arrival;
  asked.sums = options.sum_choice;
  const ExchangeOptions exchange = options.exchange_options();
  if (!exchange.is_plain()) asked.exchange = exchange;
  const ExchangeMode& mode = exchange_mode(exchange.mode);
  if (mode.sent == MessagesSent::kByCost) {
    fail_option(
        "--exchange {}: it chooses widths while it trains, which no plan can foresee; allowed are "
        "all other modes",
        mode.name);
  }
  if (mode.takes_bits()) {
    const std::vector<int>& widths = exchange.message_bits.bits.widths;
    if (widths.size() != 1) {
      fail_option(
          "--bits {}: a plan begins with one width for all; allowed are 1, 2, 4, 8, 16 and 32",
          to_string(exchange.message_bits.bits));
    }
    asked.start_bits = widths.front();
  }
  // Exact messages always are a choice, unless a mode was asked for.
  std::vector<int> others = {asked.start_bits};
  if (!asked.exchange) others.push_back(32);
  if (allowed) {
    asked.bits = parse_widths(*allowed, "--allow-bits",
                              fmt::format("{}, several as in 32,8,4", fmt::join(kWireBits, ", ")));
    if (asked.exchange && !mode.takes_bits()) {
      fail_option("--allow-bits {}: --exchange {} sends no messages that could have fewer bits",
                  *allowed, exchange.mode);
    }
  }
  for (const int width : others) {
    if (std::ranges::count(asked.bits, width) == 0) asked.bits.push_back(width);
  }
  return asked;
}

bool is_run_of(const TracedRun& run, const ModelConfig& model) {
  return layer_count(run.model) == layer_count(model) && run.model.kind == model.kind &&
         run.model.description == model.description;
}

Measured measured_by(const TracedRun& run, const Topology& topology) {
  return {common_corrections(run, topology), run.share_sent,
          run.exchange ? run.exchange->mode : ""};
}

PlannedMessages planned_messages(const AskedMessages& messages, const Measured& measured) {
  PlannedMessages planned{.arrival = messages.arrival, .sums = messages.sums};
  if (!messages.exchange) return planned;
  planned.exchange = &*messages.exchange;
  if (measured.exchange == messages.exchange->mode) planned.share = measured.share_sent;
  return planned;
}

void require_offload(const ModelConfig& model, const Topology& topology) {
  if (model.offload != OffloadChoice::kOn) return;
  for (std::size_t rank = 0; rank < topology.devices.size(); ++rank) {
    if (topology.devices[rank].kind == "cuda") continue;
    fail_option(
        "--offload on: rank {} of the topology has kind {}; in plans, values wait nowhere but in "
        "the memory of a GPU's host; use auto",
        rank, topology.devices[rank].kind);
  }
}

}  // namespace atl
