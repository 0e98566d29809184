// Makes the blocks that are trained on: each on a thread of its own while the one before is trained
// on, and with the last one of an epoch the dealing of the next epoch.
#pragma once

#include <functional>
#include <future>
#include <span>
#include <vector>

#include "partition/part_blocks.hpp"

namespace atl {

// A part's share of each block of an epoch.
struct BlockCounts {
  std::vector<double> nodes;   // by block
  std::vector<double> weight;  // in the loss of training, the same
};

// Who may touch what: `work_` is the thread's from begin() until finish() has waited for it, and
// else the caller's. `ready_` is never the thread's, so who trains on a block may read it until the
// next one is taken. Both read the part, the weights and what the dealing is made from; nobody
// writes these. The thread uses no transport, backend, queue or trace.
class BlockMaker {
 public:
  // The block of each node that the part knows, in an epoch.
  using Dealing = std::function<NodeNumbers(int epoch)>;

  // The part and the weights, of inner nodes in the loss of training, must outlive it. `dealing` is
  // called on either thread. threads_beside: those that make a block while the caller goes on, as
  // many as it leaves idle.
  BlockMaker(const LocalGraphView& part, int blocks, Dealing dealing,
             std::span<const double> weights, int threads_beside = 1);

  BlockMaker(const BlockMaker&) = delete;
  BlockMaker& operator=(const BlockMaker&) = delete;

  // As the nodes are dealt in an epoch.
  const BlockCounts& counts(int epoch);
  // A block of an epoch, until the next one is taken: made now unless it was begun.
  const PartBlock& take(int epoch, int block);
  // Makes a block while the caller goes on. Errors are thrown again by the function that waits for
  // it.
  void begin(int epoch, int block);

 private:
  struct Work {
    PartBlocks blocks;
    int epoch = 0;  // that its nodes are dealt for; 0: none
    BlockCounts counts;
    PartBlock made;
    int number = -1;  // of that block; -1: none
  };

  void finish();
  void deal(int epoch);
  void make(int epoch, int block);

  int blocks_;
  Dealing dealing_;
  std::span<const double> weights_;
  int threads_beside_;
  Work work_;
  PartBlock ready_;
  std::future<void> making_;  // the last member: waited for before the others are gone
};

}  // namespace atl
