#include "engine/training/network_state.hpp"

#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/log.hpp"
#include "engine/training/gather_rows.hpp"

namespace atl {

namespace {

// The bytes of tensor `name`; throws if it is missing or has another type or shape.
const std::vector<std::byte>& find_tensor(const SafetensorsFile& file, const std::string& name,
                                          const char* dtype, const std::vector<std::int64_t>& shape,
                                          const std::string& place) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) fail_input("{}: tensor '{}' is missing", place, name);
  if (found->second.dtype != dtype || found->second.shape != shape) {
    fail_input("{}: tensor '{}' has {} [{}], the model needs {} [{}]", place, name,
               found->second.dtype, fmt::join(found->second.shape, ", "), dtype,
               fmt::join(shape, ", "));
  }
  return found->second.bytes;
}

// Weights that are no numbers would give predictions that are none, without a word.
template <typename T>
void require_finite(const std::vector<std::byte>& bytes, const std::string& name,
                    const std::string& place) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if (std::isfinite(value)) continue;
    fail_input("{}: tensor '{}' holds {} at position {}; allowed are finite numbers", place, name,
               value, i);
  }
}

// Rows of parameters of nodes, in the order of the nodes: of all from all ranks, or back again.
std::vector<float> rows_of_all(const Rank& rank, std::span<const GlobalId> ids,
                               std::span<const float> own, std::int64_t columns, StateOf whole) {
  const OperationLabel label{"parameters of nodes"};
  std::vector<float> all = gather_rows(rank.transport, ids, own, columns, rank.nodes, label);
  if (whole == StateOf::kFirstRank) return all;
  all.resize(static_cast<std::size_t>(rank.nodes * columns));
  rank.transport.broadcast(std::as_writable_bytes(std::span(all)), 0, label);
  return all;
}

std::vector<std::byte> rows_of_own(std::span<const std::byte> all, std::span<const GlobalId> ids,
                                   std::int64_t columns) {
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * sizeof(float);
  std::vector<std::byte> own(ids.size() * row_bytes);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::memcpy(own.data() + i * row_bytes,
                all.data() + static_cast<std::size_t>(to_index(ids[i])) * row_bytes, row_bytes);
  }
  return own;
}

constexpr const char* kSteps = "adam.steps";

std::string exchange_state_name(int rank) { return "exchange.rank-" + std::to_string(rank); }

}  // namespace

SafetensorsFile with_rows_of_nodes(Network& network, const Rank& rank, SafetensorsFile file) {
  for (const Parameter& p : network.parameters().list()) {
    if (!p.per_node) continue;
    NamedTensor& tensor = file.tensors[p.name];
    tensor.dtype = "F32";
    tensor.shape = {rank.nodes, p.columns};
    tensor.bytes.resize(static_cast<std::size_t>(rank.nodes * p.columns) * sizeof(float));
    rank.transport.broadcast(std::span(tensor.bytes), 0, {"parameters of nodes"});
  }
  return file;
}

SafetensorsFile network_state(Network& network, const Rank& rank, Optimizer* optimizer,
                              StateOf whole) {
  SafetensorsFile file;
  ParameterStore& parameters = network.parameters();
  const auto add = [&](const std::string& prefix, MatrixView flat) {
    const std::vector<float> values = download_f32(rank.backend, rank.queue, flat);
    for (const Parameter& p : parameters.list()) {
      const auto count = static_cast<std::size_t>(p.rows * p.columns);
      const auto own = std::span(values).subspan(static_cast<std::size_t>(p.offset), count);
      if (!p.per_node) {
        file.tensors[prefix + p.name] = host_tensor<float>("F32", {p.rows, p.columns}, own);
        continue;
      }
      const std::vector<float> all =
          rows_of_all(rank, parameters.node_ids(), own, p.columns, whole);
      if (all.empty()) continue;
      file.tensors[prefix + p.name] = host_tensor<float>("F32", {rank.nodes, p.columns}, all);
    }
  };
  add("", parameters.values());
  if (optimizer != nullptr) {
    for (const auto& [prefix, flat] : optimizer->state(parameters)) add(prefix, flat);
  }
  for (NormState& norm : network.norms()) {
    const auto add_statistic = [&](const char* name, const DeviceArray<double>& values) {
      file.tensors[norm.name + name] =
          host_tensor<double>("F64", {norm.columns}, values.download(rank.backend, rank.queue));
    };
    add_statistic(".running_mean", norm.running_mean);
    add_statistic(".running_var", norm.running_variance);
  }
  return file;
}

