// The state of a network as tensors by name, for checkpoints and models.
#pragma once

#include <cstdint>
#include <string>

#include "engine/program/network.hpp"
#include "engine/tensor/safetensors.hpp"

namespace atl {

// Who has the rows of all nodes where nodes have parameters; other ranks' state is without them.
enum class StateOf : std::uint8_t { kFirstRank, kAllRanks };
// Parameters and batch-norm statistics; with an optimizer also its state. Collective where nodes
// have parameters.
SafetensorsFile network_state(Network& network, const Rank& rank, Optimizer* optimizer,
                              StateOf whole = StateOf::kFirstRank);
// A state of the first rank's that has the rows of all nodes, on all ranks. Collective where nodes
// have parameters.
SafetensorsFile with_rows_of_nodes(Network& network, const Rank& rank, SafetensorsFile file);
// Throws Error{kInput} naming `place` if a tensor is missing, has another shape, or holds what is
// no finite number.
void load_network_state(Network& network, const Rank& rank, const SafetensorsFile& file,
                        Optimizer* optimizer, const std::string& place);
// The words for a value that is no finite number. what: "the loss is".
std::string divergence(int epoch, const std::string& what, double value);
// Throws Error{kDiverged} naming the epoch and a parameter if one of this rank's is NaN or
// infinite.
void require_finite_parameters(Network& network, const Rank& rank, int epoch);

// Adds what the exchange of each rank must remember, on rank 0. Collective.
void add_exchange_state(HaloExchange& exchange, Transport& transport, SafetensorsFile& file);
// Back again; the state of another number of ranks is left out with a warning.
void load_exchange_state(HaloExchange& exchange, const Transport& transport,
                         const SafetensorsFile& file, const std::string& place);

// The steps that the optimizer has made, where they are not the epochs, and back.
void add_steps(SafetensorsFile& file, std::int64_t steps);
std::int64_t steps_of(const SafetensorsFile& file, const std::string& place);

}  // namespace atl
