#include "engine/training/calibration.hpp"

#include "base/seal.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

namespace {
constexpr const char* kFileName = "calibration.json";
constexpr const char* kKernels = "kernel_choices";
constexpr const char* kExchange = "exchange";
}  // namespace

namespace {

// The file to read, or an empty path.
std::filesystem::path file_of(const TrainOptions& options) {
  if (!options.calibration.empty()) return options.calibration;
  const std::filesystem::path of_run = options.run_dir / kFileName;
  return options.resume && std::filesystem::exists(of_run) ? of_run : std::filesystem::path();
}

Json read_calibration(const std::filesystem::path& file) {
  Json json = read_json(file);
  if (!json.is_object() || !(json.contains(kKernels) || json.contains(kExchange))) {
    fail_input("{}: holds no measured choices; it needs '{}' or '{}'", file.string(), kKernels,
               kExchange);
  }
  if (json.contains("seal")) check_seal(json, file);  // one written by hand has none
  return json;
}

}  // namespace

std::shared_ptr<KernelChoices> load_calibration(const TrainOptions& options) {
  const std::filesystem::path file = file_of(options);
  if (file.empty() && options.spmm == SpmmWish::kOwn) return nullptr;
  auto choices = std::make_shared<KernelChoices>(options.spmm);
  if (file.empty()) return choices;
  const Json json = read_calibration(file);
  if (json.contains(kKernels)) choices->add_json({{kKernels, json.at(kKernels)}}, file);
  return choices;
}

ExchangeOptions calibrated_exchange(const TrainOptions& options, int ranks) {
  ExchangeOptions result = options.exchange_options();
  const std::filesystem::path file = file_of(options);
  if (file.empty()) return result;
  const Json json = read_calibration(file);
  if (!json.contains(kExchange)) return result;
  const Json& exchange = json.at(kExchange);
  if (options.calibration.empty()) {
    // Found by --resume. Of groups it is that of rank 0's slice; each has its own in the
    // checkpoint.
    const bool is_theirs = json_field_or<int>(exchange, "ranks", file, 0) == ranks;
    if (!is_theirs || options.group_ranks.any()) return result;
  }
  result.message_bits.calibration = exchange;
  result.message_bits.calibration_place = fmt::format("{}: {}", file.string(), kExchange);
  return result;
}

void save_calibration(Transport& transport, const KernelChoices* choices, const Json& exchange,
                      const std::filesystem::path& folder) {
  const KernelChoices none;
  const std::string mine = (choices != nullptr ? *choices : none).to_json().dump();
  const std::vector<std::string> all = gather_texts(transport, mine, {"calibration"});
  on_all_ranks(transport, [&] {
    if (transport.rank() != 0) return;
    // Parts of exactly equal shape share an entry: the lowest rank's counts.
    KernelChoices merged;
    for (auto text = all.rbegin(); text != all.rend(); ++text) {
      merged.add_json(parse_json(*text, "calibration of a rank"), folder / kFileName);
    }
    if (merged.empty() && exchange.is_null()) return;
    Json json = merged.to_json();
    if (!exchange.is_null()) json[kExchange] = exchange;
    add_seal(json);
    write_json(folder / kFileName, json);
  });
}

}  // namespace atl