void load_network_state(Network& network, const Rank& rank, const SafetensorsFile& file,
                        Optimizer* optimizer, const std::string& place) {
  ParameterStore& parameters = network.parameters();
  const auto load = [&](const std::string& prefix, MatrixView flat) {
    for (const Parameter& p : parameters.list()) {
      const auto& whole = find_tensor(file, prefix + p.name, "F32",
                                      {p.per_node ? rank.nodes : p.rows, p.columns}, place);
      const std::vector<std::byte> rows = p.per_node
                                              ? rows_of_own(whole, parameters.node_ids(), p.columns)
                                              : std::vector<std::byte>();
      const std::vector<std::byte>& bytes = p.per_node ? rows : whole;
      // Moments of a run that goes on may have overflowed.
      if (prefix.empty()) require_finite<float>(bytes, p.name, place);
      rank.backend.copy(rank.queue, flat.row<float>(0) + p.offset, bytes.data(),
                        static_cast<std::int64_t>(bytes.size()), CopyKind::kHostToDevice);
    }
    rank.backend.synchronize(rank.queue);
  };
  load("", parameters.values());
  parameters.refresh_operands(rank.backend, rank.queue);
  if (optimizer != nullptr) {
    for (const auto& [prefix, flat] : optimizer->state(parameters)) load(prefix, flat);
  }
  for (NormState& norm : network.norms()) {
    const auto load_statistic = [&](const char* name, DeviceArray<double>& values) {
      const auto& bytes = find_tensor(file, norm.name + name, "F64", {norm.columns}, place);
      require_finite<double>(bytes, norm.name + name, place);
      std::vector<double> host(static_cast<std::size_t>(norm.columns));
      std::memcpy(host.data(), bytes.data(), bytes.size());
      values.upload(rank.backend, rank.queue, host);
    };
    load_statistic(".running_mean", norm.running_mean);
    load_statistic(".running_var", norm.running_variance);
  }
}

std::string divergence(int epoch, const std::string& what, double value) {
  return fmt::format(
      "epoch {}: {} {}: the run has diverged; lower --lr, or check the features for huge values "
      "(atoll info --validate)",
      epoch, what, std::isnan(value) ? "NaN" : fmt::format("{}", value));
}

void require_finite_parameters(Network& network, const Rank& rank, int epoch) {
  ParameterStore& parameters = network.parameters();
  const std::vector<float> values = download_f32(rank.backend, rank.queue, parameters.values());
  for (const Parameter& p : parameters.list()) {
    for (std::int64_t i = p.offset; i < p.offset + p.rows * p.columns; ++i) {
      if (std::isfinite(values[static_cast<std::size_t>(i)])) continue;
      fail(ErrorKind::kDiverged, "{}",
           divergence(epoch, p.name + " became", values[static_cast<std::size_t>(i)]));
    }
  }
}

void add_exchange_state(HaloExchange& exchange, Transport& transport, SafetensorsFile& file) {
  const std::string mine = exchange.state();
  const auto all = transport.gather(std::as_bytes(std::span(mine)), 0, {"state of the exchange"});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    file.tensors[exchange_state_name(static_cast<int>(rank))] =
        host_tensor<std::byte>("U8", {std::ssize(all[rank])}, all[rank]);
  }
}

void load_exchange_state(HaloExchange& exchange, const Transport& transport,
                         const SafetensorsFile& file, const std::string& place) {
  const auto find = [&](int rank) { return file.tensors.find(exchange_state_name(rank)); };
  const auto none = file.tensors.end();
  if (find(0) == none) return;
  if (find(transport.size() - 1) == none || find(transport.size()) != none) {
    if (transport.rank() == 0) {
      log::warn("{}: written by another number of ranks; the exchange mode starts anew", place);
    }
    return;
  }
  const std::vector<std::byte>& bytes = find(transport.rank())->second.bytes;
  exchange.load_state({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, place);
}

void add_steps(SafetensorsFile& file, std::int64_t steps) {
  file.tensors[kSteps] = host_tensor<std::int64_t>("I64", {1}, std::span(&steps, 1));
}

std::int64_t steps_of(const SafetensorsFile& file, const std::string& place) {
  std::int64_t steps = 0;
  std::memcpy(&steps, find_tensor(file, kSteps, "I64", {1}, place).data(), sizeof(steps));
  return steps;
}

}  // namespace atl
