#include "launch/program_listing.hpp"

#include <fmt/format.h>

#include <sstream>

#include "engine/program/loss.hpp"
#include "engine/program/operations/rules.hpp"
#include "kernels/wire.hpp"

namespace atl {

namespace {

// 1e6 of something; nothing where there is nothing.
std::string millions(double value) { return value == 0 ? "" : fmt::format("{:.2f}", value / 1e6); }

std::string once_suffix(const Operation& op) { return op.constant ? " once" : ""; }

}  // namespace

ProgramListing::ProgramListing(const ModelConfig& model, Pass pass, const RankShape& shape,
                               std::vector<int> bits)
    : dtype_(model.dtype),
      shape_(shape),
      bits_(std::move(bits)),
      program_(model_program(model, pass)),
      schedule_(schedule(program_)),
      layout_(allocate(program_, schedule_, shape.rows)),
      apart_elements_(allocate(program_, schedule_, shape.rows, Sharing::kNone).elements),
      work_(work_of_operations(program_, schedule_, shape, model.dtype)),
      parameters_(parameter_sizes(program_, /*pads_operands=*/false, shape.rows.inner)) {}

ProgramListing::Messages ProgramListing::messages_of(Value value) const {
  const Operation& op = program_.at(value);
  const RankRows& rows = shape_.rows;
  Messages messages{.columns = op.columns};
  if (op.is(rules::kFetchComputed)) {
    messages.rows = rows.computed;
  } else if (op.needs_messages()) {
    messages.rows = rows.received_for(op);
    messages.direction = op.messages.direction;
  } else {
    return {};
  }
  messages.row_bytes = bytes(padded_columns(op.columns));
  // Rows fetched once travel exactly in every mode.
  if (!bits_.empty() && !op.constant) {
    messages.bits = bits_.at(static_cast<std::size_t>(program_.scope_of(value).layer));
    messages.row_bytes = wire_row_bytes(messages.bits, op.columns, dtype_);
  }
  return messages;
}

std::int64_t ProgramListing::rows_of(const Operation& op) const {
  if (op.is(rules::kParameter)) {
    return program_.parameters[static_cast<std::size_t>(op.parameter)].rows;
  }
  const bool computed_alone =
      op.is(rules::kTakeComputed) || op.is(rules::kPlaceComputed) || op.is(rules::kFetchComputed);
  if (computed_alone) return shape_.rows.computed;
  const Reach reach = op.rule->reach;
  if (reach == Reach::kSmall || reach == Reach::kRanks) return 0;
  // Results of a kept aggregate are computed for halo rows, too; that itself is fetched.
  const bool more = op.decided.for_placed || (op.decided.for_computed && !op.constant);
  return shape_.rows.own(op.rows_of()) + (more ? shape_.rows.computed : 0);
}

std::int64_t ProgramListing::place_bytes(Value value) const {
  const Place& place = layout_.places[static_cast<std::size_t>(value)];
  return bytes(place.elements(program_, value));
}

std::int64_t ProgramListing::columns_per_halo_row() const {
  std::int64_t sum = 0;
  for (const Operation& op : program_.operations) {
    if (op.needs_messages() && !op.constant) sum += op.columns;
  }
  return sum;
}

std::int64_t ProgramListing::validation_loss_bytes() const {
  return evaluation_loss_bytes(shape_.rows.inner, program_.at(program_.logits).columns, dtype_);
}

std::int64_t ProgramListing::bytes_per_halo_row() const {
  std::int64_t sum = 0;
  for (Value value = 0; value < program_.size(); ++value) {
    const Operation& op = program_.at(value);
    if (op.needs_messages() && !op.constant) sum += messages_of(value).row_bytes;
  }
  return sum;
}

std::string ProgramListing::figures(Value value) const {
  const Operation& op = program_.at(value);
  const SpanWork& work = work_[static_cast<std::size_t>(value)];
  const Place& place = layout_.places[static_cast<std::size_t>(value)];
  const Messages messages = messages_of(value);
  const auto count = [](std::int64_t n) { return n == 0 ? "" : fmt::format("{}", n); };
  return fmt::format(
      "{:>10} {:>7} {:>10} {:>9} {:>15} {:>9} {:>9}", count(rows_of(op)), count(op.columns),
      millions(work.flops), millions(work.bytes),
      messages.columns == 0
          ? ""
          : fmt::format("{}{}{}", to_string(messages.direction), once_suffix(op),
                        messages.bits == 0 ? "" : fmt::format(" {} bit", messages.bits)),
      place.is_nowhere() ? ""
                         : fmt::format("{:.2f}", static_cast<double>(bytes(place.offset)) / 1e6),
      millions(static_cast<double>(place_bytes(value))));
}

std::string ProgramListing::to_text() const {
  std::string text =
      fmt::format("{:>10} {:>7} {:>10} {:>9} {:>15} {:>9} {:>9}  {}\n", "rows", "columns", "Mflop",
                  "MB", "messages", "at MB", "takes MB", "operation");
  // One line per operation, behind a line per scope.
  std::istringstream lines(to_string(program_));
  Value value = 0;
  for (std::string line; std::getline(lines, line);) {
    text += line.starts_with(" ") ? figures(value++) + line + "\n" : line + "\n";
  }
  const auto mb = [&](std::int64_t elements) { return static_cast<double>(bytes(elements)) / 1e6; };
  text += fmt::format(
      "\nvalues: {:.2f} MB in one block, {:.2f} MB of it kept for all epochs; {:.2f} MB if no two "
      "shared a place\n",
      mb(layout_.elements), mb(layout_.kept_elements), mb(apart_elements_));
  if (layout_.host_elements > 0) {
    text += fmt::format("host memory: {:.2f} MB, where stored values wait for backward\n",
                        mb(layout_.host_elements));
  }
  text += fmt::format("parameters: {}, {:.2f} MB with gradients and the optimizer's moments\n",
                      parameters_.values(), static_cast<double>(parameters_.bytes(dtype_)) / 1e6);
  text += fmt::format("validation loss: {:.2f} MB beside them\n",
                      static_cast<double>(validation_loss_bytes()) / 1e6);
  text += fmt::format("messages: {} columns per halo row in every pass, {} bytes\n",
                      columns_per_halo_row(), bytes_per_halo_row());
  return text;
}

Json ProgramListing::operation_json(Value value, const std::string& scope) const {
  const Operation& op = program_.at(value);
  const SpanWork& work = work_[static_cast<std::size_t>(value)];
  const Place& place = layout_.places[static_cast<std::size_t>(value)];
  const Messages messages = messages_of(value);
  Json entry = {{"value", value},
                {"operation", op.rule->name},
                {"text", to_string(program_, value)},
                {"scope", scope},
                {"layer", program_.scope_of(value).layer},
                {"inputs", op.inputs},
                {"rows", rows_of(op)},
                {"columns", op.columns},
                {"once", op.constant},
                {"flops", work.flops},
                {"bytes", work.bytes},
                {"messages", nullptr},
                {"place", nullptr}};
  if (messages.columns > 0) {
    entry["messages"] = {{"direction", to_string(messages.direction)},
                         {"columns", messages.columns},
                         {"rows_received", messages.rows},
                         {"bits", messages.bits == 0 ? 32 : messages.bits},
                         {"row_bytes", messages.row_bytes}};
  }
  if (!place.is_nowhere()) {
    entry["place"] = {{"offset", bytes(place.offset)}, {"bytes", place_bytes(value)}};
  }
  return entry;
}

Json ProgramListing::to_json() const {
  Json operations = Json::array();
  std::istringstream lines(to_string(program_));
  std::string scope;
  Value value = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(" ")) {
      operations.push_back(operation_json(value++, scope));
    } else {
      scope = line;
    }
  }
  const RankRows& rows = shape_.rows;
  return {{"rows",
           {{"inner", rows.inner},
            {"halo_forward", rows.arriving(Direction::kForward)},
            {"halo_backward", rows.arriving(Direction::kBackward)},
            {"sums_forward", rows.forward_sums},
            {"sums_backward", rows.backward_sums},
            {"computed", rows.computed}}},
          {"edges", rows.edges},
          {"operations", std::move(operations)},
          {"block_bytes", bytes(layout_.elements)},
          {"kept_bytes", bytes(layout_.kept_elements)},
          {"unshared_bytes", bytes(apart_elements_)},
          {"host_bytes", bytes(layout_.host_elements)},
          {"parameters", parameters_.values()},
          {"parameter_bytes", parameters_.bytes(dtype_)},
          {"validation_loss_bytes", validation_loss_bytes()},
          {"floats_per_halo_row", columns_per_halo_row()},
          {"bytes_per_halo_row", bytes_per_halo_row()}};
}

}  // namespace atl
