#include "engine/training/options.hpp"

#include "engine/models/model_options.hpp"
#include "kernels/registry.hpp"

namespace atl {

void check_options(const TrainOptions& options) {
  check_model_options(options.model);
  const BitChoice& bits = options.message_bits.bits;
  const std::size_t widths = bits.widths.size();
  if (widths > 1 && widths != static_cast<std::size_t>(layer_count(options.model))) {
    fail_option("--bits {}: {} widths for {} layers; give one, or one per layer", to_string(bits),
                widths, layer_count(options.model));
  }
  const ExchangeOptions exchange = options.exchange_options();
  check_exchange(exchange);
  const bool takes_bits = exchange_mode(exchange.mode).takes_bits();
  if (options.repartition_every > 0 && exchange_mode(exchange.mode).sent != MessagesSent::kNone) {
    fail_option(
        "--repartition-every {}: --exchange {} found, whose parts send messages; allowed with "
        "--exchange none",
        options.repartition_every, exchange.mode);
  }
  if (options.coverage_weights && options.repartition_every == 0) {
    fail_option(
        "--coverage-weights on: what the only cut leaves of a neighbourhood is always the same; "
        "allowed with --repartition-every 1 or more");
  }
  if (options.trace && options.repartition_every > 0) {
    fail_option("--trace: a trace shows one cut; allowed without --repartition-every");
  }
  if (options.cuda_graph == GraphReplay::kOn && takes_bits &&
      (exchange.pipelined() || !exchange_mode(exchange.mode).sends_all())) {
    fail_option(
        "--cuda-graph on: with --exchange {} the messages of one epoch are not those of "
        "the next, so no recording holds; leave it out",
        exchange.mode);
  }
  if (takes_bits && bits.by != BitChoice::By::kFixed && options.cuda_graph == GraphReplay::kOn &&
      options.message_bits.reassign_every < kEpochsWorthRecording) {
    fail_option(
        "--cuda-graph on: packets of --bits {} change their size every --reassign-every {} epochs, "
        "and a recording holds until then; allowed are {} epochs or more",
        to_string(bits), options.message_bits.reassign_every, kEpochsWorthRecording);
  }
  if (options.trace && options.cuda_graph == GraphReplay::kOn) {
    fail_option("--trace: a replayed epoch has no spans; leave out --cuda-graph on");
  }
  if (options.patience > 0 && options.eval_every == 0) {
    fail_option("--patience {}: needs evaluations; --eval-every must be at least 1",
                options.patience);
  }
}

}  // namespace atl
