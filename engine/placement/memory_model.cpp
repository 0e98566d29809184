#include "engine/placement/memory_model.hpp"

#include <algorithm>

#include "engine/program/loss.hpp"

namespace atl {

namespace {

// Elements of the buffer that exact messages of an aggregate are packed into.
std::int64_t buffer_elements(const Operation& op, const RowCounts& rows) {
  if (!op.needs_messages()) return 0;
  const std::int64_t sent = op.returns_rows()                               ? rows.held.forward_halo
                            : op.messages.direction == Direction::kBackward ? rows.sent_backward
                            : op.decided.fetches_rest                       ? rows.sent_rest
                                                                            : rows.sent_forward;
  return sent * padded_columns(op.message_columns());
}

std::int64_t parameter_bytes(const TrainingPrograms& programs, const RowCounts& rows,
                             const std::string& device_kind) {
  return parameter_sizes(programs.training, device_kind == "cuda", rows.held.inner)
      .bytes(programs.dtype);
}

// Bytes of the loss of the validation nodes, which is not part of a program.
std::int64_t loss_bytes(const TrainingPrograms& programs, const RowCounts& rows) {
  const Value logits = programs.training.logits;
  return evaluation_loss_bytes(rows.held.inner, programs.training.at(logits).columns,
                               programs.dtype);
}

}  // namespace

RowCounts row_counts(const PartitionQuality& partition, int rank,
                     const Recomputation* recomputation) {
  const auto ranks = partition.parts.size();
  const auto r = static_cast<std::size_t>(rank);
  RowCounts counts;
  counts.held.inner = partition.parts[r].nodes;
  const bool recomputes = recomputation != nullptr && recomputation->any();
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<int>(peer);
    const std::int64_t received = partition.forward_rows[r * ranks + peer];
    const std::int64_t sent = partition.forward_rows[peer * ranks + r];
    if (recomputes && recomputation->computes(rank, p)) counts.held.computed += received;
    if (!recomputes || !recomputation->computes(p, rank)) counts.sent_rest += sent;
    counts.held.forward_halo += received;
    counts.held.backward_halo += partition.backward_rows[r * ranks + peer];
    counts.sent_forward += sent;
    counts.sent_backward += partition.backward_rows[peer * ranks + r];
  }
  counts.held.returned = counts.sent_forward;
  counts.held.edges = partition.parts[r].edges;
  return counts;
}

TrainingMemory training_memory(const TrainingPrograms& programs, const RowCounts& rows,
                               const std::string& device_kind) {
  const std::int64_t values =
      std::max(allocate(programs.training, programs.training_schedule, rows.held).elements,
               allocate(programs.evaluation, programs.evaluation_schedule, rows.held).elements);
  std::int64_t messages = 0;
  for (Value v = 0; v < programs.training.size(); ++v) {
    if (is_made_again(programs.training, v)) continue;
    messages += buffer_elements(programs.training.at(v), rows);
  }
  for (const Operation& op : programs.evaluation.operations) {
    // Evaluation finds kept aggregates.
    if (!op.constant) messages += buffer_elements(op, rows);
  }
  return {.values = values * bytes_of(programs.dtype) + loss_bytes(programs, rows),
          .parameters = parameter_bytes(programs, rows, device_kind),
          .messages = messages * bytes_of(programs.dtype)};
}

DataMemory data_memory(const DataCounts& counts) {
  const std::int64_t of_edge = counts.weighted ? 8 : 4;
  const std::int64_t directions = counts.symmetric ? 1 : 2;
  return {.features = counts.nodes * counts.features * bytes_of(counts.dtype),
          .graph = directions * (8 * counts.nodes + of_edge * counts.edges)};
}

double training_bytes(const TrainingPrograms& programs, const RowCounts& rows,
                      const Device& device) {
  return static_cast<double>(training_memory(programs, rows, device.kind).total());
}

std::vector<double> bytes_bounds(const TrainingPrograms& programs, int layer,
                                 std::span<const RowCounts> rows, const Topology& topology) {
  std::vector<std::int64_t> elements(rows.size(), 0);
  for (const Program* program : {&programs.training, &programs.evaluation}) {
    for (Value v = 0; v < program->size(); ++v) {
      const Scope& scope = program->scope_of(v);
      if ((scope.kind == Scope::Kind::kLayer ? scope.layer : -1) != layer) continue;
      const Operation& op = program->at(v);
      const bool of_nodes = op.rows_of() == RowsOf::kNodes;
      const std::int64_t per_row =
          program == &programs.training && op.has_rows() ? program->row_elements(op) : 0;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const RankRows& held = rows[r].held;
        const std::int64_t most_rows =
            of_nodes ? held.inner + std::max(held.forward_halo, held.backward_halo) + held.computed
                     : held.own(op.rows_of()) + held.returned;
        // Places start at multiples of some elements.
        constexpr std::int64_t kGap = 64;
        elements[r] += buffer_elements(op, rows[r]) + kGap + most_rows * per_row;
      }
    }
  }
  std::vector<double> bytes;
  bytes.reserve(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    bytes.push_back(static_cast<double>(
        elements[r] * bytes_of(programs.dtype) +
        (layer < 0 ? parameter_bytes(programs, rows[r], topology.devices[r].kind) +
                         loss_bytes(programs, rows[r])
                   : 0)));
  }
  return bytes;
}

double training_bytes(const EpochSetting& setting, std::span<const LayerPlan> layers, int rank) {
  return training_bytes(TrainingPrograms(planned_model(setting.model, layers)),
                        row_counts(setting.partition, rank, recomputation_of(layers).get()),
                        setting.topology.devices[static_cast<std::size_t>(rank)]);
}

double shard_bytes(const EpochSetting& setting, int rank) {
  const PartQuality& part = setting.partition.parts[static_cast<std::size_t>(rank)];
  // Trained ones are among the parameters.
  const std::int64_t features = setting.model.trains_nodes() ? 0 : setting.model.features;
  return static_cast<double>(
      data_memory({.nodes = part.nodes, .edges = part.edges, .features = features}).total());
}

}  // namespace atl
