// What a trainer leaves behind and starts from: tensors by name, for checkpoints and models.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/log.hpp"
#include "engine/training/trainer.hpp"

namespace atl {

namespace {

template <typename T>
NamedTensor host_tensor(const char* dtype, std::vector<std::int64_t> shape,
                        std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

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

std::string exchange_state_name(int rank) { return "exchange.rank-" + std::to_string(rank); }

}  // namespace

SafetensorsFile Trainer::state(bool optimizer) {
  SafetensorsFile file;
  ParameterStore& parameters = network_.parameters();
  const auto add = [&](const std::string& prefix, MatrixView flat) {
    const std::vector<float> values = download_f32(rank_.backend, rank_.queue, flat);
    for (const Parameter& p : parameters.list()) {
      const auto count = static_cast<std::size_t>(p.rows * p.cols);
      file.tensors[prefix + p.name] =
          host_tensor<float>("F32", {p.rows, p.cols},
                             std::span(values).subspan(static_cast<std::size_t>(p.offset), count));
    }
  };
  add("", parameters.values());
  if (optimizer) {
    add("adam.m.", parameters.first_moments());
    add("adam.v.", parameters.second_moments());
  }
  for (NormState& norm : network_.norms()) {
    const auto add_statistic = [&](const char* name, const DeviceArray<double>& values) {
      file.tensors[norm.name + name] =
          host_tensor<double>("F64", {norm.columns}, values.download(rank_.backend, rank_.queue));
    };
    add_statistic(".running_mean", norm.running_mean);
    add_statistic(".running_var", norm.running_variance);
  }
  return file;
}

void Trainer::load_state(const SafetensorsFile& file, bool optimizer, const std::string& place) {
  forward_is_done_ = false;
  ParameterStore& parameters = network_.parameters();
  const auto load = [&](const std::string& prefix, MatrixView flat) {
    for (const Parameter& p : parameters.list()) {
      const auto& bytes = find_tensor(file, prefix + p.name, "F32", {p.rows, p.cols}, place);
      // Moments of a run that goes on may have overflowed.
      if (prefix.empty()) require_finite<float>(bytes, p.name, place);
      rank_.backend.copy(rank_.queue, flat.row<float>(0) + p.offset, bytes.data(),
                         static_cast<std::int64_t>(bytes.size()), CopyKind::kHostToDevice);
    }
    rank_.backend.synchronize(rank_.queue);
  };
  load("", parameters.values());
  parameters.refresh_operands(rank_.backend, rank_.queue);
  if (optimizer) {
    load("adam.m.", parameters.first_moments());
    load("adam.v.", parameters.second_moments());
  }
  for (NormState& norm : network_.norms()) {
    const auto load_statistic = [&](const char* name, DeviceArray<double>& values) {
      const auto& bytes = find_tensor(file, norm.name + name, "F64", {norm.columns}, place);
      require_finite<double>(bytes, norm.name + name, place);
      std::vector<double> host(static_cast<std::size_t>(norm.columns));
      std::memcpy(host.data(), bytes.data(), bytes.size());
      values.upload(rank_.backend, rank_.queue, host);
    };
    load_statistic(".running_mean", norm.running_mean);
    load_statistic(".running_var", norm.running_variance);
  }
}

void Trainer::add_exchange_state(SafetensorsFile& file) {
  const std::string mine = exchange_->state();
  const auto all =
      rank_.transport.gather(std::as_bytes(std::span(mine)), 0, {"state of the exchange"});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    file.tensors[exchange_state_name(static_cast<int>(rank))] =
        host_tensor<std::byte>("U8", {std::ssize(all[rank])}, all[rank]);
  }
}

void Trainer::load_exchange_state(const SafetensorsFile& file, const std::string& place) {
  const auto find = [&](int rank) { return file.tensors.find(exchange_state_name(rank)); };
  const auto none = file.tensors.end();
  if (find(0) == none) return;
  if (find(rank_.transport.size() - 1) == none || find(rank_.transport.size()) != none) {
    if (rank_.transport.rank() == 0) {
      log::warn("{}: written by another number of ranks; the exchange mode starts anew", place);
    }
    return;
  }
  const std::vector<std::byte>& bytes = find(rank_.transport.rank())->second.bytes;
  exchange_->load_state({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, place);
}

}  // namespace atl
