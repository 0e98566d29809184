#include "kernels/kernel_choices.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace atl {

namespace {

constexpr const char* kList = "kernel_choices";
constexpr std::array kFields = {"operation", "rows",   "nnz",          "width",  "dtype",
                                "device",    "kernel", "milliseconds", "repeats"};
// Where in a file an entry stands, for messages.
std::filesystem::path place_of(const std::filesystem::path& file, std::size_t entry) {
  return fmt::format("{}: {}[{}]", file.string(), kList, entry);
}

void check_fields(const Json& entry, const std::filesystem::path& place) {
  if (!entry.is_object())
    fail_input("{}: found {}, expected an object", place.string(), shown(entry));
  for (const auto& [name, value] : entry.items()) {
    if (std::ranges::find(kFields, name) == kFields.end()) {
      fail_input("{}: unknown field '{}'; allowed are {}", place.string(), name,
                 fmt::join(kFields, ", "));
    }
  }
}

std::int64_t count_field(const Json& entry, const char* field, const std::filesystem::path& place) {
  const auto value = json_field<std::int64_t>(entry, field, place);
  if (value < 0) fail_input("{}: field '{}' is {}, allowed from 0", place.string(), field, value);
  return value;
}

DType dtype_field(const Json& entry, const std::filesystem::path& place) {
  const auto found = json_field<std::string>(entry, "dtype", place);
  if (const auto dtype = dtype_named(found)) return *dtype;
  fail_input("{}: dtype '{}'; allowed are f32, bf16, f64", place.string(), found);
}

void check_kernel(const std::string& operation, const std::string& kernel,
                  const std::filesystem::path& place) {
  const std::vector<std::string> allowed = KernelChoices::kernels_of(operation);
  if (allowed.empty()) fail_input("{}: unknown operation '{}'", place.string(), operation);
  if (std::ranges::find(allowed, kernel) == allowed.end()) {
    fail_input("{}: unknown kernel '{}' of {}; allowed are {}", place.string(), kernel, operation,
               fmt::join(allowed, ", "));
  }
}

KernelTimes times_field(const Json& entry, const std::string& operation,
                        const std::filesystem::path& place) {
  const auto object = json_field<Json>(entry, "milliseconds", place);
  if (!object.is_object()) {
    fail_input("{}: field 'milliseconds' is {}, expected an object", place.string(), shown(object));
  }
  KernelTimes times;
  for (const auto& [kernel, value] : object.items()) {
    check_kernel(operation, kernel, place);
    const auto time = json_field<double>(object, kernel.c_str(), place);
    if (!std::isfinite(time) || time < 0) {
      fail_input("{}: {} takes {} ms, allowed from 0", place.string(), kernel, time);
    }
    times.emplace_back(kernel, time);
  }
  return times;
}

// Absent in what was not measured.
KernelRepeats repeats_field(const Json& entry, const std::string& operation,
                            const std::filesystem::path& place) {
  KernelRepeats repeats;
  if (!entry.contains("repeats")) return repeats;
  const Json& object = entry.at("repeats");
  if (!object.is_object()) {
    fail_input("{}: field 'repeats' is {}, expected an object", place.string(), shown(object));
  }
  for (const auto& [kernel, value] : object.items()) {
    check_kernel(operation, kernel, place);
    repeats.emplace_back(kernel, json_field<bool>(object, kernel.c_str(), place));
  }
  return repeats;
}

}  // namespace

const char* to_string(SpmmWish wish) {
  constexpr std::array kNames = {"own", "cusparse", "auto"};
  return kNames[static_cast<std::size_t>(wish)];
}

std::vector<std::string> KernelChoices::kernels_of(const std::string& operation) {
  if (operation == "spmm") return {"own", "cusparse-alg2", "cusparse-alg3"};
  return {};
}

std::optional<std::string> KernelChoices::lookup(const KernelKey& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second.kernel;
}

void KernelChoices::record(const KernelKey& key, KernelChoice choice) {
  const std::vector<std::string> allowed = kernels_of(key.operation);
  ATOLL_ASSERT(std::ranges::find(allowed, choice.kernel) != allowed.end(), "kernel {} of {}",
               choice.kernel, key.operation);
  const std::scoped_lock lock(mutex_);
  choices_.insert_or_assign(key, std::move(choice));
  ++changes_;
}

void KernelChoices::replace_kernel(const KernelKey& key, const std::string& kernel) {
  const std::scoped_lock lock(mutex_);
  choices_[key].kernel = kernel;
  ++changes_;
}

std::int64_t KernelChoices::changes() const {
  const std::scoped_lock lock(mutex_);
  return changes_;
}

bool KernelChoices::empty() const {
  const std::scoped_lock lock(mutex_);
  return choices_.empty();
}

Json KernelChoices::to_json() const {
  const std::scoped_lock lock(mutex_);
  Json list = Json::array();
  for (const auto& [key, choice] : choices_) {
    Json times = Json::object();
    for (const auto& [kernel, time] : choice.milliseconds) times[kernel] = time;
    list.push_back({{"operation", key.operation},
                    {"rows", key.rows},
                    {"nnz", key.nnz},
                    {"width", key.columns},
                    {"dtype", to_string(key.dtype)},
                    {"device", key.device},
                    {"kernel", choice.kernel},
                    {"milliseconds", times}});
    for (const auto& [kernel, equal] : choice.repeats) list.back()["repeats"][kernel] = equal;
  }
  return {{kList, list}};
}

void KernelChoices::add_json(const Json& object, const std::filesystem::path& file) {
  const auto list = json_field<Json>(object, kList, file);
  if (!list.is_array()) {
    fail_input("{}: field '{}' is {}, expected a list", file.string(), kList, shown(list));
  }
  std::map<KernelKey, KernelChoice> added;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const Json& entry = list[k];
    const std::filesystem::path place = place_of(file, k);
    check_fields(entry, place);
    KernelKey key{json_field<std::string>(entry, "operation", place),
                  count_field(entry, "rows", place),
                  count_field(entry, "nnz", place),
                  count_field(entry, "width", place),
                  dtype_field(entry, place),
                  json_field<std::string>(entry, "device", place)};
    const auto kernel = json_field<std::string>(entry, "kernel", place);
    check_kernel(key.operation, kernel, place);
    KernelChoice choice{kernel, times_field(entry, key.operation, place),
                        repeats_field(entry, key.operation, place)};
    const bool fresh = added.try_emplace(key, std::move(choice)).second;
    if (!fresh) fail_input("{}: this operation and shape came before", place.string());
  }
  const std::scoped_lock lock(mutex_);
  for (auto& [key, choice] : added) choices_.insert_or_assign(key, std::move(choice));
}

}  // namespace atl
