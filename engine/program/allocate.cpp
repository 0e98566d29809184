#include "engine/program/allocate.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>

#include "engine/program/operations/rules.hpp"
#include "kernels/views.hpp"

namespace atl {

namespace {

constexpr int kForever = std::numeric_limits<int>::max();
// Places start at multiples of 64 bytes, also of bf16.
constexpr std::int64_t kAlignment = 32;
std::int64_t to_alignment(std::int64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

// Values that lie in the same place.
struct Slot {
  std::int64_t elements = 0;
  int begin = kForever;  // instants, both inclusive
  int end = -1;
  std::int64_t offset = 0;

  bool meets(const Slot& other) const { return begin <= other.end && other.begin <= end; }
  std::int64_t life() const { return std::int64_t{end} - begin + 1; }
};

class Allocator {
 public:
  Allocator(const Program& program, const Schedule& schedule, const RankRows& rows, Sharing sharing)
      : program_(program),
        schedule_(schedule),
        rows_(rows),
        shares_(sharing == Sharing::kPacked),
        readers_(readers_of(program)),
        ends_(last_instants(program, schedule)),
        slot_of_(program.operations.size()) {
    layout_.places.resize(program.operations.size());
  }

  Layout run() {
    std::iota(slot_of_.begin(), slot_of_.end(), 0);
    for (Value v = 0; v < program_.size(); ++v) place_rows(v);
    for (Value v = 0; v < program_.size(); ++v) {
      const Operation& op = program_.at(v);
      if (op.decided.added_to != kNoValue) join(v, op.decided.added_to);
      if (op.is(rules::kFinishFetch)) join(v, op.inputs[0]);
      if (shares_ && lies_in_input(v)) join(v, op.inputs[0]);
    }
    align_computed_rows();
    collect_slots();
    pack();
    for (Value v = 0; v < program_.size(); ++v) {
      if (has_place(v)) place(v).offset = slot(v).offset;
    }
    place_stores();
    return std::move(layout_);
  }

 private:
  static std::size_t index(Value v) { return static_cast<std::size_t>(v); }
  int instant(Value v) const { return schedule_.instants[index(v)]; }
  Place& place(Value v) { return layout_.places[index(v)]; }
  bool has_place(Value v) const { return layout_.places[index(v)].rows() > 0; }
  Slot& slot(Value v) { return slots_[index(root_of(v))]; }

  void place_rows(Value v) {
    const Operation& op = program_.at(v);
    if (!op.has_rows() || instant(v) < 0) return;
    Place& p = place(v);
    if (op.is(rules::kTakeComputed)) {
      p.computed = rows_.computed;
      return;
    }
    const auto* copied = std::get_if<Copied>(&op.attributes);
    if (copied != nullptr && copied->with_halo) p.halo = rows_.forward_halo;
    for (const Value reader : readers_[index(v)]) {
      const Operation& by = program_.at(reader);
      if (by.needs_messages() && by.inputs[0] == v) {
        p.halo = std::max(p.halo, rows_.halo_for(by));
      }
      // Scores of halo rows are computed from what arrives.
      if (by.fills_halo() == v) {
        p.halo = std::max(p.halo, rows_.forward_halo);
      }
      if (by.decided.for_placed) p.halo = std::max(p.halo, rows_.forward_halo);
    }
    // Without halo rows the features are as good as their copy.
    if (op.is(rules::kCopy) && p.halo == 0) return;
    p.inner = rows_.own(op.rows_of());
    if (op.decided.for_computed) p.computed = rows_.computed;
  }

  void place_stores() {
    layout_.host_offsets.assign(program_.operations.size(), -1);
    for (Value v = 0; v < program_.size(); ++v) {
      const Operation& op = program_.at(v);
      if (!op.is(rules::kStore)) continue;
      layout_.host_offsets[index(v)] = layout_.host_elements;
      layout_.host_elements +=
          to_alignment(rows_.copied_by(op) * program_.row_elements(program_.at(op.inputs[0])));
    }
  }

  Value root_of(Value v) const {
    while (slot_of_[index(v)] != v) v = slot_of_[index(v)];
    return v;
  }
  void join(Value v, Value to) { slot_of_[index(root_of(v))] = root_of(to); }

  // Values in the same place have their computed rows in the same place, too.
  void align_computed_rows() {
    std::vector<std::int64_t> halo(program_.operations.size(), 0);
    for (Value v = 0; v < program_.size(); ++v) {
      std::int64_t& most = halo[index(root_of(v))];
      most = std::max(most, place(v).halo);
    }
    for (Value v = 0; v < program_.size(); ++v) {
      if (place(v).computed > 0) place(v).halo = halo[index(root_of(v))];
    }
  }

  // True if v may be written over its first input: nothing reads that later, be it an operation
  // that stands before v in the program, nor rows of neighbours at the same instant.
  bool lies_in_input(Value v) const {
    const Operation& op = program_.at(v);
    if (!op.rule->may_be_in || !op.has_rows() || op.constant) return false;
    const Value input = op.inputs[0];
    const Operation& from = program_.at(input);
    if (instant(input) < 0 || from.constant || ends_[index(input)] == kForever ||
        from.columns != op.columns || from.wide != op.wide || from.packed != op.packed ||
        !has_place(input) || from.is(rules::kCopy)) {
      return false;
    }
    return std::ranges::all_of(readers_[index(input)], [&](Value reader) {
      if (reader > v || instant(reader) > instant(v)) return false;
      return instant(reader) < instant(v) || !program_.at(reader).needs_messages();
    });
  }

  // A value of constants alone that is read in every pass.
  bool is_kept(Value v) const { return program_.at(v).constant && ends_[index(v)] == kForever; }

  void collect_slots() {
    slots_.resize(program_.operations.size());
    for (Value v = 0; v < program_.size(); ++v) {
      if (!has_place(v)) continue;
      const Place& p = place(v);
      Slot& slot = this->slot(v);
      const std::int64_t elements = p.elements(program_, v);
      slot.elements = std::max(slot.elements, to_alignment(elements));
      slot.begin = std::min(slot.begin, instant(v));
      slot.end = std::max(slot.end, instant(v));
      slot.end = std::max(slot.end, ends_[index(v)]);
      if (!shares_) slot.begin = 0, slot.end = kForever;
    }
    for (const Value v : schedule_.lasting) slot(v).begin = 0, slot(v).end = kForever;
    // Constants come first, so that all programs of a model have them in the same places.
    for (Value v = 0; v < program_.size(); ++v) {
      if (!is_kept(v) || !has_place(v)) continue;
      slot(v).offset = layout_.kept_elements;
      layout_.kept_elements += slot(v).elements;
    }
    for (Value v = 0; v < program_.size(); ++v) {
      // A stage may hold a sum without the term that it was added to (stages.hpp).
      if (root_of(v) == v && slots_[index(v)].elements > 0 && !is_kept(v)) order_.push_back(v);
    }
  }

  // First fit in the given order behind the constants; returns the end of the block.
  std::int64_t fit(const std::vector<Value>& order) {
    std::int64_t end = layout_.kept_elements;
    std::vector<const Slot*> placed;  // by offset
    for (const Value v : order) {
      Slot& slot = slots_[index(v)];
      slot.offset = layout_.kept_elements;
      for (const Slot* other : placed) {
        if (!slot.meets(*other)) continue;
        if (slot.offset + slot.elements <= other->offset) break;
        slot.offset = std::max(slot.offset, other->offset + other->elements);
      }
      const auto after = std::ranges::upper_bound(placed, slot.offset, {}, &Slot::offset);
      placed.insert(after, &slot);
      end = std::max(end, slot.offset + slot.elements);
    }
    return end;
  }

  // No layout can be smaller.
  std::int64_t largest_sum() const {
    std::int64_t largest = 0;
    for (const Value at : order_) {
      const int now = slots_[index(at)].begin;
      std::int64_t sum = 0;
      for (const Value v : order_) {
        const Slot& slot = slots_[index(v)];
        if (slot.begin <= now && now <= slot.end) sum += slot.elements;
      }
      largest = std::max(largest, sum);
    }
    return largest + layout_.kept_elements;
  }

  void pack() {
    const auto by = [&](const auto& key) {
      std::vector<Value> order = order_;
      std::ranges::stable_sort(order, {}, [&](Value v) { return key(slots_[index(v)]); });
      return order;
    };
    const std::array orders = {
        by([](const Slot& s) { return std::tuple(-s.elements, std::int64_t{0}); }),
        by([](const Slot& s) { return std::tuple(-s.elements * s.life(), std::int64_t{0}); }),
        by([](const Slot& s) { return std::tuple(-s.life(), -s.elements); }),
        by([](const Slot& s) { return std::tuple(std::int64_t{s.begin}, std::int64_t{0}); }),
        by([](const Slot& s) { return std::tuple(std::int64_t{-s.end}, std::int64_t{0}); }),
        by([](const Slot& s) { return std::tuple(std::int64_t{s.begin}, -s.elements); })};
    std::vector<Value> best;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& order : orders) {
      if (const std::int64_t end = fit(order); end < least) {
        least = end;
        best = order;
      }
    }
    constexpr int kMostSwaps = 100;
    const std::int64_t bound = largest_sum();
    for (int swap = 0; swap < kMostSwaps && least > bound && best.size() > 1; ++swap) {
      std::vector<Value> order = best;
      const std::size_t at = static_cast<std::size_t>(swap) % (order.size() - 1);
      std::swap(order[at], order[at + 1]);
      if (const std::int64_t end = fit(order); end < least) {
        least = end;
        best = std::move(order);
      }
    }
    layout_.elements = best.empty() ? layout_.kept_elements : fit(best);
  }

  const Program& program_;
  const Schedule& schedule_;
  RankRows rows_;
  bool shares_;
  std::vector<std::vector<Value>> readers_;
  std::vector<int> ends_;
  std::vector<Value> slot_of_;  // by value: another one in the same slot, or itself
  std::vector<Slot> slots_;     // by root
  std::vector<Value> order_;    // roots that are packed
  Layout layout_;
};

}  // namespace

std::vector<int> last_instants(const Program& program, const Schedule& schedule) {
  std::vector<int> ends = schedule.instants;
  for (Value v = 0; v < program.size(); ++v) {
    const int now = std::max(schedule.instants[static_cast<std::size_t>(v)],
                             schedule.computed_instants[static_cast<std::size_t>(v)]);
    ends[static_cast<std::size_t>(v)] = std::max(ends[static_cast<std::size_t>(v)], now);
    for (const Value read : reads_of(program.at(v))) {
      int& end = ends[static_cast<std::size_t>(read)];
      end = program.at(read).constant && !program.at(v).constant ? kForever : std::max(end, now);
    }
  }
  for (const auto* values : {&program.outputs, &schedule.lasting}) {
    for (const Value value : *values) ends[static_cast<std::size_t>(value)] = kForever;
  }
  return ends;
}

Layout allocate(const Program& program, const Schedule& schedule, const RankRows& rows,
                Sharing sharing) {
  return Allocator(program, schedule, rows, sharing).run();
}

}  // namespace atl
