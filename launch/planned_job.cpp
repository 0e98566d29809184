#include "launch/planned_job.hpp"

#include "base/log.hpp"
#include "datasets/dataset.hpp"
#include "engine/training/agreement.hpp"
#include "partition/plan.hpp"

namespace atl {

Json planned_model(const TrainOptions& options) {
  return {{"model", options.model},
          {"layers", options.layers},
          {"hidden", options.hidden},
          {"norm", to_string(options.norm)},
          {"input-dropout", options.input_dropout}};
}

PlannedJob unplanned_job(const TrainFlags& flags) {
  PlannedJob job{flags.resolve(), flags.resolve_partition()};
  if (!flags.plan.empty()) {  // --parts-file is what the plan's cut is read from
    job.partition.parts_file.clear();
    job.partition.parts_checksum.clear();
  }
  return job;
}

PlannedJob planned_job(const TrainFlags& flags, Transport& transport) {
  PlannedJob job = unplanned_job(flags);
  if (flags.recompute == "all") {
    job.options.recomputation = Recomputation::of_all_pairs(transport.size());
  }
  if (flags.plan.empty()) return job;
  Plan plan;
  on_all_ranks(transport, [&] {
    plan = read_plan(flags.plan);
    // One rank reads the dataset, all of them the plan.
    const bool opens = transport.rank() == 0;
    require_plan_fits(plan, flags.plan,
                      opens ? Dataset::open(flags.dataset).info().checksum : plan.dataset_checksum,
                      transport.size(), planned_model(job.options));
  });
  job.partition = plan.partition;
  job.partition.parts_dir = flags.partition.parts_dir;
  job.partition.parts_file = flags.partition.parts_file;
  job.options.recomputation = plan.recomputation;
  job.options.gradient_sum = plan.gradient_sum;
  std::vector<int> bits;
  for (const PlannedLayer& layer : plan.layers) {
    job.options.layer_orders.push_back(
        {multiply_order_named(layer.order).value(), layer.cache_aggregate});
    bits.push_back(layer.bits);
  }
  if (plan.quantized()) {
    job.options.exchange = "quantized";
    job.options.widths.bits = fmt::format("{}", fmt::join(bits, ","));
  }
  if (transport.rank() == 0) {
    log::info("{}: {:.1f} ms per epoch expected, {:.1f} ms without the plan", flags.plan,
              plan.predicted_ms, plan.default_ms);
  }
  return job;
}

}  // namespace atl
