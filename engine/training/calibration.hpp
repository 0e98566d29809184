// Choices that depend on measured times, kept so that a run can be repeated and resumed bit by bit.
#pragma once

#include <memory>

#include "engine/comm/transport.hpp"
#include "engine/training/options.hpp"
#include "kernels/kernel_choices.hpp"

namespace atl {

// The choices of --calibration or, for a resumed run, of RUN/calibration.json, to which --spmm adds
// where they name none. Null if none of it is asked for. Throws Error{kInput} naming the file.
std::shared_ptr<KernelChoices> load_calibration(const TrainOptions& options);

// options.exchange_options() with what an earlier run has measured of its exchange, if anything:
// see HaloExchange::calibration. What a resumed run finds of another number of ranks is left alone.
ExchangeOptions calibrated_exchange(const TrainOptions& options, int ranks);

// Writes the choices of all ranks and the exchange's figures to FOLDER/calibration.json on rank 0,
// if there are any. choices may be null, and so may exchange. Collective.
void save_calibration(Transport& transport, const KernelChoices* choices, const Json& exchange,
                      const std::filesystem::path& folder);

}  // namespace atl
