#include "engine/training/run_folder.hpp"

#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/files.hpp"
#include "engine/training/checkpoint.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The lines of metrics.jsonl up to `last_epoch`: what came after the checkpoint is trained again.
// The last line may be cut off by a kill; everything from the first bad line on is dropped.
std::vector<Json> metrics_up_to(const fs::path& file, int last_epoch) {
  std::vector<Json> kept;
  std::error_code error;
  if (!fs::exists(file, error)) return kept;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || !entry.contains("epoch") || entry["epoch"] > last_epoch) break;
    kept.push_back(std::move(entry));
  }
  return kept;
}

}  // namespace

RunFolder::RunFolder(const fs::path& path, const std::string& config_toml, int resumed_epoch)
    : path_(path) {
  if (path_.empty()) return;
  check(path_, resumed_epoch >= 0);
  const fs::path file = path_ / "metrics.jsonl";
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail_input("{}: can't create: {}", path_.string(), error.message());
  if (resumed_epoch >= 0) {
    earlier_ = metrics_up_to(file, resumed_epoch);
    std::string lines;
    for (const Json& line : earlier_) lines += line.dump() + "\n";
    write_atomically(file, lines);
  }
  write_atomically(path_ / "config.toml", config_toml);
  metrics_ = std::fopen(file.c_str(), "ab");
  if (metrics_ == nullptr) fail_input("{}: can't write: {}", file.string(), std::strerror(errno));
}

void RunFolder::check(const fs::path& path, bool resume) {
  std::error_code error;
  if (resume && !has_checkpoint(path)) {
    fail_input("--resume: {} holds no checkpoint; was the run started with --checkpoint-every?",
               path.string());
  }
  if (fs::exists(path / "dataset.json", error)) {
    fail_option("--run-dir {}: is a dataset folder; choose another one", path.string());
  }
  if (!resume && fs::exists(path / "metrics.jsonl", error)) {
    fail_option(
        "--run-dir {}: holds a run already; add --resume to go on with it, or choose "
        "another folder",
        path.string());
  }
}

RunFolder::~RunFolder() {
  if (metrics_ != nullptr) std::fclose(metrics_);
}

void RunFolder::append(const EpochResult& result, const Metrics* metrics) {
  if (!active()) return;
  Json line = {{"epoch", result.epoch}, {"loss", result.loss}};
  if (metrics != nullptr) line.update(to_json(*metrics));
  line["epoch_ms"] = result.epoch_ms;
  line["phases"] = result.phase_ms;
  line["exposed_comm_ms"] = result.exposed_comm_ms;
  line["bytes_sent"] = result.bytes_sent;
  if (!result.assignment.is_null()) line["assignment"] = result.assignment;
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), metrics_) != text.size() ||
      std::fflush(metrics_) != 0) {
    fail_input("{}: can't write: {}", (path_ / "metrics.jsonl").string(), std::strerror(errno));
  }
}

void RunFolder::write_summary(const Json& summary) const {
  if (active()) write_json(path_ / "summary.json", summary);
}

void RunFolder::write_model(const SafetensorsFile& weights) const {
  if (active()) write_atomically(path_ / "model.safetensors", to_safetensors(weights));
}

}  // namespace atl
