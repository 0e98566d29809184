#include "engine/plan/plan.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/files.hpp"
#include "base/seal.hpp"
#include "engine/training/stage_options.hpp"
#include "kernels/wire.hpp"

namespace atl {

namespace {

constexpr int kFormat = 1;

LayerPlan read_layer(const Json& json, const std::filesystem::path& place) {
  LayerPlan layer;
  layer.algebra.order = read_order(json, place);
  layer.algebra.cache_aggregate = json_field<bool>(json, "cache_aggregate", place);
  const int bits = json_field<int>(json, "bits", place);
  if (std::ranges::find(kWireBits, bits) == kWireBits.end()) {
    fail_input("{}: field 'bits' is {}; allowed are {}", place.string(), bits,
               fmt::join(kWireBits, ", "));
  }
  layer.bits = bits;
  return layer;
}

std::optional<PlannedStages> read_stages(const Json& json, const Plan& plan,
                                         const std::filesystem::path& path) {
  if (json.is_null()) return std::nullopt;
  const std::string place = path.string() + ": field 'stages'";
  PlannedStages stages{.first_layer = json_field<std::vector<int>>(json, "first_layers", place),
                       .chunks = json_field<int>(json, "chunks", place),
                       .stale_from = json_field<int>(json, "stale_from", place)};
  const std::vector<int>& first = stages.first_layer;
  const bool ascends = std::ranges::adjacent_find(first, std::greater_equal()) == first.end();
  if (std::ssize(first) != plan.ranks || first.front() != 0 || !ascends ||
      first.back() >= std::ssize(plan.layers)) {
    fail_input(
        "{}: 'first_layers' is [{}]; allowed are ascending numbers of {} layers from 0 on, one for "
        "each of {} ranks",
        place, fmt::join(first, ", "), plan.layers.size(), plan.ranks);
  }
  if (plan.group_ranks != plan.ranks) {
    fail_input("{}: found beside 'group_ranks' {}; allowed is {}, as each stage has all nodes",
               place, plan.group_ranks, plan.ranks);
  }
  if (stages.chunks < 1 || stages.chunks > kMostChunks) {
    fail_input("{}: 'chunks' is {}; allowed are 1 to {}", place, stages.chunks, kMostChunks);
  }
  if (stages.stale_from < kFirstStaleEpoch) {
    fail_input("{}: 'stale_from' is {}; allowed are epochs from {} on", place, stages.stale_from,
               kFirstStaleEpoch);
  }
  return stages;
}

Json to_json(const PlannedStages& stages) {
  return {{"first_layers", stages.first_layer},
          {"chunks", stages.chunks},
          {"stale_from", stages.stale_from}};
}

double milliseconds(const Json& json, const char* field, const std::filesystem::path& path) {
  const auto value = json_field<double>(json, field, path);
  if (!(value >= 0)) {
    fail_input("{}: field '{}' is {}; allowed are 0 ms or more", path.string(), field, value);
  }
  return value;
}

}  // namespace

Json to_json(const Plan& plan) {
  Json layers = Json::array();
  for (const LayerPlan& layer : plan.layers) {
    layers.push_back({{"order", to_string(layer.algebra.order)},
                      {"cache_aggregate", layer.algebra.cache_aggregate},
                      {"bits", static_cast<int>(layer.bits)}});
  }
  const auto recomputation = recomputation_of(plan.layers);
  Json dataset = {{"name", plan.dataset}, {"checksum", plan.dataset_checksum}};
  if (!plan.shape.empty()) dataset["shape"] = plan.shape;
  return {{"format", kFormat},
          {"dataset", dataset},
          {"ranks", plan.ranks},
          {"group_ranks", plan.group_ranks},
          {"model", plan.model},
          {"partition", to_json(plan.partition)},
          {"layers", layers},
          {"stages", plan.stages ? to_json(*plan.stages) : Json()},
          {"recomputation", recomputation ? to_json(*recomputation) : Json()},
          {"gradient_sum", to_json(plan.gradient_sum)},
          {"exchange", plan.exchange},
          {"predicted_ms", plan.predicted_ms},
          {"default_ms", plan.default_ms},
          {"lower_bound_ms", plan.lower_bound_ms},
          {"messages", plan.messages},
          {"search", plan.search}};
}

void write_plan(const Plan& plan, const std::filesystem::path& path) {
  Json document = to_json(plan);
  add_seal(document);
  write_atomically(path, document.dump(2) + "\n");
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
  plan.group_ranks = json_field_or<int>(json, "group_ranks", path, 1);
  if (plan.group_ranks < 1 || plan.ranks % plan.group_ranks != 0) {
    fail_input("{}: field 'group_ranks' is {}; allowed are divisors of the {} ranks", path.string(),
               plan.group_ranks, plan.ranks);
  }
  plan.model = json_field<Json>(json, "model", path);
  plan.partition = parse_partition_options(json_field<Json>(json, "partition", path),
                                           plan.ranks / plan.group_ranks, path);
  const Json layers = json_field<Json>(json, "layers", path);
  if (!layers.is_array() || layers.empty()) {
    fail_input("{}: field 'layers' is {}; it must be an array with an object per layer",
               path.string(), shown(layers));
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    plan.layers.push_back(read_layer(layers[l], fmt::format("{}: layer {}", path.string(), l)));
  }
  read_recomputation(json.value("recomputation", Json()), plan.ranks, path, plan.layers);
  if (plan.group_ranks > 1 && recomputation_of(plan.layers) != nullptr) {
    fail_input(
        "{}: field 'recomputation' stands beside 'group_ranks' {}; allowed is it where each rank "
        "holds a part",
        path.string(), plan.group_ranks);
  }
  plan.stages = read_stages(json.value("stages", Json()), plan, path);
  plan.gradient_sum = parse_sum_route(json.value("gradient_sum", Json()), plan.ranks,
                                      fmt::format("{}: field 'gradient_sum'", path.string()));
  plan.exchange = json.value("exchange", Json());
  if (!plan.exchange.is_null()) {
    read_exchange(plan.exchange, fmt::format("{}: field 'exchange'", path.string()));
  }
  plan.predicted_ms = milliseconds(json, "predicted_ms", path);
  plan.default_ms = milliseconds(json, "default_ms", path);
  plan.lower_bound_ms = milliseconds(json, "lower_bound_ms", path);
  plan.messages = json.value("messages", Json());
  plan.search = json.value("search", Json());
  return plan;
}

void require_plan_fits(const Plan& plan, const std::filesystem::path& path,
                       const std::string& dataset_checksum, int ranks, const Json& model,
                       int layers) {
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
  for (const auto& [option, value] : plan.model.items()) {
    if (model.contains(option)) continue;
    fail_input(
        "{}: made for --{} {}, which this run has not; make the plan again or change the run", file,
        option, shown(value));
  }
  if (std::ssize(plan.layers) != layers) {
    fail_input("{}: field 'layers' plans {} layers of a model of {}", file, plan.layers.size(),
               layers);
  }
}

}  // namespace atl
