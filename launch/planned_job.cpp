#include "launch/planned_job.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "datasets/dataset.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/option_table.hpp"

namespace atl {

PlannedJob unplanned_job(const TrainFlags& flags) {
  PlannedJob job{flags.resolve(), flags.resolve_partition()};
  if (!flags.plan.empty()) {  // --parts-file is what the plan's cut is read from
    job.partition.parts_file.clear();
    job.partition.parts_checksum.clear();
  }
  return job;
}

namespace {

// --parts-file beside a plan is the file that the plan's cut was read from, also where the
// partition is there and nobody reads it.
void require_parts_file_fits(const PartitionFlags& flags, const Plan& plan,
                             const std::string& plan_file) {
  if (flags.parts_file.empty()) return;
  if (plan.partition.method != "file") {
    fail_option("--parts-file: {} found, but the cut of {} is made by --method {}; leave it out",
                flags.parts_file, plan_file, plan.partition.method);
  }
  const std::string found = parts_file_checksum(flags.parts_file);
  if (found == plan.partition.parts_checksum) return;
  fail_input("{}: checksum {} found; {} was made for the file with checksum {}", flags.parts_file,
             found, plan_file, plan.partition.parts_checksum);
}

}  // namespace

void follow_plan(const Plan& plan, const TrainFlags& flags, PlannedJob& job) {
  job.partition = plan.partition;
  job.partition.parts_dir = flags.partition.parts_dir;
  job.partition.parts_file = flags.partition.parts_file;
  job.options.model.recomputation = plan.recomputation;
  job.options.gradient_sum = plan.gradient_sum;
  std::vector<int> bits;
  for (const PlannedLayer& layer : plan.layers) {
    job.options.model.algebra.push_back(
        {multiply_order_named(layer.order).value(), layer.cache_aggregate});
    bits.push_back(layer.bits);
  }
  if (plan.quantized()) {
    job.options.exchange = "quantized";
    job.options.message_bits.bits = fmt::format("{}", fmt::join(bits, ","));
  }
}

PlannedJob planned_job(const TrainFlags& flags, Transport& transport) {
  PlannedJob job = unplanned_job(flags);
  if (flags.plan.empty()) return job;
  Plan plan;
  on_all_ranks(transport, [&] {
    plan = read_plan(flags.plan);
    // One rank reads the dataset, all of them the plan.
    const bool opens = transport.rank() == 0;
    require_plan_fits(plan, flags.plan,
                      opens ? Dataset::open(flags.dataset).info().checksum : plan.dataset_checksum,
                      transport.size(), planned_options(job.options));
    require_parts_file_fits(flags.partition, plan, flags.plan);
  });
  follow_plan(plan, flags, job);
  if (transport.rank() == 0) {
    log::info("{}: {:.1f} ms per epoch expected, {:.1f} ms without the plan", flags.plan,
              plan.predicted_ms, plan.default_ms);
  }
  return job;
}

}  // namespace atl
