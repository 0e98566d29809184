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
  if (options.exchange == "quantized" && bits.by != BitChoice::By::kFixed &&
      options.cuda_graph == GraphReplay::kOn &&
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
