// Reads the text of a configuration file, refusing what the TOML library could not read safely.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>

#include "base/json.hpp"

namespace atl {

// Throws Error{kOption} naming the file and, where it has one, the line: not a regular file (a pipe
// would be waited for), more than 1 MiB, or keys, arrays or tables nested more than 100 deep, on
// which the library would recurse.
std::string read_config_text(const std::filesystem::path& path);
// Throws Error{kOption} naming `file`, line and column of what is no TOML.
toml::table parse_config(const std::string& text, const std::string& file);
// The same as JSON, with the entries of tables in the order of the file. Dates, times and numbers
// that are not finite are refused, too.
Json config_json(const std::string& text, const std::string& file);

}  // namespace atl
