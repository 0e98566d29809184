#include "engine/placement/memory_model.hpp"

#include <algorithm>

#include "engine/program/column_exchange.hpp"
#include "engine/program/loss.hpp"

namespace atl {

namespace {

// The room that training makes for a block, in mean ones: an eighth more than the largest of the
// first epochs takes, which is up to a tenth above the mean.
constexpr double kLargestBlock = 1.25;

// Bytes of the buffers for messages of an aggregate. exchange: see unless_exact().
std::int64_t op_buffer_bytes(const Operation& op, const RankCounts& counts, DType dtype,
                             const ExchangeOptions* exchange) {
  if (!op.needs_messages()) return 0;
  const std::int64_t sent = counts.sent_for(op).rows;
  const RankRows& rows = counts.shape.rows;
  if (exchange == nullptr) return exact_buffer_bytes(sent, op.message_columns(), dtype);
  return message_buffer_bytes(*exchange, widest_message(*exchange),
                              {.direction = op.messages.direction,
                               .sent = sent,
                               .received = rows.received_for(op),
                               .outer = rows.halo_for(op)},
                              op.message_columns(), dtype);
}

// Bytes of the buffers for a conversion between columns and rows. Between devices, at most: who
// makes a plan doesn't know how they will exchange.
std::int64_t conversion_bytes(const TrainingPrograms& programs, const Program& program,
                              const Operation& op, const RankCounts& counts,
                              const std::string& device_kind) {
  if (op.rule->reach != Reach::kGroup) return 0;
  return ColumnExchange::columns_of(program, op, programs.dtype)
      .buffer_bytes(counts.role, programs.ranks_per_part, counts.shape.rows.inner,
                    device_kind == "cuda");
}

// Null for the exact mode.
const ExchangeOptions* unless_exact(const ExchangeOptions& exchange) {
  const ExchangeMode& mode = exchange_mode(exchange.mode);
  return mode.sends_all() && !mode.takes_bits() ? nullptr : &exchange;
}

std::int64_t parameter_bytes(const TrainingPrograms& programs, const RankCounts& counts,
                             const std::string& device_kind) {
  return parameter_sizes(programs.training, device_kind == "cuda", counts.shape.rows.inner)
      .bytes(programs.dtype);
}

// Bytes of the loss of the validation nodes, which is not part of a program.
std::int64_t loss_bytes(const TrainingPrograms& programs, const RankCounts& counts) {
  const Value logits = programs.training.logits;
  return evaluation_loss_bytes(counts.shape.rows.inner, programs.training.at(logits).columns,
                               programs.dtype);
}

}  // namespace

TrainingMemory training_memory(const TrainingPrograms& programs, const RankCounts& counts,
                               const std::string& device_kind, const ExchangeOptions& exchange,
                               const RankCounts* evaluated) {
  const RankCounts& whole = evaluated != nullptr ? *evaluated : counts;
  const auto trained =
      allocate(programs.training, programs.training_schedule, counts.shape.rows).elements;
  const Layout evaluation =
      allocate(programs.evaluation, programs.evaluation_schedule, whole.shape.rows);
  // Those of a block begin behind what evaluations keep.
  const std::int64_t of_steps =
      evaluated == nullptr
          ? trained
          : evaluation.kept_elements +
                static_cast<std::int64_t>(kLargestBlock * static_cast<double>(trained));
  const std::int64_t values = std::max(of_steps, evaluation.elements);
  const ExchangeOptions* const inexact = unless_exact(exchange);
  std::int64_t messages = 0;
  for (Value v = 0; v < programs.training.size(); ++v) {
    if (is_made_again(programs.training, v)) continue;
    messages += op_buffer_bytes(programs.training.at(v), counts, programs.dtype, inexact);
  }
  for (const Operation& op : programs.evaluation.operations) {
    // Evaluation finds kept aggregates, but for those of the whole graph where blocks train.
    if (!op.constant || evaluated != nullptr)
      messages += op_buffer_bytes(op, whole, programs.dtype, nullptr);
  }
  // One conversion after another.
  std::int64_t conversion = 0;
  for (const Program* program : {&programs.training, &programs.evaluation}) {
    for (const Operation& op : program->operations) {
      conversion =
          std::max(conversion, conversion_bytes(programs, *program, op, whole, device_kind));
    }
  }
  messages += conversion;
  return {.values = values * bytes_of(programs.dtype) + loss_bytes(programs, whole),
          .parameters = parameter_bytes(programs, counts, device_kind),
          .messages = messages};
}

DataMemory data_memory(const DataCounts& counts) {
  const std::int64_t of_edge = counts.weighted ? 8 : 4;
  const std::int64_t matrices = (counts.symmetric ? 1 : 2) * (counts.covered ? 2 : 1);
  return {.features = counts.own * counts.features * bytes_of(counts.dtype),
          .graph = matrices * (8 * counts.nodes + of_edge * counts.edges)};
}

ExchangeOptions exchange_of(const EpochSetting& setting, std::span<const LayerPlan> layers) {
  return setting.exchange == nullptr ? ExchangeOptions()
                                     : planned_exchange(*setting.exchange, layers);
}

namespace {

// The features of a block and the edges of two, and the features of the whole part, which each rank
// of a group takes rows of.
double bytes_beside_blocks(const EpochSetting& setting, const RankCounts& counts,
                           const RankCounts& whole) {
  const DType dtype = setting.model.dtype;
  const DataMemory of_block = data_memory({.nodes = counts.shape.rows.of_part(),
                                           .own = counts.shape.rows.inner,
                                           .edges = counts.shape.rows.edges,
                                           .features = setting.model.features,
                                           .dtype = dtype});
  const DataMemory of_part = data_memory(
      {.own = whole.shape.rows.of_part(), .features = setting.model.features, .dtype = dtype});
  return kLargestBlock * static_cast<double>(of_block.features + 2 * of_block.graph) +
         (setting.map().ranks_per_part() > 1 ? static_cast<double>(of_part.features) : 0);
}

}  // namespace

std::vector<double> training_bytes(const EpochSetting& setting, std::span<const LayerPlan> layers) {
  const TrainingPrograms programs(planned_model(setting.model, layers));
  const ExchangeOptions exchange = exchange_of(setting, layers);
  std::vector<double> bytes;
  for (int rank = 0; rank < setting.topology.ranks(); ++rank) {
    const auto counts_of = [&](const PartitionQuality& partition) {
      return rank_counts(partition, rank, programs.covers, recomputation_of(layers).get(),
                         programs.ranks_per_part);
    };
    const RankCounts counts = counts_of(setting.partition);
    const RankCounts whole = counts_of(setting.of_graph());
    const std::string& kind = setting.topology.device(rank).kind;
    const TrainingMemory memory =
        training_memory(programs, counts, kind, exchange, setting.on_blocks() ? &whole : nullptr);
    bytes.push_back(static_cast<double>(memory.total()));
    if (setting.on_blocks()) bytes.back() += bytes_beside_blocks(setting, counts, whole);
  }
  return bytes;
}

std::vector<double> bytes_bounds(const TrainingPrograms& programs, int layer,
                                 std::span<const RankCounts> counts, const Topology& topology,
                                 const ExchangeOptions& exchange) {
  const TrainingPrograms::LayerOperations& of_layer = programs.operations_of(layer);
  const ExchangeOptions* const inexact = unless_exact(exchange);
  const auto buffers_of = [&](const RankCounts& of, const std::string& device_kind) {
    std::int64_t bytes = 0;
    const auto add = [&](const Program& program, const std::vector<Value>& values,
                         const ExchangeOptions* mode) {
      for (const Value v : values) {
        const Operation& op = program.at(v);
        bytes += op_buffer_bytes(op, of, programs.dtype, mode) +
                 conversion_bytes(programs, program, op, of, device_kind);
      }
    };
    add(programs.training, of_layer.training_buffers, inexact);
    add(programs.evaluation, of_layer.evaluation_buffers, nullptr);
    return bytes;
  };
  const auto elements_of = [&](const RankRows& held) {
    // Places start at multiples of some elements.
    constexpr std::int64_t kGap = 64;
    std::int64_t sum = 0;
    for (std::size_t kind = 0; kind < of_layer.elements.size(); ++kind) {
      const auto& [per_row, operations] = of_layer.elements[kind];
      if (operations == 0) continue;
      const auto rows_of = static_cast<RowsOf>(kind);
      const bool of_nodes = rows_of == RowsOf::kNodes || rows_of == RowsOf::kPart;
      const std::int64_t others =
          of_nodes ? std::max(held.forward_halo, held.backward_halo) + held.computed
                   : held.returned;
      sum += kGap * operations + (held.own(rows_of) + others) * per_row;
    }
    return sum;
  };
  std::vector<double> bytes;
  bytes.reserve(counts.size());
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const std::string& kind = topology.devices[r].kind;
    bytes.push_back(static_cast<double>(
        elements_of(counts[r].shape.rows) * bytes_of(programs.dtype) + buffers_of(counts[r], kind) +
        (layer < 0 ? parameter_bytes(programs, counts[r], kind) + loss_bytes(programs, counts[r])
                   : 0)));
  }
  return bytes;
}

double missing_bytes(const Topology& topology, std::span<const double> bytes) {
  double missing = 0;
  for (std::size_t r = 0; r < bytes.size(); ++r) {
    missing += std::max(0.0, bytes[r] - topology.devices[r].memory_bytes);
  }
  return missing;
}

double shard_bytes(const EpochSetting& setting, const RankCounts& counts) {
  // Trained ones are among the parameters.
  const std::int64_t features = setting.model.trains_nodes() ? 0 : setting.model.features;
  return static_cast<double>(data_memory({.nodes = counts.shape.rows.of_part(),
                                          .own = counts.shape.rows.inner,
                                          .edges = counts.shape.rows.edges,
                                          .features = features,
                                          .covered = counts.covered})
                                 .total());
}

}  // namespace atl
