// Files of one JSON object per line, such as metrics.jsonl, which grow while a run goes on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

struct JsonLine {
  Json object;
  std::string place;  // "file:line", for messages about its fields
};

struct JsonLines {
  std::vector<JsonLine> lines;
  // "file:line" of a last line that ends without a newline and is no JSON object, which a writer
  // that was killed, or is still at it, leaves; empty if there is none.
  std::string cut_off;
};

// Throws Error{kInput} naming file and line of any other line that is damaged or no object.
JsonLines read_json_lines(const std::filesystem::path& path);

}  // namespace atl
