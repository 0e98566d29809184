// Training, validation and test nodes out of arrays as people have them: masks, or lists of ids.
// Internal to datasets/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace atl {

class ArrayReader;
class ImportSession;

inline constexpr std::uint8_t kNoSet = 255;

// Splits [count, nodes] that sets of nodes are added to, one set after the other.
class NodeSets {
 public:
  enum class Named { kMask, kIds };  // what the array's name says that it is

  explicit NodeSets(std::int64_t nodes) : nodes_(nodes) {}

  // The nodes of `set` (0 train, 1 valid, 2 test). The array tells what it is, and the log says
  // what it was taken for:
  //   [nodes, splits]                  masks of booleans, or of 0 and 1
  //   booleans [nodes]                 a mask
  //   0 and 1 [nodes]                  a mask: as a list of ids it would have some twice. With one
  //                                    or two nodes it may be either, and its name decides
  //   integers of any other kind       ids, each once
  // [n, 1] and [1, n] are the same as [n]. `open` opens it as often as it is called. Throws
  // Error{kInput}.
  void add(const std::function<ArrayReader()>& open, std::uint8_t set, Named named);

  // The number of nodes, if the array is sure to be a mask; else -1.
  static std::int64_t nodes_of_mask(const std::function<ArrayReader()>& open);

  void hand_over(ImportSession& session) const;

 private:
  void add_splits(ArrayReader array, std::uint8_t set);
  void add_mask(ArrayReader array, std::uint8_t set, const char* what, bool doubtful);
  void add_ids(ArrayReader array, std::uint8_t set, bool doubtful);
  void resize(std::int64_t count, const std::string& place);
  void put(std::int64_t node, std::int64_t split, std::uint8_t set, const std::string& place);

  std::int64_t nodes_;
  std::int64_t count_ = 0;
  std::vector<std::uint8_t> sets_;
};

}  // namespace atl
