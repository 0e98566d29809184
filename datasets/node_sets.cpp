#include "datasets/node_sets.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/log.hpp"
#include "datasets/array_reader.hpp"
#include "datasets/import_session.hpp"

namespace atl {

namespace {

// Whether all elements are 0 or 1, and whether each of them occurs once at most.
struct Bits {
  bool only = true;
  bool distinct = false;
  std::int64_t largest = 0;
};

Bits bits_of(ArrayReader array) {
  Bits bits;
  std::array<std::int64_t, 2> counts{};
  each_value<std::int64_t>(array, [&](std::int64_t value, std::int64_t) {
    bits.only = bits.only && (value == 0 || value == 1);
    bits.largest = std::max(bits.largest, value);
    if (bits.only) ++counts.at(static_cast<std::size_t>(value));
  });
  bits.distinct = counts[0] <= 1 && counts[1] <= 1;
  return bits;
}

// A guess deserves a warning.
template <typename... Values>
void say(bool doubtful, fmt::format_string<Values...> text, Values&&... values) {
  const std::string line = fmt::format(text, std::forward<Values>(values)...);
  doubtful ? log::warn("{}", line) : log::info("{}", line);
}

}  // namespace

std::int64_t NodeSets::nodes_of_mask(const std::function<ArrayReader()>& open) {
  const ArrayReader array = open();
  if (array.dimensions() == 2 && array.length(0) != 1 && array.length(1) != 1) {
    return array.length(0);
  }
  if (array.kind() == 'b') return array.elements();
  const Bits bits = bits_of(open());
  return bits.only && !bits.distinct ? array.elements() : -1;
}

void NodeSets::add(const std::function<ArrayReader()>& open, std::uint8_t set, Named named) {
  ArrayReader array = open();
  const std::string& place = array.place();
  if (array.dimensions() < 1 || array.dimensions() > 2) {
    fail_input(
        "{}: {} dimensions found; allowed are a mask [nodes], masks [nodes, splits], or a "
        "list of ids",
        place, array.dimensions());
  }
  if (array.dimensions() == 2 && array.length(0) != 1 && array.length(1) != 1) {
    return add_splits(std::move(array), set);
  }
  const bool as_many_as_nodes = array.elements() == nodes_;
  if (array.kind() == 'b') {
    if (!as_many_as_nodes) {
      fail_input("{}: {} booleans found; a mask has one for each of the {} nodes", place,
                 array.elements(), nodes_);
    }
    return add_mask(std::move(array), set, "booleans", false);
  }
  const Bits bits = bits_of(open());
  const bool can_be_ids = bits.distinct && bits.largest < nodes_;
  if (!bits.only || (!as_many_as_nodes && can_be_ids)) {
    return add_ids(std::move(array), set, false);
  }
  if (!as_many_as_nodes) {
    fail_input(
        "{}: {} elements, all of them 0 or 1, found; a mask has one for each of the {} nodes, and "
        "a list of ids has each once",
        place, array.elements(), nodes_);
  }
  if (can_be_ids && named == Named::kIds) return add_ids(std::move(array), set, true);
  add_mask(std::move(array), set, "0 and 1", can_be_ids || named == Named::kIds);
}

void NodeSets::add_splits(ArrayReader array, std::uint8_t set) {
  array.require_shape({nodes_, -1});
  resize(array.length(1), array.place());
  each_value<std::int64_t>(array, [&](std::int64_t value, std::int64_t at) {
    const std::int64_t node = at / count_;
    if (value != 0 && value != 1) {
      fail_input("{}: node {} is {}; allowed are 0 and 1, or booleans", array.place(), node, value);
    }
    if (value == 1) put(node, at % count_, set, array.place());
  });
  say(false, "{}: taken for masks of {} splits", array.place(), count_);
}

void NodeSets::add_mask(ArrayReader array, std::uint8_t set, const char* what, bool doubtful) {
  resize(1, array.place());
  std::int64_t members = 0;
  each_value<std::int64_t>(array, [&](std::int64_t value, std::int64_t node) {
    if (value == 0) return;
    put(node, 0, set, array.place());
    ++members;
  });
  say(doubtful, "{}: taken for a mask ({} for each of the {} nodes), with {} node{}", array.place(),
      what, nodes_, members, members == 1 ? "" : "s");
}

void NodeSets::add_ids(ArrayReader array, std::uint8_t set, bool doubtful) {
  resize(1, array.place());
  const std::int64_t count = array.elements();
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(count));
  std::vector<bool> there(static_cast<std::size_t>(nodes_), false);
  each_value<std::int64_t>(array, [&](std::int64_t node, std::int64_t at) {
    check_node_id(node, nodes_, array.place(), at);
    if (there[static_cast<std::size_t>(node)]) {
      fail_input(
          "{}: node {} is there twice, the second time at element {}; allowed are ids of "
          "nodes, each once{}",
          array.place(), node, at,
          count == nodes_ ? ", or, as there are as many elements as nodes, a mask of 0 and 1" : "");
    }
    there[static_cast<std::size_t>(node)] = true;
    ids.push_back(node);
  });
  for (const std::int64_t node : ids) put(node, 0, set, array.place());
  say(doubtful, "{}: taken for a list of {} node id{}", array.place(), count,
      count == 1 ? "" : "s");
}

void NodeSets::hand_over(ImportSession& session) const {
  if (count_ > 0) session.splits(sets_, count_);
}

void NodeSets::resize(std::int64_t count, const std::string& place) {
  if (count_ == 0) {
    count_ = count;
    sets_.assign(static_cast<std::size_t>(count_ * nodes_), kNoSet);
  } else if (count != count_) {
    fail_input("{}: {} splits found, and {} in the sets before it", place, count, count_);
  }
}

void NodeSets::put(std::int64_t node, std::int64_t split, std::uint8_t set,
                   const std::string& place) {
  std::uint8_t& known = sets_[static_cast<std::size_t>(split * nodes_ + node)];
  if (known != kNoSet) {
    constexpr std::array kNames = {"training", "validation", "test"};
    fail_input("{}: node {} is in it and in the {} set; allowed is one set", place, node,
               kNames.at(known));
  }
  known = set;
}

}  // namespace atl
