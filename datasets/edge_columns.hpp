// The meaning of the columns of a text of edges: by their names in the first line, by the options
// of the import, or by their order. Internal to datasets/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "datasets/import.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

enum class EdgeColumn : std::uint8_t {
  kSource,
  kTarget,
  kWeight,
  kRelation,
  kAttributes,  // {'weight': 0.5}, as NetworkX writes it, to the end of the line
  kIgnored
};

// The values that NetworkX's attributes are read for.
enum class Attributes : std::uint8_t { kNothing, kNoWeight, kWeight };

struct EdgeLines {
  std::vector<EdgeColumn> columns;
  bool header = false;  // the first line that is no comment names the columns
  Separator separator = Separator::kBlankOrComma;
  Attributes attributes = Attributes::kNothing;

  bool has(EdgeColumn column) const;
  bool weighted() const { return has(EdgeColumn::kWeight) || attributes == Attributes::kWeight; }
};

// Looks at the first thousand lines. Throws Error{kInput} or, where an option names a column that
// there isn't, Error{kOption}; also where it can't be told what a column says.
EdgeLines find_edge_columns(const std::filesystem::path& path, const ImportOptions& options);

// Past the attributes of an edge, to their weight; 1 if they have none. Throws Error{kInput} if
// they have none and `attributes` say so, or the reverse.
float weight_of_attributes(FieldReader& fields, Attributes attributes);

}  // namespace atl
