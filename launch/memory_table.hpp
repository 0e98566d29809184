// Memory that training a model would take on each rank, before anything runs.
#pragma once

#include <string>
#include <vector>

#include "datasets/dataset.hpp"
#include "engine/placement/memory_model.hpp"
#include "engine/plan/planned_job.hpp"

namespace atl {

struct RankMemory {
  std::int64_t nodes = 0;
  std::int64_t halo = 0;  // rows, in the direction that has more
  DataMemory data;
  TrainingMemory training;
  // Besides, while data is read: a single rank takes its part from the files of the dataset, which
  // are mapped, by way of a copy. Parts of a cut give back what has been copied.
  std::int64_t reading = 0;

  std::int64_t total() const { return data.total() + training.total() + reading; }
};

struct MemoryEstimate {
  std::string model;
  std::string dtype;
  std::string exchange;
  int ranks_per_part = 1;
  // Without a cut: even parts that read as many rows of neighbours as they can have, so that no cut
  // takes more.
  bool is_cut = false;
  std::vector<RankMemory> ranks;
};

// Throws Error{kInput} for a dataset that nothing can be trained on, and Error{kOption} for groups
// that so many ranks can't form.
MemoryEstimate estimate_memory(const Dataset& dataset, const TrainJob& job, int ranks);
Json to_json(const MemoryEstimate& estimate);
// A table for people, and what its words mean.
std::string to_text(const MemoryEstimate& estimate);

}  // namespace atl
