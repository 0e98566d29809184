#include "engine/training/calibration.hpp"

#include "engine/training/agreement.hpp"

namespace atl {

namespace {
constexpr const char* kFileName = "calibration.json";
}

std::shared_ptr<KernelChoices> load_calibration(const TrainOptions& options) {
  std::filesystem::path file = options.calibration;
  if (file.empty() && options.resume && std::filesystem::exists(options.run_dir / kFileName)) {
    file = options.run_dir / kFileName;
  }
  if (file.empty() && !options.calibrate) return nullptr;
  auto choices = std::make_shared<KernelChoices>(options.calibrate);
  if (!file.empty()) choices->add_json(read_json(file), file);
  return choices;
}

void save_calibration(Transport& transport, const KernelChoices& choices,
                      const std::filesystem::path& folder) {
  const std::string mine = choices.to_json().dump();
  const auto all =
      transport.gather(std::as_bytes(std::span(mine.data(), mine.size())), 0, {"calibration"});
  on_all_ranks(transport, [&] {
    if (transport.rank() != 0) return;
    // Parts of exactly equal shape share an entry: the lowest rank's counts.
    KernelChoices merged;
    for (auto bytes = all.rbegin(); bytes != all.rend(); ++bytes) {
      const std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      merged.add_json(Json::parse(text), folder / kFileName);
    }
    write_json(folder / kFileName, merged.to_json());
  });
}

}  // namespace atl
