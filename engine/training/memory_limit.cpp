#include "engine/training/memory_limit.hpp"

#include <algorithm>
#include <map>

#include "base/memory.hpp"
#include "engine/comm/max_over_ranks.hpp"
#include "engine/program/work.hpp"

namespace atl {

namespace {

// What a byte that travels takes of the time in which memory moves one, about, and a byte that
// memory moves of that of an operation: only the better of two ways hangs on it.
constexpr double kBytesPerMessageByte = 20;
constexpr double kBytesPerFlop = 0.1;

// What the process holds already: libraries and, on a host, what has been read of the data; by all
// ranks, since they may be in one process.
std::int64_t resident_here(const Trainer& trainer, Transport& transport) {
  transport.barrier({"resident memory"});
  return trainer.rank().backend.host_accessible() ? resident_bytes() : 0;
}

class Chooser {
 public:
  Chooser(std::int64_t limit, const Trainer& trainer, Transport& transport)
      : limit_(limit),
        trainer_(trainer),
        transport_(transport),
        layers_(layer_count(trainer.model())),
        resident_(resident_here(trainer, transport)),
        others_(trainer.bytes_needed() + trainer.data().bytes() + resident_ -
                trainer.network().value_bytes()) {
    ModelConfig model = trainer.model();
    plain_work_ = work_of_training(model_program(model, Pass::kTraining));
  }

  Dropping choose() {
    if (fits({})) return {};
    std::vector<Dropping> fitting;
    const bool may_send_again = transport_.size() == 1 || trainer_.sends_exactly();
    for (const bool keeps : {true, false}) {
      if (!keeps && !may_send_again) continue;
      if (const Dropping found = longest({.last_run = 1, .keeps_aggregates = keeps}); found.any()) {
        fitting.push_back(found);
      }
    }
    if (fitting.empty()) refuse();
    return *std::ranges::min_element(
        fitting, {}, [&](const Dropping& dropping) { return extra_work(dropping); });
  }

 private:
  // The longest last run that fits, which computes least again; none: not even the shortest.
  Dropping longest(Dropping dropping) {
    if (!fits(dropping)) {
      // Where what one layer computes takes more than what layers keep, runs of two take less.
      dropping.last_run = 2;
      if (layers_ < 2 || !fits(dropping)) return {};
    }
    int fitting = dropping.last_run;
    int too_long = layers_;
    while (fitting + 1 < too_long) {
      dropping.last_run = (fitting + too_long) / 2;
      (fits(dropping) ? fitting : too_long) = dropping.last_run;
    }
    dropping.last_run = fitting;
    return dropping;
  }

  bool fits(const Dropping& dropping) { return bytes(dropping) <= limit_; }

  Program program_of(const Dropping& dropping) const {
    ModelConfig model = trainer_.model();
    model.dropping = dropping;
    return model_program(model, Pass::kTraining);
  }

  // Of the rank that takes most.
  std::int64_t bytes(const Dropping& dropping) {
    const auto [place, is_new] = known_.try_emplace({dropping.last_run, dropping.keeps_aggregates});
    if (!is_new) return place->second;
    std::vector<std::int64_t> all(static_cast<std::size_t>(transport_.size()), 0);
    all[static_cast<std::size_t>(transport_.rank())] =
        others_ + trainer_.network().value_bytes(program_of(dropping));
    transport_.all_reduce(std::span(all), {"memory of values"});
    return place->second = *std::ranges::max_element(all);
  }

  double work_of_training(const Program& program) const {
    const LocalGraphView& graph = trainer_.data().graph();
    const auto edges_in = [&](std::int64_t begin, std::int64_t end) {
      const auto row_ptr = graph.forward.csr.row_ptr;
      return row_ptr[static_cast<std::size_t>(end)] - row_ptr[static_cast<std::size_t>(begin)];
    };
    const RankShape shape{.rows = trainer_.network().rank_rows(),
                          .marginal = graph.marginal(),
                          .marginal_edges = edges_in(graph.central, graph.inner()),
                          .weighted = !graph.forward.csr.values.empty()};
    double bytes = 0;
    for (const SpanWork& work :
         work_of_operations(program, schedule(program), shape, trainer_.model().dtype)) {
      bytes += work.no_reuse_bytes + kBytesPerFlop * work.flops;
    }
    for (const Operation& op : program.operations) {
      if (!op.needs_messages()) continue;
      const std::int64_t values = shape.rows.received_for(op) * op.message_columns();
      bytes +=
          kBytesPerMessageByte * static_cast<double>(values * bytes_of(trainer_.model().dtype));
    }
    return bytes;
  }

  double extra_work(const Dropping& dropping) const {
    double work = work_of_training(program_of(dropping)) - plain_work_;
    transport_.all_reduce(std::span(&work, 1), {"work that dropping costs"});
    return work;
  }

  [[noreturn]] void refuse() {
    std::int64_t least = bytes({});
    for (const auto& [dropping, bytes] : known_) least = std::min(least, bytes);
    // So that it is enough in the next run, too: resident memory differs by some 2 MiB from one run
    // to the next (heaps of threads, pages of libraries), more where there is more of it.
    double resident = static_cast<double>(resident_);
    max_over_ranks(transport_, std::span(&resident, 1), {"resident memory"});
    constexpr std::int64_t kMiB = std::int64_t{1} << 20;
    least += 4 * kMiB + static_cast<std::int64_t>(resident / 32);
    // Rounded up to what a user would type.
    fail(ErrorKind::kMemory,
         "--memory: training takes {} per rank, {} where values are computed again as far as that "
         "helps; allowed is --memory {}MiB or more; use more ranks, --dtype bf16, a smaller "
         "--hidden or fewer --layers",
         format_bytes(bytes({})), format_bytes(least), (least + kMiB - 1) / kMiB);
  }

  const std::int64_t limit_;
  const Trainer& trainer_;
  Transport& transport_;
  const int layers_;
  const std::int64_t resident_;
  const std::int64_t others_;  // but values
  double plain_work_ = 0;
  std::map<std::pair<int, bool>, std::int64_t> known_;
};

}  // namespace

Dropping dropping_within(std::int64_t limit, const Trainer& trainer, Transport& transport) {
  return Chooser(limit, trainer, transport).choose();
}

}  // namespace atl
