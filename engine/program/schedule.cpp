#include "engine/program/schedule.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

Reach reach_of(const Operation& op) { return op.rule->reach; }

class Scheduler {
 public:
  Scheduler(const Program& program, int marginal_groups)
      : program_(program), marginal_groups_(marginal_groups) {
    ATOLL_ASSERT(marginal_groups >= 1, "{} groups of marginal rows", marginal_groups);
    schedule_.instants.assign(program.operations.size(), -1);
    schedule_.computed_instants.assign(program.operations.size(), -1);
  }

  Schedule run() {
    add_scopes(schedule_.prologue, /*constant=*/true);
    add_scopes(schedule_.blocks, /*constant=*/false);
    const auto loss = std::ranges::find_if(schedule_.blocks, [&](const Block& block) {
      return program_.scopes[static_cast<std::size_t>(block.scope)].kind == Scope::Kind::kLoss;
    });
    schedule_.forward_blocks = static_cast<std::size_t>(loss - schedule_.blocks.begin());
    return std::move(schedule_);
  }

 private:
  void add_scopes(std::vector<Block>& blocks, bool constant) {
    blocks_ = &blocks;
    for (Value v = 0; v < program_.size(); ++v) {
      const Operation& op = program_.at(v);
      if (op.rule->is_leaf || op.constant != constant) continue;
      const bool needs_others = op.needs_messages() && depends_on_messages(v);
      if (op.scope != scope_) {
        end_scope();
        scope_ = op.scope;
      } else if (reach_of(op) == Reach::kWhole || reach_of(op) == Reach::kBeside || needs_others) {
        end_segment();
      }
      segment_.push_back(v);
      if (reach_of(op) == Reach::kRanks || reach_of(op) == Reach::kBeside) end_segment();
    }
    end_scope();
  }

  void end_scope() {
    end_segment();
    if (computed_.empty()) return;
    Block& block = blocks_->emplace_back(Block{"recompute", scope_, {}, {}, {}});
    for (const Value v : computed_) {
      block.calls.push_back({v, Rows::kComputed});
      schedule_.computed_instants[static_cast<std::size_t>(v)] = now_;
      if (program_.at(v).is(rules::kPlaceComputed)) set_instant(v, now_);
    }
    ++now_;
    computed_.clear();
  }

  // True if v reads an aggregate of this segment, or what does.
  bool depends_on_messages(Value v) const {
    return any_read(program_.at(v), [&](Value read) {
      return std::ranges::find(segment_, read) != segment_.end() &&
             (program_.at(read).needs_messages() || depends_on_messages(read));
    });
  }

  void end_segment() {
    if (segment_.empty()) return;
    const bool aggregates =
        std::ranges::any_of(segment_, [&](Value v) { return program_.at(v).needs_messages(); });
    if (aggregates) {
      add_around_messages();
    } else {
      for (const Value v : segment_) add_whole(v);
    }
    segment_.clear();
  }

  Block& block(const char* name) {
    const int scope = program_.at(segment_.front()).scope;
    return blocks_->emplace_back(Block{name, scope, {}, {}, {}});
  }

  static bool same(const char* a, const char* b) {
    return a != nullptr && b != nullptr && std::string_view(a) == b;
  }

  // Adds calls behind those of the last block. What the ranks of a part do together has blocks, and
  // spans, of its own.
  void add_calls(const char* name, const std::vector<Value>& values, Rows rows) {
    for (const Value v : values) {
      const bool of_group = reach_of(program_.at(v)) == Reach::kGroup;
      const char* const span = of_group ? program_.at(v).rule->span : name;
      if (span != blocks_->back().name && !same(blocks_->back().name, span)) block(span);
      blocks_->back().calls.push_back({v, rows});
    }
  }

  void add_call(const char* span, Call call) {
    const int scope = program_.at(call.value).scope;
    const bool joins = !blocks_->empty() && blocks_->back().scope == scope &&
                       same(blocks_->back().name, span) && blocks_->back().finishes.empty() &&
                       blocks_->back().begins.empty() && starts_ != blocks_->size();
    (joins ? blocks_->back() : block(span)).calls.push_back(call);
  }

  void add_whole(Value v) {
    if (v == segment_.front()) starts_ = blocks_->size();
    const Operation& op = program_.at(v);
    if (op.is(rules::kPlaceComputed) || op.decided.for_computed) computed_.push_back(v);
    if (op.is(rules::kPlaceComputed)) return;
    add_call(span_of(program_, v), {v, Rows::kAll});
    set_instant(v, now_++);
  }

  void set_instant(Value v, int instant) {
    schedule_.instants[static_cast<std::size_t>(v)] = instant;
  }

  // By value: whether marginal rows of one of `before` must be there when messages set out: their
  // rows follow from it, or it reads what is written over on the way to them.
  std::vector<bool> needed_by_messages(const std::vector<Value>& before,
                                       const std::vector<Value>& aggregates) const {
    std::vector<bool> needed(program_.operations.size(), false);
    for (const Value aggregate : aggregates) {
      needed[static_cast<std::size_t>(program_.at(aggregate).inputs[0])] = true;
    }
    std::vector<bool> overwritten(program_.operations.size(), false);
    for (auto v = before.rbegin(); v != before.rend(); ++v) {
      const Operation& op = program_.at(*v);
      const bool reads_overwritten =
          any_read(op, [&](Value read) { return overwritten[static_cast<std::size_t>(read)]; });
      if (reads_overwritten) needed[static_cast<std::size_t>(*v)] = true;
      if (!needed[static_cast<std::size_t>(*v)]) continue;
      for_each_read(op, [&](Value read) { needed[static_cast<std::size_t>(read)] = true; });
      if (op.decided.added_to != kNoValue)
        overwritten[static_cast<std::size_t>(op.decided.added_to)] = true;
      if (op.rule->may_be_in) overwritten[static_cast<std::size_t>(op.inputs[0])] = true;
    }
    return needed;
  }

