// Which parts of a memory are there when, where less than all of it may be at a time: as the calls
// of a pass need them. Everything is known before the pass begins, so what leaves is always what is
// needed again last (Belady 1966, "A study of replacement algorithms"), its way out begins when it
// was needed last, and what is needed next comes while a call runs. Behind the values lie features
// in a mapped file, which come and leave as values do, and are never written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/allocate.hpp"

namespace atl {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// One call.
struct PagingStep {
  struct Touched {
    ByteRange bytes;
    bool written = false;
    // Row by row, in order; not rows of neighbours anywhere.
    bool in_order = false;
  };
  std::vector<Touched> touched;
};

// Bytes whose content counts behind step `first` (-1: before the pass begins) and until step `last`
// has run (the number of steps: when the pass has ended).
struct LiveBytes {
  ByteRange bytes;
  int first = 0;
  int last = 0;
};

struct PagingProblem {
  std::vector<PagingStep> steps;
  std::vector<LiveBytes> live;
  std::int64_t bytes = 0;  // of all memory
  std::int64_t unit = 0;   // parts are multiples of it, but for the end
};

// The calls of these blocks as steps, in order. unit: see PagingProblem. features: their place
// behind all values, from a multiple of `unit` on; empty: they are no part of the memory.
PagingProblem paging_problem(const Program& program, std::span<const Block> blocks,
                             const Schedule& schedule, const Layout& layout,
                             std::int64_t element_bytes, std::int64_t unit, ByteRange features);

// The least memory in which the calls can run: that of the one which needs most. What is touched in
// order may pass through, with a window of it in memory.
std::int64_t least_paged_bytes(const PagingProblem& problem);

struct PagingPlan {
  struct Leaving {
    ByteRange bytes;
    bool kept = false;  // its content is needed again: it is written
    int by = 0;         // the first step that needs the room
  };
  // By step: what leaves when it has run, by what needs the room first.
  std::vector<std::vector<Leaving>> leaving;
  // By step: what was given back, and is read from its begin on for the next step. It has room when
  // all has left that is to by that next step.
  std::vector<std::vector<ByteRange>> coming;
  struct Part {
    ByteRange bytes;
    bool kept = false;  // its content is needed again
  };
  // By step: what it touches in order, with no room for all of it. It is in the file when the step
  // begins, and when it ends.
  std::vector<std::vector<Part>> passing;
  std::vector<Part> left;  // what is there at the end
  std::int64_t written_bytes = 0;
  std::int64_t read_bytes = 0;
};

// The most bytes of what passes through in memory at a time, about.
inline constexpr std::int64_t kPagingWindow = 256 << 20;

// At most `budget` bytes at a time, at least least_paged_bytes(). Nothing is there when the pass
// begins.
PagingPlan plan_paging(const PagingProblem& problem, std::int64_t budget);

}  // namespace atl
