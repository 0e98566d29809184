#include "launch/job_start.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/npy.hpp"
#include "datasets/delta.hpp"
#include "engine/comm/rank_facts.hpp"
#include "engine/training/warm_start.hpp"
#include "launch/config_file.hpp"
#include "launch/version.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

// Options that may differ between ranks; everything else must be the same on all ranks.
constexpr std::array<std::string_view, 2> kOwnOptions = {"threads", "backend"};
// Environment that shapes results.
constexpr std::array<const char*, 1> kVariables = {"ATOLL_VECTORS"};

// As dataset.json states it: the files themselves may be large. A folder that somebody else made
// states none.
std::string dataset_checksum(const fs::path& folder) {
  const fs::path file = folder / "dataset.json";
  const Json json = read_json(file);
  if (json.is_object() && json.contains("checksum")) {
    return json_field<std::string>(json, "checksum", file);
  }
  return to_hex(file_checksum(file));
}

std::string checksum_of(const fs::path& file) { return to_hex(file_checksum(file)); }

std::string model_checksum(const fs::path& run) { return checksum_of(run / "model.safetensors"); }

std::string warm_start_file_checksum(const fs::path& run) {
  return checksum_of(warm_start_model(run));
}

// Files and folders that every rank reads: their contents must be the same, not their names.
struct SharedContents {
  std::string_view option;
  const char* name;
  std::string (*checksum)(const fs::path&);
};
constexpr std::array<SharedContents, 7> kContents = {{
    {"dataset", "the checksum of the dataset", dataset_checksum},
    {"plan", "the checksum of --plan", checksum_of},
    {"calibration", "the checksum of --calibration", checksum_of},
    {"init", "the checksum of --init", checksum_of},
    {"warm-start", "the checksum of --warm-start", warm_start_file_checksum},
    {"model-file", "the checksum of --model-file", checksum_of},
    {"run", "the checksum of the run's model", model_checksum},
}};

RankFact contents_fact(const SharedContents& contents, const std::string& path) {
  RankFact fact{contents.name, "unknown", path};
  try {
    fact.value = contents.checksum(path);
  } catch (const Error& error) {  // if it is the same everywhere, the command itself says it
    fact.note = error.what();
  }
  return fact;
}

// True unless rank 0 does the command's work alone.
bool runs_on_all_ranks(const CLI::App& command) {
  return command.get_option_no_throw("--transport") != nullptr;
}

std::vector<RankFact> facts_of(CLI::App& program) {
  std::vector<RankFact> facts;
  for (const char* variable : kVariables) {
    if (const char* value = std::getenv(variable)) facts.push_back({variable, value});
  }
  const CLI::App* command = selected_command(program);
  if (command == nullptr) return facts;
  const bool reads_on_all = runs_on_all_ranks(*command);
  for (const EffectiveOption& option : effective_options(*command)) {
    if (option.key == "config" || std::ranges::count(kOwnOptions, option.key) > 0) continue;
    const auto contents = std::ranges::find(kContents, option.key, &SharedContents::option);
    if (reads_on_all && contents != kContents.end()) {
      const CLI::Option* declared =
          command->get_option((option.positional ? "" : "--") + option.key);
      facts.push_back(contents_fact(*contents, declared->as<std::string>()));
      continue;
    }
    const std::string name =
        option.positional ? fmt::format("argument '{}'", option.key) : "--" + option.key;
    facts.push_back({name, option.text});
  }
  return facts;
}

double timeout_of(const CLI::App* command) {
  const CLI::Option* timeout =
      command == nullptr ? nullptr : command->get_option_no_throw("--timeout");
  return timeout == nullptr ? TransportOptions().timeout_seconds : timeout->as<double>();
}

}  // namespace

void JobStart::compare(CLI::App& program) {
  const CLI::App* command = selected_command(program);
  meet(timeout_of(command), &program, command == nullptr ? "" : full_name(*command), "");
}

std::string JobStart::share_failure(const std::string& message) {
  try {
    meet(TransportOptions().timeout_seconds, nullptr, "", message);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kOption) return error.what();
  }
  return message;
}

void JobStart::compare_request(const std::string& request) {
  meet(TransportOptions().timeout_seconds, nullptr, request, "");
}

void JobStart::meet(double timeout_seconds, CLI::App* program, const std::string& command,
                    const std::string& failure) {
  if (met_ || !launched_by_mpi()) return;
  met_ = true;
  mpi_ = start_mpi(timeout_seconds);
  const auto transport = make_mpi_transport(timeout_seconds);
  const HeartbeatScope scope(*transport, {"the comparison of options"});
  RankStart start{version_line(), {{"the command", "'atoll " + command + "'"}}, failure};
  if (program != nullptr) {
    for (RankFact& fact : facts_of(*program)) start.facts.push_back(std::move(fact));
  }
  require_same_start(*transport, start);
}

namespace {

// How many nodes a dataset has; -1: that can't be told.
std::int64_t stated_nodes_of(const fs::path& dataset) {
  std::error_code error;
  const fs::path file = dataset / "row_ptr.npy";
  if (fs::is_regular_file(file, error)) return NpyFile(file).rows() - 1;
  if (!is_there(dataset / "dataset.json")) return -1;
  const Json json = read_json(dataset / "dataset.json");
  if (!is_delta(json)) return -1;
  return json_field_or<std::int64_t>(json, "nodes", dataset / "dataset.json", -1);
}

}  // namespace

void require_node_per_rank(const TransportOptions& transport, const fs::path& dataset,
                           const GroupRanks& groups) {
  const int launched = launcher_info().size;
  const int ranks = launched > 1 ? launched : transport.ranks;
  // Hosts are not known yet.
  if (ranks <= 1 || groups.by != GroupRanks::By::kNumber) return;
  const std::int64_t nodes = stated_nodes_of(dataset);
  if (nodes < 0 || ranks <= nodes * groups.number) return;
  const std::string place = launched > 1 ? fmt::format("{} processes of the launcher", launched)
                                         : fmt::format("--ranks {}", ranks);
  const std::string who =
      groups.any() ? fmt::format("every group of {} ranks", groups.number) : "every rank";
  fail_option("{}: dataset {} has {} nodes, and {} needs at least one; allowed are 1 to {}", place,
              dataset.string(), nodes, who, nodes * groups.number);
}

}  // namespace atl
