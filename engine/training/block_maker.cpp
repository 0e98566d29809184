#include "engine/training/block_maker.hpp"

#include <system_error>
#include <utility>

#include "base/parallel.hpp"

namespace atl {

BlockMaker::BlockMaker(const LocalGraphView& part, int blocks, Dealing dealing,
                       std::span<const double> weights, int threads_beside)
    : blocks_(blocks),
      dealing_(std::move(dealing)),
      weights_(weights),
      threads_beside_(threads_beside),
      work_{.blocks = PartBlocks(part), .epoch = 0, .counts = {}, .made = {}, .number = -1} {}

void BlockMaker::finish() {
  if (making_.valid()) making_.get();
}

const BlockCounts& BlockMaker::counts(int epoch) {
  finish();
  if (work_.epoch != epoch) deal(epoch);
  return work_.counts;
}

const PartBlock& BlockMaker::take(int epoch, int block) {
  finish();
  if (work_.epoch != epoch || work_.number != block) make(epoch, block);
  work_.number = -1;
  std::swap(work_.made, ready_);
  return ready_;
}

void BlockMaker::begin(int epoch, int block) {
  finish();
  const auto on_own_thread = [=, this] {
    const ParallelThreads threads(threads_beside_);
    make(epoch, block);
  };
  try {
    making_ = std::async(std::launch::async, on_own_thread);
  } catch (const std::system_error&) {
    // The system refuses a thread: take() makes the block.
  }
}

void BlockMaker::deal(int epoch) {
  work_.number = -1;
  work_.epoch = 0;
  work_.blocks.deal(blocks_, dealing_(epoch));
  work_.counts.nodes.assign(static_cast<std::size_t>(blocks_), 0);
  work_.counts.weight.assign(static_cast<std::size_t>(blocks_), 0);
  for (int block = 0; block < blocks_; ++block) {
    const std::span<const std::int32_t> rows = work_.blocks.rows(block);
    work_.counts.nodes[block] = static_cast<double>(rows.size());
    for (const std::int32_t row : rows) work_.counts.weight[block] += weights_[row];
  }
  work_.epoch = epoch;
}

void BlockMaker::make(int epoch, int block) {
  if (work_.epoch != epoch) deal(epoch);
  work_.number = -1;
  work_.blocks.extract(block, work_.made);
  work_.number = block;
}

}  // namespace atl
