// trace.json in the folder of a run: the spans of all ranks.
#pragma once

#include "engine/training/message_record.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {

// Ranks on one host share a clock; between hosts the clocks are as far apart as the hosts set them
// (engine/trace aligns them). Collective.
void write_trace(RankJob& job, const TrainOptions& options, const MessageRecord& messages,
                 Transport& transport, const RunFolder& folder);

}  // namespace atl
