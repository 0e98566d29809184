#include "engine/training/memory_limit.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/file_memory.hpp"
#include "base/memory.hpp"
#include "engine/comm/max_over_ranks.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/work.hpp"
#include "engine/training/host_share.hpp"

namespace atl {

namespace {

// The time of a byte that travels, about, in bytes that memory moves, and that of such a byte in
// operations: only the better of two ways hangs on it.
constexpr double kBytesPerMessageByte = 20;
constexpr double kBytesPerFlop = 0.1;
// The same of a byte that is copied between a device and its host: memory of 2 to 3.5 TB/s beside a
// bus of 25 to 55 GB/s.
constexpr double kBytesPerCopiedByte = 64;
// Bytes per second that memory moves for one rank of a CPU, about: what a measured disk is compared
// with.
constexpr double kMemoryRate = 10e9;
// The time of a byte of values whose pages come or leave, in bytes that memory moves: the system
// clears, maps and counts them. Measured with GCN and GraphSAGE on graphs of the sizes of arxiv and
// of ogbn-products: 3 to 7.
constexpr double kBytesPerPagedByte = 5;

// Once they run, the code of the program and of libraries, the kernels that oneDNN makes, and the
// heaps of threads take so much of a host, of which the process holds nothing yet. Up to 26 MiB
// were seen.
constexpr std::int64_t kTakenLater = 27 << 20;

// The memory that the process holds already: libraries and, on a host, what it has of the data but
// mapped features and edges (Shard::rest); by all ranks, since they may be in one process. And what
// it will take in any case.
std::int64_t resident_here(const Trainer& trainer, Transport& transport) {
  transport.barrier({"resident memory"});
  return trainer.rank().backend.host_accessible() ? resident_bytes() + kTakenLater : 0;
}

class Chooser {
 public:
  Chooser(std::int64_t limit, std::int64_t data, const Trainer& trainer, Transport& transport)
      : limit_(limit),
        trainer_(trainer),
        transport_(transport),
        layers_(layer_count(trainer.model())),
        offload_(offload_of(trainer, transport)),
        pages_(pages(trainer, transport)),
        on_blocks_(trainer.trains_on_blocks_alone()),
        resident_(resident_here(trainer, transport)),
        others_(trainer.bytes_needed() + data + resident_ - trainer.network().value_bytes()) {
    plain_time_ = time_of({});
  }

  Savings choose() {
    if (fits({})) return {};
    if (on_blocks_) {
      if (!pages_ || !fits_paged()) refuse();
      return {.paged_budget = paged_budget()};
    }
    std::vector<Savings> fitting;
    const bool may_send_again = transport_.size() == 1 || trainer_.sends_exactly();
    for (const bool keeps : {true, false}) {
      if (offload_ == OffloadChoice::kOn || (!keeps && !may_send_again)) continue;
      const Dropping found = longest({.last_run = 1, .keeps_aggregates = keeps});
      if (found.any()) fitting.push_back({.dropping = found});
    }
    if (const Offloading found = fewest({}); found.any()) fitting.push_back({.offloading = found});
    if (pages_ && fits_paged()) {
      if (offload_of_options() == OffloadChoice::kOn) return {.paged_budget = paged_budget()};
      fitting.push_back({.paged_budget = paged_budget()});
    }
    // Where neither is enough: as much as possible is computed again, and of what is kept then as
    // much as necessary waits on the host.
    for (const bool keeps : {true, false}) {
      if (offload_ != OffloadChoice::kAuto || (!keeps && !may_send_again)) continue;
      for (const int last_run : {1, 2}) {
        if (!fitting.empty() || last_run > layers_) continue;
        const Dropping dropping{.last_run = last_run, .keeps_aggregates = keeps};
        const Offloading found = fewest(dropping);
        if (found.any()) fitting.push_back({dropping, found});
      }
    }
    if (fitting.empty()) refuse();
    return *std::ranges::min_element(fitting, {},
                                     [&](const Savings& savings) { return extra_time(savings); });
  }

 private:
  // Off unless all ranks have a device. Collective.
  static OffloadChoice offload_of(const Trainer& trainer, Transport& transport) {
    const auto without = sum_over_ranks<std::int64_t>(
        transport, trainer.rank().backend.host_accessible() ? 1 : 0, {"ranks without a device"});
    return without > 0 ? OffloadChoice::kOff : trainer.model().offload;
  }

