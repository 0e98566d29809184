#include "datasets/node_list.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/numbers.hpp"
#include "datasets/array_reader.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace {

constexpr const char* kNumbers =
    "numbers and ranges of them (0,5,10-19), or a .npy or text file of numbers";
constexpr const char* kNew = "new";
constexpr std::string_view kBetween = " ,;\t\r";

// So much of a list that may have thousands of entries.
std::string beginning(const std::string& text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

class NodeList {
 public:
  NodeList(std::int64_t nodes, std::string place) : nodes_(nodes), place_(std::move(place)) {}

  void add(std::int64_t node) {
    require_node(node);
    list_.push_back(GlobalId{node});
  }
  void add_range(std::int64_t first, std::int64_t last) {
    require_node(first);
    require_node(last);
    if (last < first) {
      fail_option("{}: the range {}-{} ends before it begins; allowed are {}", place_, first, last,
                  kNumbers);
    }
    for (std::int64_t node = first; node <= last; ++node) add(node);
  }
  // One number, or a range.
  void add(std::string_view word) {
    const std::size_t dash = word.find('-', 1);
    if (dash == std::string_view::npos) return add(number(word, word));
    add_range(number(word.substr(0, dash), word), number(word.substr(dash + 1), word));
  }
  void add_words(std::string_view text, std::string_view between) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(between), text.size());
      if (end > 0) add(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  std::vector<GlobalId> take() { return std::move(list_); }

 private:
  void require_node(std::int64_t node) const {
    if (node >= 0 && node < nodes_) return;
    fail_option("{}: entry {} is {}; allowed are nodes 0 to {}", place_, list_.size(), node,
                nodes_ - 1);
  }
  std::int64_t number(std::string_view text, std::string_view word) const {
    if (const auto value = parse_number<std::int64_t>(text)) return *value;
    fail_option("{}: entry {} is '{}'; allowed are nodes 0 to {}", place_, list_.size(), word,
                nodes_ - 1);
  }

  std::int64_t nodes_;
  std::string place_;
  std::vector<GlobalId> list_;
};

void add_array(const std::filesystem::path& path, const std::string& option, NodeList& list) {
  ArrayReader array = ArrayReader::open_npy(path);
  if (array.kind() == 'b') {
    fail_option("{} {}: it holds booleans; allowed are numbers of nodes: numpy.flatnonzero(MASK)",
                option, path.string());
  }
  for (const std::int64_t node : read_integers(std::move(array))) list.add(node);
}

void add_lines(const std::filesystem::path& path, NodeList& list) {
  LineReader reader(path);
  bool is_first = true;
  for (std::string_view line; reader.next(line);) {
    if (is_comment(line)) continue;
    const bool has_digit =
        std::ranges::any_of(line, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!is_first || has_digit) list.add_words(line, kBetween);
    is_first = false;
  }
}

}  // namespace

std::vector<GlobalId> read_node_list(const std::string& text, std::int64_t nodes,
                                     const std::string& option) {
  NodeList list(nodes, option + " " + beginning(text));
  if (text.find_first_not_of("0123456789,-") == std::string::npos) {
    list.add_words(text, ",");
    return list.take();
  }
  const std::filesystem::path path = text;
  if (!is_there(path)) {
    fail_option("{} {}: no such file; allowed are {}", option, text, kNumbers);
  }
  path.extension() == ".npy" ? add_array(path, option, list) : add_lines(path, list);
  return list.take();
}

std::vector<GlobalId> read_nodes_or_new(const std::string& text, std::int64_t nodes,
                                        std::optional<std::int64_t> first_new,
                                        const std::string& option) {
  if (text != kNew) {
    std::vector<GlobalId> list = read_node_list(text, nodes, option);
    if (list.empty()) {
      fail_option("{} {}: lists no node; allowed are {}, {}", option, beginning(text), kNew,
                  kNumbers);
    }
    return list;
  }
  if (!first_new) {
    fail_option("{} {}: the model does not say how many nodes its dataset had; allowed are {}",
                option, kNew, kNumbers);
  }
  if (*first_new >= nodes) {
    fail_option(
        "{} {}: the dataset has {} nodes, and the model was trained on one of {}, so no node is "
        "new; allowed are {}",
        option, kNew, nodes, *first_new, kNumbers);
  }
  NodeList list(nodes, option);
  list.add_range(*first_new, nodes - 1);
  return list.take();
}

}  // namespace atl
