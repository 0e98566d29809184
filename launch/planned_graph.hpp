// The input of `atoll plan`: a dataset that it cuts, or files of shapes.
#pragma once

#include <string>
#include <vector>

#include "datasets/dataset.hpp"
#include "engine/models/model.hpp"
#include "engine/placement/cut_candidates.hpp"
#include "engine/placement/graph_shape.hpp"
#include "engine/training/options.hpp"

namespace atl {

// Columns of the model's output. Throws Error{kInput} for a task that is neither listed nor
// planned.
std::int64_t outputs_of(const DatasetInfo& info);

// The model for a dataset, on so many ranks. Throws Error{kInput} for a dataset without classes, or
// without features unless the model trains some.
ModelConfig model_for(const DatasetInfo& info, const ModelConfig& model, int ranks);

// The blocks of the first epoch, with communities that are found or made as training does; none
// without --blocks. folder: of the dataset; parts_dir: as PartitionOptions has it.
GraphBlocks first_blocks(const Dataset& dataset, const std::filesystem::path& folder,
                         const TrainOptions& options, const std::filesystem::path& parts_dir);

// How many of them have training nodes: no step is made on others. split: of each node, 0 =
// training.
int trained_blocks(const GraphBlocks& blocks, std::span<const std::uint8_t> split);

// The shape of a dataset that was cut by `options`. Throws Error{kInput} for a dataset that nothing
// can be trained on.
GraphShape shape_of(const DatasetInfo& info, const PartitionOptions& options,
                    PartitionQuality quality);

// One graph, cut in as many ways as there are shapes.
struct NamedShape {
  std::string name;  // of the cut
  std::string file;
  GraphShape shape;
};
// Reads words NAME=FILE or FILE, as of --shape; names are files where none is given. Throws
// Error{kInput} unless all are of one graph in `ranks` parts, or in divisors of that, with names of
// their own.
std::vector<NamedShape> read_shapes(const std::vector<std::string>& words, int ranks);

}  // namespace atl
