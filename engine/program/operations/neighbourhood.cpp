#include "engine/program/operations/neighbourhood.hpp"

#include <fmt/format.h>

#include "engine/program/operations/rules.hpp"

namespace atl {

Operation part_of(const Operation& forward, const Rule& rule) {
  Operation part{.rule = &rule,
                 .columns = forward.columns,
                 .parameter = forward.parameter,
                 .second_parameter = forward.second_parameter,
                 .messages = forward.messages,
                 .attributes = forward.attributes};
  part.messages.direction = Direction::kBackward;
  return part;
}

std::vector<Value> with_inputs_of(const Operation& forward, std::vector<Value> gradients) {
  gradients.insert(gradients.end(), forward.inputs.begin(), forward.inputs.end());
  return gradients;
}

Value append_sources(Gradients& gradients, const Operation& forward, const Rule& halo,
                     const Rule& sources, std::vector<Value> reads) {
  Operation part = part_of(forward, halo);
  part.columns = forward.message_columns();
  part.inputs = reads;
  reads.insert(reads.begin(), gradients.append(part));
  part.rule = &sources;
  part.inputs = std::move(reads);
  return gradients.append(part);
}

void add_returned_rows(const Views& views, Requests& requests) {
  if (views.call_rows() == Rows::kCentral || views.rows().returned == 0) return;
  requests.take(kernels::Spmm{views.returned_sums(), views.range(), views.whole(views.input(0)), 1,
                              views.inner(views.value())});
}

void print_channel(const Operation& op, std::string& text) {
  text += fmt::format(" channel {}", op.messages.channel);
}

namespace {

void lower_aggregate(const Views& views, Requests& requests) {
  requests.take(kernels::Spmm{views.matrix(), views.range(), views.whole(views.input(0)),
                              views.op().decided.added_to == kNoValue ? 0.0 : 1.0,
                              views.inner(views.value()), views.epilogue()});
}

Value through_aggregate(Gradients& gradients, Value reader, std::size_t /*i*/) {
  Operation op = part_of(gradients.at(reader), rules::kAggregate);
  op.inputs = {gradients.of(reader)};
  return gradients.append(op);
}

void print_aggregate(const Operation& op, std::string& text) {
  text +=
      fmt::format(" {} {}", to_string(op.messages.normalisation), to_string(op.messages.direction));
  print_channel(op, text);
}

}  // namespace

constinit const Rule rules::kAggregate{.name = "aggregate",
                                       .reach = Reach::kHalo,
                                       .adds_neighbours = true,
                                       .adds = true,
                                       .takes_tail = true,
                                       .lower = lower_aggregate,
                                       .through = through_aggregate,
                                       .print = print_aggregate};

}  // namespace atl