  // Whether values may lie in a file. Collective.
  static bool pages(const Trainer& trainer, Transport& transport) {
    const bool may = trainer.rank().backend.host_accessible() &&
                     !trainer.model().offload_folder.empty() &&
                     trainer.model().offload != OffloadChoice::kOff;
    return sum_over_ranks<std::int64_t>(transport, may ? 0 : 1, {"ranks without a file"}) == 0;
  }

  OffloadChoice offload_of_options() const { return trainer_.model().offload; }

  // In a group, those of the part, which steps on blocks read and evaluations don't.
  std::int64_t mapped() const { return std::ssize(trainer_.data().of_part().mapped_features()); }

  // This rank's bytes beside values in a file and mapped features, which leave memory with them.
  std::int64_t beside_paged() const { return others_ - mapped(); }

  // Bytes of these that the limit leaves room for.
  std::int64_t paged_budget() const {
    return std::min(limit_ - beside_paged(), trainer_.network().pageable_bytes());
  }

  // The least limit of the rank that takes most. Steps on blocks take turns with evaluations: they
  // have all values in memory, and rows of features anywhere.
  std::int64_t least_paged() const {
    const std::int64_t of_steps = on_blocks_ ? trainer_.block_value_bytes() + mapped() : 0;
    double least =
        static_cast<double>(beside_paged() + std::max(trainer_.network().least_budget(), of_steps));
    max_over_ranks(transport_, std::span(&least, 1), {"memory of values"});
    return static_cast<std::int64_t>(least);
  }
  bool fits_paged() const { return least_paged() <= limit_; }

  // The work of the system on pages in an epoch, and the part of what the disk does that computing
  // doesn't hide.
  double disk_time() {
    if (!rates_) rates_ = measure_disk(trainer_.model().offload_folder);
    const DiskTraffic traffic = trainer_.network().disk_traffic(paged_budget());
    const double seconds = static_cast<double>(traffic.written) / rates_->write +
                           static_cast<double>(traffic.read) / rates_->read;
    const std::int64_t pages =
        trainer_.network().all_value_bytes() + traffic.written + traffic.read;
    return kBytesPerPagedByte * static_cast<double>(pages) +
           std::max(0.0, kMemoryRate * seconds - plain_time_);
  }

  // The longest last stretch that fits, which computes least again; none: not even the shortest.
  Dropping longest(Dropping dropping) {
    if (!fits({dropping, {}})) {
      // Where what one layer computes takes more than what layers keep, stretches of two take less.
      dropping.last_run = 2;
      if (layers_ < 2 || !fits({dropping, {}})) return {};
    }
    int fitting = dropping.last_run;
    int too_long = layers_;
    while (fitting + 1 < too_long) {
      dropping.last_run = (fitting + too_long) / 2;
      (fits({dropping, {}}) ? fitting : too_long) = dropping.last_run;
    }
    dropping.last_run = fitting;
    return dropping;
  }

  // The fewest layers that fit, which leave copies most time; none: not even as many as hosts have
  // memory for.
  Offloading fewest(const Dropping& dropping) {
    if (offload_ == OffloadChoice::kOff) return {};
    int fitting = layers_to_offload(program_of({dropping, {}}));
    while (fitting > 0 && !fits_into_hosts({dropping, {fitting}})) --fitting;
    if (fitting == 0 || !fits({dropping, {fitting}})) return {};
    int too_few = 0;
    while (too_few + 1 < fitting) {
      const int layers = (too_few + fitting) / 2;
      (fits({dropping, {layers}}) ? fitting : too_few) = layers;
    }
    return {fitting};
  }

  bool fits(const Savings& savings) { return bytes(savings) <= limit_; }

  bool fits_into_hosts(const Savings& savings) {
    return has_pinned_memory(transport_, trainer_.network().host_bytes(program_of(savings)));
  }

  Program program_of(const Savings& savings) const {
    ModelConfig model = trainer_.model();
    model.dropping = savings.dropping;
    model.offloading = savings.offloading;
    return model_program(model, Pass::kTraining);
  }

  // The bytes of the rank that takes most.
  std::int64_t bytes(const Savings& savings) {
    const auto [place, is_new] = known_.try_emplace(
        {savings.dropping.last_run, savings.dropping.keeps_aggregates, savings.offloading.layers});
    if (!is_new) return place->second;
    const Network& network = trainer_.network();
    const std::int64_t mine =
        others_ + (on_blocks_ ? network.value_bytes() : network.value_bytes(program_of(savings)));
    place->second = std::ranges::max(values_of_ranks(transport_, mine, {"memory of values"}));
    return place->second;
  }

