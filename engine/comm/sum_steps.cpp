#include "engine/comm/sum_steps.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace atl {

// Memory that transfers read and write: not the caller's, because an abandoned transfer outlives
// that.
template <typename T>
struct SumMemory {
  std::vector<T> values;
  std::vector<T> parts;  // own block of each member
};

namespace {

template <typename T>
std::span<T> own_part(const SumStep& step, SumMemory<T>& memory, std::size_t member) {
  const std::size_t count = step.own_block().count;
  return std::span(memory.parts).subspan(count * member, count);
}

template <typename T>
std::span<T> block_of(const SumStep& step, SumMemory<T>& memory, std::size_t member) {
  return std::span(memory.values).subspan(step.blocks[member].begin, step.blocks[member].count);
}

template <typename T>
std::unique_ptr<PendingTransfer> begin_step(Transport& transport, const SumStep& step,
                                            const std::shared_ptr<SumMemory<T>>& memory,
                                            const OperationLabel& label) {
  const std::span<T> own = block_of(step, *memory, step.own);
  const bool adds = step.kind == SumStep::Kind::kAdd;
  if (adds) memory->parts.resize(own.size() * step.members.size());
  std::vector<std::span<const std::byte>> sends(static_cast<std::size_t>(transport.size()));
  std::vector<std::span<std::byte>> receives(sends.size());
  for (std::size_t m = 0; m < step.members.size(); ++m) {
    if (m == step.own) continue;
    const auto rank = static_cast<std::size_t>(step.members[m]);
    sends[rank] = std::as_bytes(adds ? block_of(step, *memory, m) : own);
    receives[rank] =
        std::as_writable_bytes(adds ? own_part(step, *memory, m) : block_of(step, *memory, m));
  }
  return transport.all_to_all_v(std::move(sends), std::move(receives), label, memory);
}

// When its transfer is complete.
template <typename Sum, typename T>
void end_step(const SumStep& step, SumMemory<T>& memory) {
  if (step.kind != SumStep::Kind::kAdd) return;
  const std::span<T> own = block_of(step, memory, step.own);
  std::ranges::copy(own, own_part(step, memory, step.own).begin());
  for (std::size_t i = 0; i < own.size(); ++i) {
    Sum sum = own_part(step, memory, 0)[i];
    for (std::size_t m = 1; m < step.members.size(); ++m) sum += own_part(step, memory, m)[i];
    own[i] = static_cast<T>(sum);
  }
}

template <typename Sum, typename T>
void sum_values(Transport& transport, std::span<const SumStep> steps, std::span<T> values,
                const OperationLabel& label) {
  auto memory = std::make_shared<SumMemory<T>>();
  memory->values.assign(values.begin(), values.end());
  for (const SumStep& step : steps) {
    begin_step(transport, step, memory, label)->wait_all();
    end_step<Sum>(step, *memory);
  }
  std::ranges::copy(memory->values, values.begin());
}

}  // namespace

std::size_t SumStep::sent_values() const {
  if (kind == Kind::kShare) return own_block().count * (members.size() - 1);
  std::size_t sum = 0;
  for (std::size_t m = 0; m < members.size(); ++m) sum += m == own ? 0 : blocks[m].count;
  return sum;
}

SumStep even_step(SumStep::Kind kind, std::vector<int> members, int rank, ReduceBlock whole) {
  SumStep step{kind, std::move(members), {}, 0};
  const auto size = static_cast<int>(step.members.size());
  for (int m = 0; m < size; ++m) {
    const ReduceBlock block = reduce_block(whole.count, m, size);
    step.blocks.push_back({whole.begin + block.begin, block.count});
  }
  const auto place = std::ranges::find(step.members, rank);
  ATOLL_ASSERT(place != step.members.end());
  step.own = static_cast<std::size_t>(place - step.members.begin());
  return step;
}

std::vector<SumStep> all_reduce_steps(int rank, int ranks, std::size_t count) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {even_step(SumStep::Kind::kAdd, all, rank, {0, count}),
          even_step(SumStep::Kind::kShare, all, rank, {0, count})};
}

void sum_by_steps(Transport& transport, std::span<const SumStep> steps, std::span<float> values,
                  const OperationLabel& label) {
  sum_values<double>(transport, steps, values, label);
}

void sum_by_steps(Transport& transport, std::span<const SumStep> steps, std::span<double> values,
                  const OperationLabel& label) {
  sum_values<double>(transport, steps, values, label);
}

void sum_by_steps(Transport& transport, std::span<const SumStep> steps,
                  std::span<std::int64_t> values, const OperationLabel& label) {
  sum_values<std::int64_t>(transport, steps, values, label);
}

struct PendingSum::Memory : SumMemory<float> {};

PendingSum::PendingSum(Transport& transport, std::vector<SumStep> steps, std::span<float> values,
                       const OperationLabel& label)
    : transport_(transport),
      steps_(std::move(steps)),
      values_(values),
      label_(label),
      memory_(std::make_shared<Memory>()) {
  memory_->values.assign(values.begin(), values.end());
  begin_next();
}

PendingSum::~PendingSum() = default;

std::size_t PendingSum::sent_values() const {
  std::size_t values = 0;
  for (const SumStep& step : steps_) values += step.sent_values();
  return values;
}

void PendingSum::begin_next() {
  transfer_ = step_ < steps_.size() ? begin_step<float>(transport_, steps_[step_], memory_, label_)
                                    : nullptr;
}

void PendingSum::advance() {
  while (transfer_ != nullptr && transfer_->is_complete()) end_step();
}

void PendingSum::finish() {
  while (transfer_ != nullptr) end_step();
  std::ranges::copy(memory_->values, values_.begin());
}

void PendingSum::end_step() {
  transfer_->wait_all();
  atl::end_step<double>(steps_[step_], static_cast<SumMemory<float>&>(*memory_));
  ++step_;
  begin_next();
}

}  // namespace atl