  void add_around_messages() {
    whole_.clear();
    read_whole_.clear();
    std::vector<Value> before;
    std::vector<Value> after;
    std::vector<Value> aggregates;
    std::vector<Value> small;
    for (const Value v : segment_) {
      const bool aggregate = program_.at(v).needs_messages();
      const bool waits = aggregate || depends_on_messages(v);
      const Reach reach = reach_of(program_.at(v));
      ATOLL_ASSERT(reach != Reach::kWhole && reach != Reach::kRanks, "{}", to_string(program_, v));
      set_instant(v, waits ? now_ + 1 : now_);
      (aggregate                                   ? aggregates
       : reach_of(program_.at(v)) == Reach::kSmall ? small
       : waits                                     ? after
                                                   : before)
          .push_back(v);
    }
    now_ += 2;
    const auto add = [&](const char* name, const std::vector<Value>& values, Rows rows) -> Block& {
      block(name);
      add_calls(name, values, rows);
      return blocks_->back();
    };
    if (!small.empty()) add(nullptr, small, Rows::kAll);
    const std::vector<bool> sets_out = needed_by_messages(before, aggregates);
    std::vector<Value> first;
    std::vector<Value> rest;
    for (const Value v : before)
      (sets_out[static_cast<std::size_t>(v)] ? first : rest).push_back(v);
    add("prepare marginal", first, Rows::kMarginal).begins = aggregates;
    // Sums go on from marginal to central rows.
    add("prepare central", rest, Rows::kMarginal);
    add_calls("prepare central", before, Rows::kCentral);
    for (const Value v : before) {
      // Where the second half of a layer is computed for placed rows, messages are on their way.
      if (program_.at(v).decided.for_placed) blocks_->back().calls.push_back({v, Rows::kPlaced});
    }
    add("spmm central", aggregates, Rows::kCentral);
    Block* before_next = &add("complete central", after, Rows::kCentral);
    const auto [grouped, whole] = by_groups(aggregates);
    const auto [grouped_after, whole_after] = by_groups(after);
    const int groups = grouped.empty() ? 0 : marginal_groups_;
    for (int group = 0; group < groups; ++group) {
      before_next->finishes = aggregates;
      before_next->finished_group = group + 1 < groups ? group : -1;
      add("spmm marginal", grouped, Rows::marginal_group(group));
      before_next = &add("complete marginal", grouped_after, Rows::marginal_group(group));
    }
    if (groups == 0) before_next->finishes = aggregates;
    if (groups > 0 && whole.empty() && whole_after.empty()) return;
    add("spmm marginal", whole, Rows::kMarginal);
    add("complete marginal", whole_after, Rows::kMarginal);
  }

  // Those that may run group by group, and the rest: what adds to sums, is a product or fills halo
  // rows, what depends on that, and what would write over a value before that has read it.
  std::pair<std::vector<Value>, std::vector<Value>> by_groups(const std::vector<Value>& values) {
    std::pair<std::vector<Value>, std::vector<Value>> both;
    if (marginal_groups_ == 1) return {{}, values};
    for (const Value v : values) {
      const Operation& op = program_.at(v);
      // Halo rows are made all at once.
      const bool whole = reach_of(op) == Reach::kSum || op.rule->sums || op.rule->is_product ||
                         op.rule->part == Part::kHalo || op.fills_halo() != kNoValue;
      const bool overwrites = op.rule->may_be_in && read_whole_.contains(op.inputs[0]);
      const bool adds =
          op.decided.added_to != kNoValue && read_whole_.contains(op.decided.added_to);
      const bool waits = whole || overwrites || adds ||
                         any_read(op, [&](Value read) { return whole_.contains(read); });
      if (waits) {
        whole_.insert(v);
        for_each_read(op, [&](Value read) { read_whole_.insert(read); });
      }
      (waits ? both.second : both.first).push_back(v);
    }
    return both;
  }

  const Program& program_;
  int marginal_groups_;
  std::set<Value> whole_;       // of this segment: not run group by group
  std::set<Value> read_whole_;  // read by these
  Schedule schedule_;
  std::vector<Block>* blocks_ = nullptr;
  std::vector<Value> segment_;
  std::vector<Value> computed_;  // of this scope, with computed rows
  int scope_ = -1;
  std::size_t starts_ = 0;  // the block that the segment starts with
  int now_ = 0;
};

}  // namespace

const char* span_of(const Program& program, Value v) {
  const Scope& scope = program.scope_of(v);
  const char* const own = program.at(v).rule->span;
  if (own != nullptr) return *own == '\0' ? nullptr : own;
  if (scope.kind == Scope::Kind::kHead) return "head";
  if (scope.kind == Scope::Kind::kInput) {
    // Dropout of the features is all that many models do before their first layer.
    const bool is_dropout = program.at(v).tail.activation.stream == RandomStream::kInputDropout;
    return is_dropout ? "input dropout" : "input layer";
  }
  return scope.direction == Direction::kForward ? "complete central" : "prepare central";
}

Schedule schedule(const Program& program, int marginal_groups) {
  return Scheduler(program, marginal_groups).run();
}

}  // namespace atl
