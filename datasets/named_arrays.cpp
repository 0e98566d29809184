#include "datasets/named_arrays.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"

namespace atl {

namespace fs = std::filesystem;

NamedArrays::NamedArrays(fs::path source, const fs::path& scratch) : source_(std::move(source)) {
  std::error_code error;
  if (fs::is_directory(source_, error)) return;
  archive_ = std::make_shared<const NpzArchive>(source_, scratch);
}

bool NamedArrays::has(const std::string& name) const {
  return archive_ ? archive_->has(name) : is_there(source_ / (name + ".npy"));
}

std::string NamedArrays::place(const std::string& name) const {
  return archive_ ? fmt::format("{}[{}]", source_.string(), name)
                  : (source_ / (name + ".npy")).string();
}

NamedArrays::Opener NamedArrays::find(const std::vector<std::string>& names) {
  known_.insert(names.begin(), names.end());
  std::string found;
  for (const std::string& name : names) {
    if (!has(name)) continue;
    if (!found.empty()) {
      const char* suffix = archive_ ? "" : ".npy";
      fail_input("{}: {}{} and {}{} are there; keep one", source_.string(), found, suffix, name,
                 suffix);
    }
    found = name;
  }
  if (found.empty()) return {};
  if (archive_) return [archive = archive_, found] { return archive->open(found); };
  return [path = source_ / (found + ".npy")] { return ArrayReader::open_npy(path); };
}

std::vector<std::string> NamedArrays::all() const {
  if (archive_) return archive_->members();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_)) {
    if (entry.path().extension() == ".npy") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

void NamedArrays::warn_of_others() const {
  std::vector<std::string> others = all();
  std::erase_if(others, [&](const std::string& name) { return known_.contains(name); });
  if (others.empty()) return;
  log::warn("{}: not read: {}; arrays that are read are called {}", source_.string(),
            fmt::join(others, ", "), fmt::join(known_, ", "));
}

}  // namespace atl
