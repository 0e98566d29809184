#include "engine/placement/task_graph.hpp"

#include "base/error.hpp"

namespace atl {

TaskId TaskGraph::add(const SimTask& task, std::span<const TaskId> after) {
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

void TaskGraph::clear() {
  tasks_.clear();
  dependencies_.clear();
  dependency_end_.clear();
}

}  // namespace atl
