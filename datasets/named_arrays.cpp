#include "datasets/named_arrays.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The table that text may hold; nothing of arrays of edges and of what is only read as arrays.
std::optional<TableKind> table_kind(const std::string& name) {
  static const std::map<std::string, TableKind> kKinds = {
      {"features", TableKind::kFeatures}, {"x", TableKind::kFeatures},
      {"labels", TableKind::kLabels},     {"y", TableKind::kLabels},
      {"node_types", TableKind::kTypes},  {"node_type", TableKind::kTypes},
      {"train_mask", TableKind::kMasks},  {"val_mask", TableKind::kMasks},
      {"valid_mask", TableKind::kMasks},  {"test_mask", TableKind::kMasks},
      {"train_idx", TableKind::kIds},     {"val_idx", TableKind::kIds},
      {"valid_idx", TableKind::kIds},     {"test_idx", TableKind::kIds},
      {"split", TableKind::kSplit}};
  const auto at = kKinds.find(name);
  if (at == kKinds.end()) return {};
  return at->second;
}

// The name without what says that it is text; empty if nothing does.
std::string stem_of_text(const std::string& file) {
  for (const std::string_view ending : kTextEndings) {
    if (file.ends_with(ending)) return file.substr(0, file.size() - ending.size());
  }
  return "";
}

}  // namespace

NamedArrays::NamedArrays(fs::path source, const fs::path& scratch, TableColumns columns)
    : source_(std::move(source)), columns_(std::move(columns)) {
  std::error_code error;
  if (fs::is_directory(source_, error)) return;
  archive_ = std::make_shared<const NpzArchive>(source_, scratch);
}

std::string NamedArrays::place(const std::string& name) const {
  return archive_ ? fmt::format("{}[{}]", source_.string(), name)
                  : (source_ / (name + ".npy")).string();
}

bool NamedArrays::has(const std::string& name) const {
  return archive_ ? archive_->has(name) : is_there(source_ / (name + ".npy"));
}

std::optional<NamedArrays::Found> NamedArrays::locate(const std::vector<std::string>& names) {
  known_.insert(names.begin(), names.end());
  std::vector<Found> found;
  for (const std::string& name : names) {
    if (has(name)) found.push_back({name, {}});
    if (archive_) continue;
    for (const char* ending : kTextEndings) {
      const fs::path text = source_ / (name + ending);
      if (table_kind(name) && is_there(text)) found.push_back({name, text});
    }
  }
  if (found.empty()) return {};
  const auto file = [&](const Found& one) {
    if (archive_) return one.name;
    return one.text.empty() ? one.name + ".npy" : one.text.filename().string();
  };
  if (found.size() > 1) {
    fail_input("{}: {} and {} are there; keep one", source_.string(), file(found[0]),
               file(found[1]));
  }
  read_.insert(file(found.front()));
  return found.front();
}

const std::shared_ptr<const TextTable>& NamedArrays::table_of(const Found& found) {
  std::shared_ptr<const TextTable>& table = tables_[found.name];
  if (!table) {
    table = std::make_shared<const TextTable>(found.text, *table_kind(found.name), columns_);
  }
  return table;
}

NamedArrays::Opener NamedArrays::find(const std::vector<std::string>& names) {
  const std::optional<Found> found = locate(names);
  if (!found) return {};
  if (archive_) return [archive = archive_, name = found->name] { return archive->open(name); };
  if (!found->text.empty()) {
    return [table = table_of(*found), numbering = numbering_] {
      return table->open(numbering->ids.get(), numbering->nodes);
    };
  }
  const fs::path path = source_ / (found->name + ".npy");
  return [path] { return ArrayReader::open_npy(path); };
}

const TextTable* NamedArrays::find_table(const std::vector<std::string>& names) {
  const std::optional<Found> found = locate(names);
  return found && !found->text.empty() ? table_of(*found).get() : nullptr;
}

std::vector<const TextTable*> NamedArrays::tables() {
  std::vector<const TextTable*> found;
  if (archive_) return found;
  for (const auto& entry : fs::directory_iterator(source_)) {
    const std::string stem = stem_of_text(entry.path().filename().string());
    if (!table_kind(stem)) continue;
    if (const TextTable* table = find_table({stem})) found.push_back(table);
  }
  return found;
}

void NamedArrays::set_nodes(std::int64_t nodes, std::shared_ptr<const NodeIds> ids) {
  *numbering_ = {nodes, std::move(ids)};
}

std::vector<std::string> NamedArrays::all() const {
  if (archive_) return archive_->members();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_)) {
    const std::string name = entry.path().filename().string();
    std::error_code error;
    if (entry.is_regular_file(error) && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void NamedArrays::warn_of_others() const {
  std::vector<std::string> others = all();
  const auto& known = archive_ ? known_ : read_;
  std::erase_if(others, [&](const std::string& name) { return known.contains(name); });
  if (others.empty()) return;
  log::warn("{}: not read: {}; arrays that are read are called {}", source_.string(),
            fmt::join(others, ", "), fmt::join(known_, ", "));
}

void NamedArrays::require_columns_read() const {
  if (!columns_.id.empty() && tables_.empty()) {
    fail_option("--id-column {}: {} has no text of nodes, such as labels.csv", columns_.id,
                source_.string());
  }
  const bool labels = std::ranges::any_of(
      tables_, [](const auto& table) { return table_kind(table.first) == TableKind::kLabels; });
  if (!columns_.label.empty() && !labels) {
    fail_option("--label-column {}: {} has no text of labels, such as labels.csv", columns_.label,
                source_.string());
  }
}

}  // namespace atl
