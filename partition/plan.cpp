#include "partition/plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/seal.hpp"

namespace atl {

namespace {

constexpr int kFormat = 1;
constexpr std::array<const char*, 2> kOrders = {"multiply-first", "aggregate-first"};
constexpr std::array<int, 6> kBits = {1, 2, 4, 8, 16, 32};

PlannedLayer read_layer(const Json& json, const std::filesystem::path& place) {
  PlannedLayer layer;
  layer.order = json_field<std::string>(json, "order", place);
  if (std::find(kOrders.begin(), kOrders.end(), layer.order) == kOrders.end()) {
    fail_input("{}: field 'order' is '{}'; allowed are {}", place.string(), layer.order,
               fmt::join(kOrders, ", "));
  }
  layer.cache_aggregate = json_field<bool>(json, "cache_aggregate", place);
  layer.bits = json_field<int>(json, "bits", place);
  if (std::find(kBits.begin(), kBits.end(), layer.bits) == kBits.end()) {
    fail_input("{}: field 'bits' is {}; allowed are {}", place.string(), layer.bits,
               fmt::join(kBits, ", "));
  }
  return layer;
}

double milliseconds(const Json& json, const char* field, const std::filesystem::path& path) {
  const auto value = json_field<double>(json, field, path);
  if (!(value >= 0)) {
    fail_input("{}: field '{}' is {}; allowed are 0 ms or more", path.string(), field, value);
  }
  return value;
}

}  // namespace

bool Plan::quantized() const {
  return std::any_of(layers.begin(), layers.end(), [](const auto& l) { return l.bits < 32; });
}

Json to_json(const Plan& plan) {
  Json layers = Json::array();
  for (const PlannedLayer& layer : plan.layers) {
    layers.push_back(
        {{"order", layer.order}, {"cache_aggregate", layer.cache_aggregate}, {"bits", layer.bits}});
  }
  Json dataset = {{"name", plan.dataset}, {"checksum", plan.dataset_checksum}};
  if (!plan.shape.empty()) dataset["shape"] = plan.shape;
  return {{"format", kFormat},
          {"dataset", dataset},
          {"ranks", plan.ranks},
          {"model", plan.model},
          {"partition", to_json(plan.partition)},
          {"layers", layers},
          {"recomputation", to_json(plan.recomputation)},
          {"gradient_sum", to_json(plan.gradient_sum)},
          {"predicted_ms", plan.predicted_ms},
          {"default_ms", plan.default_ms},
          {"lower_bound_ms", plan.lower_bound_ms},
          {"search", plan.search}};
}

Plan read_plan(const std::filesystem::path& path) {
  const Json json = read_json(path);
  if (json.contains("seal")) check_seal(json, path);  // one changed by hand may do without
  const int format = json_field<int>(json, "format", path);
  if (format != kFormat) {
    fail_input("{}: field 'format' is {}; this program reads format {}: make the plan again",
               path.string(), format, kFormat);
  }
  Plan plan;
  const Json dataset = json_field<Json>(json, "dataset", path);
  plan.dataset = json_field<std::string>(dataset, "name", path);
  plan.dataset_checksum = json_field<std::string>(dataset, "checksum", path);
  if (dataset.contains("shape")) plan.shape = json_field<std::string>(dataset, "shape", path);
  plan.ranks = json_field<int>(json, "ranks", path);
  if (plan.ranks < 1 || plan.ranks > kMaxParts) {
    fail_input("{}: field 'ranks' is {}; allowed are 1 to {}", path.string(), plan.ranks,
               kMaxParts);
  }
  plan.model = json_field<Json>(json, "model", path);
  plan.partition =
      parse_partition_options(json_field<Json>(json, "partition", path), plan.ranks, path);
  const Json layers = json_field<Json>(json, "layers", path);
  if (!layers.is_array() || layers.empty()) {
    fail_input("{}: field 'layers' is {}; it must be an array with an object per layer",
               path.string(), shown(layers));
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    plan.layers.push_back(read_layer(layers[l], fmt::format("{}: layer {}", path.string(), l)));
  }
  plan.recomputation = parse_recomputation(json.value("recomputation", Json()), plan.ranks,
                                           fmt::format("{}: field 'recomputation'", path.string()));
  if (plan.recomputation.any() && (plan.layers.size() < 2 || !plan.layers[0].cache_aggregate ||
                                   plan.layers[0].order != kOrders[1])) {
    fail_input(
        "{}: field 'recomputation' names rows of the first layer's output; it must be null unless "
        "layer 0 is aggregate-first with 'cache_aggregate' true and a layer follows it",
        path.string());
  }
  plan.gradient_sum = parse_sum_route(json.value("gradient_sum", Json()), plan.ranks,
                                      fmt::format("{}: field 'gradient_sum'", path.string()));
  plan.predicted_ms = milliseconds(json, "predicted_ms", path);
  plan.default_ms = milliseconds(json, "default_ms", path);
  plan.lower_bound_ms = milliseconds(json, "lower_bound_ms", path);
  plan.search = json.value("search", Json());
  return plan;
}

void require_plan_fits(const Plan& plan, const std::filesystem::path& path,
                       const std::string& dataset_checksum, int ranks, const Json& model) {
  const std::string file = path.string();
  if (!plan.shape.empty()) {
    fail_input(
        "{}: made from a shape, not from a dataset: {} says how many nodes a part has, but not "
        "which; make a plan with atoll plan DATASET",
        file, plan.shape);
  }
  if (plan.dataset_checksum != dataset_checksum) {
    fail_input(
        "{}: made for dataset {} with checksum {}, but this one has {}: the plan is of another "
        "graph or the dataset changed since; make it again with atoll plan",
        file, plan.dataset, plan.dataset_checksum, dataset_checksum);
  }
  if (plan.ranks != ranks) {
    fail_input("{}: made for {} ranks, but this job has {}; make it again with --ranks {}", file,
               plan.ranks, ranks, ranks);
  }
  for (const auto& [option, value] : model.items()) {
    const auto planned = plan.model.find(option);
    if (planned == plan.model.end()) {
      fail_input("{}: field 'model' has no '{}'; make the plan again", file, option);
    }
    if (*planned != value) {
      fail_input("{}: made for --{} {}, but this run has {}; make the plan again or change the run",
                 file, option, shown(*planned), shown(value));
    }
  }
  if (plan.layers.size() != model.at("layers").get<std::size_t>()) {
    fail_input("{}: field 'layers' plans {} layers of a model of {}", file, plan.layers.size(),
               shown(model.at("layers")));
  }
}

}  // namespace atl