  // The time of a pass on this rank, in bytes that memory moves. Copies run beside computing, one
  // after another: who waits for one waits until all before it have run.
  double time_of(const Savings& savings) const {
    const RankShape& shape = trainer_.network().shape();
    const DType dtype = trainer_.model().dtype;
    const Program program = program_of(savings);
    double now = 0;
    double copied = 0;
    for (const Block& block : schedule(program).blocks) {
      for (const Call& call : block.calls) {
        const Operation& op = program.at(call.value);
        if (op.is(rules::kFinishStore) || op.is(rules::kFinishFetch)) {
          now = std::max(now, copied);
        } else if (op.is(rules::kStore) || op.is(rules::kFetch)) {
          const Value moved = op.is(rules::kStore) ? op.inputs[0] : call.value;
          copied =
              std::max(now, copied) +
              kBytesPerCopiedByte *
                  static_cast<double>(shape.rows.copied_by(op) *
                                      program.row_elements(program.at(moved)) * bytes_of(dtype));
        } else {
          const SpanWork work = work_of(program, call, shape, dtype);
          now += work.no_reuse_bytes + kBytesPerFlop * work.flops;
        }
      }
    }
    for (const Operation& op : program.operations) {
      if (!op.needs_messages()) continue;
      const std::int64_t values = shape.rows.received_for(op) * op.message_columns();
      now += kBytesPerMessageByte * static_cast<double>(values * bytes_of(dtype));
    }
    return now;
  }

  double extra_time(const Savings& savings) {
    const double mine = savings.paged_budget > 0 ? disk_time() : time_of(savings) - plain_time_;
    return sum_over_ranks(transport_, mine, {"time that saving memory costs"});
  }

  // Options that would help here, beside those that always do.
  std::vector<std::string> ways() const {
    std::vector<std::string> ways;
    if (on_blocks_) ways.emplace_back("more --blocks, ");
    if (!pages_ && offload_of_options() != OffloadChoice::kOff &&
        trainer_.rank().backend.host_accessible()) {
      ways.emplace_back("--offload-folder DIR, ");
    }
    return ways;
  }

  [[noreturn]] void refuse() {
    std::int64_t least = bytes({});
    for (const auto& [savings, bytes] : known_) least = std::min(least, bytes);
    if (pages_) least = std::min(least, least_paged());
    // So that it is enough in the next run, too: resident memory differs by some 2 MiB from one run
    // to the next (heaps of threads, pages of libraries), more where there is more of it.
    double resident = static_cast<double>(resident_);
    max_over_ranks(transport_, std::span(&resident, 1), {"resident memory"});
    constexpr std::int64_t kMiB = std::int64_t{1} << 20;
    const std::int64_t enough = least + 4 * kMiB + static_cast<std::int64_t>(resident / 32);
    const char* const saved = on_blocks_ ? "of evaluations are in a file"
                              : pages_   ? "are computed again or lie in a file"
                              : offload_ == OffloadChoice::kOff ? "are computed again"
                              : offload_ == OffloadChoice::kOn
                                  ? "are kept by the host"
                                  : "are computed again or kept by the host";
    const std::string less =
        least == bytes({}) ? "" : fmt::format(", {} where values {}", format_bytes(least), saved);
    // Rounded up to what a user would type.
    fail(ErrorKind::kMemory,
         "--memory {}: training takes {} per rank{}; --memory {}MiB or more is sure to be enough; "
         "use {}more ranks, --dtype bf16, a smaller --hidden or fewer --layers",
         trainer_.model().memory, format_bytes(bytes({})), less, (enough + kMiB - 1) / kMiB,
         fmt::join(ways(), ""));
  }

  const std::int64_t limit_;
  const Trainer& trainer_;
  Transport& transport_;
  const int layers_;
  const OffloadChoice offload_;
  const bool pages_;
  const bool on_blocks_;  // all steps; the whole graph is for evaluations
  const std::int64_t resident_;
  const std::int64_t others_;  // but values
  double plain_time_ = 0;
  std::optional<DiskRates> rates_;
  // By last stretch, whether aggregates are kept, and layers that store.
  std::map<std::tuple<int, bool, int>, std::int64_t> known_;
};

}  // namespace

Savings savings_within(std::int64_t limit, std::int64_t data, const Trainer& trainer,
                       Transport& transport) {
  return Chooser(limit, data, trainer, transport).choose();
}

}  // namespace atl
