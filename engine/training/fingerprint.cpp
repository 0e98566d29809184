// The identity of a run, as far as its numbers go: what a checkpoint must have in common with its
// resumption.
#include "engine/training/option_table.hpp"
#include "engine/training/training_run.hpp"

namespace atl {

Json fingerprint(const TrainOptions& options, const DatasetInfo& dataset) {
  Json result = {{"dataset_checksum", dataset.checksum}};
  for (const Option<TrainOptions>& row : train_options()) {
    if (row.recorded && row.recorded(options)) result[row.name] = option_json(row, options);
  }
  return result;
}

}  // namespace atl
