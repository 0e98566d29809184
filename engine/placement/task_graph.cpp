#include "engine/placement/task_graph.hpp"

#include "base/error.hpp"

namespace atl {

TaskId TaskGraph::add(const SimTask& task, std::span<const TaskId> after) {
  const TaskId id = size();
  ATOLL_ASSERT(task.kind == TaskKind::kDelay || (task.rank >= 0 && task.rank < ranks_));
  for (const TaskId earlier : after) ATOLL_ASSERT(earlier >= 0 && earlier < id);
  tasks_.push_back(task);
  dependencies_.insert(dependencies_.end(), after.begin(), after.end());
  dependency_end_.push_back(static_cast<std::int32_t>(dependencies_.size()));
  return id;
}

std::span<const TaskId> TaskGraph::dependencies(TaskId id) const {
  const auto i = static_cast<std::size_t>(id);
  const auto begin = static_cast<std::size_t>(i == 0 ? 0 : dependency_end_[i - 1]);
  return std::span(dependencies_)
      .subspan(begin, static_cast<std::size_t>(dependency_end_[i]) - begin);
}

void TaskGraph::clear() {
  tasks_.clear();
  dependencies_.clear();
  dependency_end_.clear();
}

}  // namespace atl
