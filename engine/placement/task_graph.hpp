// An epoch as tasks of a discrete-event simulation: what runs on which rank in which order, what
// travels between which ranks, and what waits for what. Where messages are used an epoch after the
// one that sends them, several epochs one after another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"

namespace atl {

using TaskId = std::int32_t;

enum class TaskKind : std::uint8_t {
  kCompute,   // occupies its rank; the computing tasks of a rank run in the order of their ids
  kTransfer,  // occupies links, beside computing
  kDelay,     // occupies nothing: a collective that all ranks wait for
};

struct SimTask {
  TaskKind kind = TaskKind::kCompute;
  // The name of such spans in a real epoch's trace.
  const char* name = "";
  const char* direction = "";  // "forward", "backward" or ""
  int layer = -1;
  int rank = -1;          // compute: where; transfer: the sender
  int destination = -1;   // transfer: the receiver
  double seconds = 0;     // compute: alone on its rank; delay
  double bytes = 0;       // transfer
  double rows = 0;        // transfer: messages in it
  bool in_group = false;  // transfer: of a conversion, not of messages
  // Transfer: it follows another one that it waits for on the same way. Its latency counts from
  // when it was posted, the end of the other tasks that it waits for, and passes while it queues.
  bool queues = false;
  // Transfer: so many packets at once, of equal size, to the ranks from `destination` on, which
  // have the same links from `rank`.
  int packets = 1;
};

class TaskGraph {
 public:
  explicit TaskGraph(int ranks) : ranks_(ranks) {
    constexpr std::size_t kUsual = 256;  // tasks of a stage on a few ranks: none makes it grow
    tasks_.reserve(kUsual);
    dependencies_.reserve(kUsual);
    dependency_end_.reserve(kUsual);
  }
  // Adds a task that starts when all of `after` (earlier tasks) have ended; returns its id.
  TaskId add(const SimTask& task, std::span<const TaskId> after = {}) {
    const TaskId id = size();
    ATOLL_ASSERT(task.kind == TaskKind::kDelay || (task.rank >= 0 && task.rank < ranks_));
    tasks_.push_back(task);
    for (const TaskId earlier : after) {
      ATOLL_ASSERT(earlier >= 0 && earlier < id);
      dependencies_.push_back(earlier);
    }
    dependency_end_.push_back(static_cast<std::int32_t>(dependencies_.size()));
    return id;
  }

  int ranks() const { return ranks_; }
  TaskId size() const { return static_cast<TaskId>(tasks_.size()); }
  const SimTask& task(TaskId id) const { return tasks_[static_cast<std::size_t>(id)]; }
  SimTask& task(TaskId id) { return tasks_[static_cast<std::size_t>(id)]; }
  const std::vector<SimTask>& tasks() const { return tasks_; }
  std::span<const TaskId> dependencies(TaskId id) const {
    const auto i = static_cast<std::size_t>(id);
    const std::int32_t begin = i == 0 ? 0 : dependency_end_[i - 1];
    return {dependencies_.data() + begin, dependencies_.data() + dependency_end_[i]};
  }
  // Tasks from now on are of another epoch.
  void begin_epoch() { epoch_begins_.push_back(size()); }
  int epochs() const { return static_cast<int>(epoch_begins_.size()) + 1; }
  // The first task of an epoch, which may be behind all tasks.
  TaskId epoch_begin(int epoch) const {
    return epoch == 0 ? 0 : epoch_begins_[static_cast<std::size_t>(epoch - 1)];
  }
  // Forgets all tasks and keeps their memory.
  void clear() {
    epoch_begins_.clear();
    tasks_.clear();
    dependencies_.clear();
    dependency_end_.clear();
  }

 private:
  int ranks_;
  std::vector<SimTask> tasks_;
  std::vector<TaskId> dependencies_;
  std::vector<std::int32_t> dependency_end_;  // by task, into dependencies_
  std::vector<TaskId> epoch_begins_;          // but for the first epoch's
};

}  // namespace atl
