// Every layout is sound, checked by two judges that know nothing of how it was made: one compares
// lives and places of all pairs of values, one runs the schedule on memory that remembers who wrote
// it. And none takes more than the engine before programs did.
#include "engine/program/allocate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "engine/models/model.hpp"
#include "engine/program/fuse.hpp"
#include "engine/program/operations/rules.hpp"
#include "kernels/views.hpp"

namespace atl {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();

std::size_t at(Value v) { return static_cast<std::size_t>(v); }

// --- the cases ---------------------------------------------------------------------------------

struct Orders {
  OrderChoice choice;
  bool cache;
};
constexpr Orders kOrders[] = {{OrderChoice::kAuto, true},
                              {OrderChoice::kAuto, false},
                              {OrderChoice::kMultiplyFirst, true},
                              {OrderChoice::kAggregateFirst, true},
                              {OrderChoice::kAggregateFirst, false}};

// A model on one rank.
struct Case {
  explicit Case(const ModelConfig& wanted)
      : config(wanted),
        training(model_program(config, Pass::kTraining)),
        evaluation(model_program(config, Pass::kEvaluation)),
        training_schedule(schedule(training)),
        evaluation_schedule(schedule(evaluation)) {}

  ModelConfig config;
  RankRows rows;
  Program training, evaluation;
  Schedule training_schedule, evaluation_schedule;

  std::string name() const {
    return fmt::format(
        "{} of {} layers, {} x {} x {}, norm {}, order {}, kept {}, input dropout {}; rows {} + {} "
        "forward, {} backward, {} computed",
        config.kind, config.layers, config.features, config.hidden, config.outputs,
        to_string(config.norm), static_cast<int>(config.order), config.cache_aggregate,
        config.input_dropout, rows.inner, rows.forward_halo, rows.backward_halo, rows.computed);
  }
};

struct Columns {
  std::int64_t features, hidden, outputs;
};

// Calls body(case) for all models with these columns on ranks with these rows.
template <typename Body>
void for_all_cases(const std::vector<Columns>& columns, const std::vector<RankRows>& all_rows,
                   const Body& body, const std::vector<std::string>& kinds = model_kinds()) {
  for (const std::string& kind : kinds) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      for (const Orders& orders : kOrders) {
        for (const double input_dropout : {0.0, 0.5}) {
          for (int layers = 1; layers <= 8; ++layers) {
            for (const Columns& c : columns) {
              for (const bool recomputes : {false, true}) {
                ModelConfig config;
                config.kind = kind;
                config.relations = 3;
                config.edge_features = 3;
                config.layers = layers;
                config.hidden = c.hidden;
                config.features = c.features;
                config.outputs = c.outputs;
                config.input_dropout = input_dropout;
                config.norm = norm;
                config.edge_scores = kind.starts_with("gat") && norm == Norm::kLayer;
                config.order = orders.choice;
                config.cache_aggregate = orders.cache;
                if (recomputes) {
                  if (!can_recompute(config)) continue;
                  config.recomputation = Recomputation::of_all_pairs(2);
                }
                Case model(config);
                for (const RankRows& rows : all_rows) {
                  if ((rows.computed > 0) != recomputes) continue;
                  model.rows = rows;
                  body(model);
                }
              }
            }
          }
        }
      }
    }
  }
}

// Halo rows of none to four times the inner ones, alike in both directions or not.
std::vector<RankRows> rank_rows(std::int64_t inner) {
  std::vector<RankRows> all = {{inner, 0, 0, 0},
                               {inner, inner / 2, inner / 2, 0},
                               {inner, 2 * inner, 2 * inner, 0},
                               {inner, 4 * inner, 4 * inner, 0},
                               {inner, 3 * inner, inner / 4, 0},
                               {inner, inner / 4, 3 * inner, 0},
                               {inner, 0, inner, 0},
                               {inner, 2 * inner, inner, inner / 2},
                               {inner, 2 * inner, 2 * inner, 2 * inner}};
  for (RankRows& rows : all) {
    rows.returned = rows.backward_halo;
    rows.edges = 3 * inner;
  }
  return all;
}

// --- the first judge: lives and places ----------------------------------------------------------

struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool meets(const Extent& other) const { return begin < other.end && other.begin < end; }
};

Extent extent_of(const Program& program, const Layout& layout, Value v) {
  const Place& place = layout.places[at(v)];
  return {place.offset, place.offset + place.rows() * padded_columns(program.at(v).columns)};
}

// First and last instant of every value, worked out from who reads what.
struct Life {
  int begin = -1;
  int end = -1;
  bool meets(const Life& other) const { return begin <= other.end && other.begin <= end; }
};
std::vector<Life> lives_of(const Program& program, const Schedule& schedule) {
  std::vector<Life> lives(program.operations.size());
  for (Value v = 0; v < program.size(); ++v) {
    const int written = schedule.instants[at(v)];
    const int last_call = std::max(written, schedule.computed_instants[at(v)]);
    lives[at(v)] = {written, std::max(lives[at(v)].end, last_call)};
    for (const Value read : reads_of(program.at(v))) {
      Life& life = lives[at(read)];
      life.end = std::max(life.end, last_call);
      // Every pass reads it again.
      if (program.at(read).constant && !program.at(v).constant) life.end = kForever;
    }
  }
  for (const Value output : program.outputs) lives[at(output)].end = kForever;
  return lives;
}

// Which value every value may be written over: what it is added to, or, by an operation that goes
// row by row, its first input, if nothing reads that afterwards, nor rows of neighbours meanwhile.
class Overwriting {
 public:
  Overwriting(const Program& program, const Schedule& schedule)
      : under_(program.operations.size(), kNoValue) {
    const auto readers = readers_of(program);
    for (Value v = 0; v < program.size(); ++v) {
      const Operation& op = program.at(v);
      const bool may = op.rule->may_be_in && !op.inputs.empty();
      const Value under = op.decided.added_to != kNoValue ? op.decided.added_to
                          : may                           ? op.inputs[0]
                                                          : kNoValue;
      if (under == kNoValue || program.at(under).columns != op.columns) continue;
      const int now = schedule.instants[at(v)];
      const bool is_last = std::ranges::all_of(readers[at(under)], [&](Value reader) {
        const int then = schedule.instants[at(reader)];
        const bool reads_neighbours =
            reader != v && program.at(reader).needs_messages() && then == now;
        return reader <= v && then <= now && !reads_neighbours;
      });
      if (is_last) under_[at(v)] = under;
    }
  }

  bool allows(Value later, Value earlier) const {
    while (later > earlier) later = under_[at(later)];
    return later == earlier;
  }

 private:
  std::vector<Value> under_;
};

// The first overlap in a layout; empty if there is none.
std::string overlap_in(const Program& program, const Schedule& schedule, const Layout& layout) {
  const std::vector<Life> lives = lives_of(program, schedule);
  const Overwriting overwriting(program, schedule);
  for (Value a = 0; a < program.size(); ++a) {
    if (layout.places[at(a)].is_nowhere()) continue;
    const Extent extent = extent_of(program, layout, a);
    if (extent.begin < 0 || extent.end > layout.elements) {
      return fmt::format("outside of the block: {}", to_string(program, a));
    }
    for (Value b = a + 1; b < program.size(); ++b) {
      if (layout.places[at(b)].is_nowhere() || !lives[at(a)].meets(lives[at(b)])) continue;
      if (!extent.meets(extent_of(program, layout, b)) || overwriting.allows(b, a)) continue;
      return fmt::format("in one place at instants {}..{} and {}..{}: {}; {}", lives[at(a)].begin,
                         lives[at(a)].end, lives[at(b)].begin, lives[at(b)].end,
                         to_string(program, a), to_string(program, b));
    }
  }
  return "";
}

// --- the second judge: memory that remembers ---------------------------------------------------

// Runs schedules on a block in which every row of a matrix holds who wrote it last, and notes the
// first row that a call finds written by somebody else.
class RememberingMemory {
 public:
  RememberingMemory(const RankRows& rows, std::int64_t elements)
      : rows_(rows),
        marginal_(rows.forward_halo + rows.backward_halo == 0 ? 0 : rows.inner / 2),
        owners_(static_cast<std::size_t>(elements), 0) {}

  // A pass: what it computes once, where that was not run yet, and everything else.
  void run(const Program& program, const Schedule& schedule, const Layout& layout) {
    program_ = &program;
    layout_ = &layout;
    ++pass_;
    if (pass_ == 1) run_blocks(schedule.prologue);
    const std::span<const Block> blocks = schedule.blocks;
    run_blocks(blocks.first(schedule.forward_blocks));
    // Values that an evaluation is asked for, also where it is the forward half of training.
    for (const Value value : {program.logits, program.embeddings}) {
      expect(value, {0, rows_.inner}, [] { return "after the last layer"; });
    }
    run_blocks(blocks.subspan(schedule.forward_blocks));
    for (const Value output : program.outputs) {
      expect(output, {0, rows_.inner}, [] { return "at the end"; });
    }
  }

  const std::string& fault() const { return fault_; }

 private:
  // Constants are the same in all programs and passes, in order.
  int owner(Value v) const {
    const Operation& op = program_->at(v);
    if (!op.constant) return pass_ * 10000 + v;
    return static_cast<int>(std::ranges::count_if(
               program_->operations.begin(), program_->operations.begin() + v,
               [](const Operation& before) { return before.constant && before.has_rows(); })) +
           1;
  }

  bool has_place(Value v) const { return !layout_->places[at(v)].is_nowhere(); }

  template <typename Change>
  void for_elements(Value v, RowRange range, const Change& change) {
    const std::int64_t stride = padded_columns(program_->at(v).columns);
    const auto first =
        static_cast<std::size_t>(layout_->places[at(v)].offset + range.begin * stride);
    const auto count = static_cast<std::size_t>(range.size() * stride);
    for (std::size_t i = first; i < first + count; ++i) change(owners_.at(i));
  }

  void write(Value v, RowRange range) {
    if (!has_place(v)) return;
    const int own = owner(v);
    for_elements(v, range, [&](int& element) { element = own; });
  }

  // when: words for the message, made only for a fault.
  template <typename When>
  void expect(Value v, RowRange range, const When& when) {
    if (!has_place(v) || !fault_.empty()) return;
    const int own = owner(v);
    for_elements(v, range, [&](const int& element) {
      if (element == own || !fault_.empty()) return;
      fault_ = fmt::format("pass {}: rows {}..{} of '{}' hold another value {}", pass_, range.begin,
                           range.end, to_string(*program_, v), when());
    });
  }

  RowRange range_of(Value v, Rows rows) const {
    const Place& place = layout_->places[at(v)];
    if (program_->at(v).rows_of() != RowsOf::kNodes) return {0, place.inner};
    const std::int64_t halo_end = rows_.inner + place.halo;
    if (rows == Rows::kMarginal) return {0, marginal_};
    if (rows == Rows::kCentral) return {marginal_, rows_.inner};
    if (rows == Rows::kComputed) return {place.inner + place.halo, place.rows()};
    if (rows == Rows::kPlaced) return {rows_.inner, halo_end};
    return {0, rows_.inner};
  }

  void run_blocks(std::span<const Block> blocks) {
    for (const Block& block : blocks) {
      for (const Call& call : block.calls) run(call);
      for (const Value v : block.begins) begin(v);
      for (const Value v : block.finishes) finish(v);
    }
  }

  // Halo rows may arrive as soon as messages are on their way, and until they are waited for.
  void begin(Value aggregate) {
    const Value x = program_->at(aggregate).inputs[0];
    write(x, halo_of(aggregate));
  }
  void finish(Value aggregate) {
    const Value x = program_->at(aggregate).inputs[0];
    const auto when = [&] { return fmt::format("when messages of %{} have arrived", aggregate); };
    expect(x, halo_of(aggregate), when);
    expect(x, range_of(x, Rows::kMarginal), when);
  }
  RowRange halo_of(Value aggregate) const {
    const Operation& op = program_->at(aggregate);
    const std::int64_t own = op.returns_rows() ? rows_.forward_halo : rows_.inner;
    return {own, own + rows_.received_for(op)};
  }

  // Attention reads the rows of z, and their scores, that have arrived forward, in both halves of
  // its gradient, too; its marginal rows give halo rows their scores. So do aggregates of edges,
  // without scores.
  template <typename When>
  void run_attention(const Call& call, const When& when) {
    const Operation& op = program_->at(call.value);
    const bool central = call.rows == Rows::kCentral;
    if (op.rows_of() == RowsOf::kHalo && central) return;
    const RowRange arrived{0, rows_.inner + (central ? 0 : rows_.forward_halo)};
    for (const Value read : op.inputs) {
      const Operation& from = program_->at(read);
      if (!from.has_rows() || !has_place(read)) continue;
      const bool has_halo = from.rows_of() == RowsOf::kNodes && layout_->places[at(read)].halo > 0;
      if (has_halo && read == op.fills_halo() && !central) {
        write(read, {rows_.inner, rows_.inner + rows_.forward_halo});
      }
      if (from.rows_of() == RowsOf::kHalo && central) continue;
      expect(read, has_halo ? arrived : range_of(read, call.rows), when);
    }
    if (op.has_rows()) write(call.value, range_of(call.value, call.rows));
  }

  // A copy may run at any time from its first operation to its second: so what is stored must be
  // there at both, and nobody may write where the other is fetched to.
  template <typename When>
  void run_copy(Value v, const When& when) {
    const Operation& op = program_->at(v);
    const bool finishes = op.is(rules::kFinishStore) || op.is(rules::kFinishFetch);
    const Value first = finishes ? op.inputs[0] : v;
    const Value source = program_->at(first).inputs[0];
    const bool stores = program_->at(first).is(rules::kStore);
    const RowRange rows{0, rows_.copied_by(program_->at(first))};
    if (stores) {
      expect(source, rows, when);
      if (finishes) stored_.insert(first);
    } else if (!finishes) {
      if (!stored_.contains(source)) fault_ = fmt::format("nothing is stored {}", when());
      write(v, rows);
    } else {
      expect(first, rows, when);
      write(v, rows);
    }
  }

  void run(const Call& call) {
    const Operation& op = program_->at(call.value);
    const auto when = [&] { return fmt::format("for {}", to_string(*program_, call.value)); };
    if (op.is(rules::kFetchComputed)) {
      return write(op.inputs[0], range_of(op.inputs[0], Rows::kComputed));
    }
    if (op.is(rules::kTakeComputed)) {
      expect(op.inputs[0], {0, rows_.inner + rows_.forward_halo}, when);
      return write(call.value, range_of(call.value, Rows::kComputed));
    }
    if (op.is(rules::kPlaceComputed)) {
      const Value x = op.inputs[0];
      expect(x, range_of(x, Rows::kComputed), when);
      return write(x, {rows_.inner, rows_.inner + rows_.forward_halo});
    }
    if (op.rule->reach == Reach::kBeside) return run_copy(call.value, when);
    for (const Rule* of_attention :
         {&rules::kAttend, &rules::kAttendTargets, &rules::kAttendHalo, &rules::kAttendSources,
          &rules::kAggregateEdges, &rules::kEdgesHalo, &rules::kEdgesSources,
          &rules::kEdgesTerms}) {
      if (op.is(*of_attention)) return run_attention(call, when);
    }
    // Only marginal rows have halo rows among their sources.
    if (op.is(rules::kRelationsHalo) && call.rows == Rows::kCentral) return;
    if (op.is(rules::kRelationsSources)) {
      // Rows of all inner nodes, and of what other ranks have returned.
      expect(op.inputs[1], {0, rows_.inner}, when);
      if (call.rows != Rows::kCentral) expect(op.inputs[0], halo_of(call.value), when);
      return write(call.value, range_of(call.value, call.rows));
    }
    for (const Value read : reads_of(op)) {
      if (!program_->at(read).has_rows() || !has_place(read)) continue;
      if (call.rows == Rows::kComputed) {
        const bool elsewhere = op.decided.computed_input != kNoValue && read == op.inputs[0];
        if (!elsewhere) expect(read, range_of(read, Rows::kComputed), when);
      } else if ((op.is(rules::kAggregate) || op.is(rules::kAggregateRelations)) &&
                 read == op.inputs[0]) {
        // Central rows have no neighbours that travel.
        const RowRange halo = halo_of(call.value);
        expect(read, {0, call.rows == Rows::kCentral ? rows_.inner : halo.end}, when);
      } else if (read != op.decided.computed_input) {
        expect(read, range_of(read, call.rows), when);
      }
    }
    if (op.has_rows()) write(call.value, range_of(call.value, call.rows));
  }

  RankRows rows_;
  std::int64_t marginal_;
  std::vector<int> owners_;
  std::set<Value> stored_;
  const Program* program_ = nullptr;
  const Layout* layout_ = nullptr;
  int pass_ = 0;
  std::string fault_;
};

// Two epochs, an evaluation, and an epoch more, all in one block.
std::string fault_of(const Case& model, const Layout& training, const Layout& evaluation) {
  RememberingMemory memory(model.rows, std::max(training.elements, evaluation.elements));
  memory.run(model.training, model.training_schedule, training);
  memory.run(model.training, model.training_schedule, training);
  memory.run(model.evaluation, model.evaluation_schedule, evaluation);
  memory.run(model.training, model.training_schedule, training);
  return memory.fault();
}

TEST(Allocate, NoTwoValuesThatLiveShareAPlace) {
  int cases = 0;
  for_all_cases({{24, 16, 5}, {8, 16, 40}}, rank_rows(4), [&](const Case& model) {
    if (::testing::Test::HasFailure()) return;
    const Layout training = allocate(model.training, model.training_schedule, model.rows);
    const Layout evaluation = allocate(model.evaluation, model.evaluation_schedule, model.rows);
    EXPECT_EQ(overlap_in(model.training, model.training_schedule, training), "") << model.name();
    EXPECT_EQ(overlap_in(model.evaluation, model.evaluation_schedule, evaluation), "")
        << model.name();
    EXPECT_EQ(fault_of(model, training, evaluation), "") << model.name();
    ++cases;
  });
  EXPECT_GT(cases, 5000);
}

// Stored values are away when memory is fullest, and fetched ones lie elsewhere; alone and where
// other values are computed again.
TEST(Allocate, NoTwoValuesShareAPlaceWhileTheyLiveOnADevice) {
  int cases = 0;
  int smaller = 0;
  for_all_cases({{8, 16, 8}}, {{4, 6, 2, 0}, {4, 8, 8, 4}}, [&](const Case& plain) {
    const bool skipped = plain.config.layers != 4 && plain.config.layers != 7;
    if (::testing::Test::HasFailure() || skipped) return;
    const std::int64_t before =
        allocate(plain.training, plain.training_schedule, plain.rows).elements;
    for (const Offloading& offloading : {Offloading{1}, Offloading{2}, kOffloadAll}) {
      for (const Dropping& dropping : {Dropping{}, Dropping{1, true}, Dropping{2, false}}) {
        ModelConfig config = plain.config;
        config.offloading = offloading;
        config.dropping = dropping;
        Case model(config);
        model.rows = plain.rows;
        model.rows.returned = model.rows.backward_halo;
        model.rows.edges = 3 * model.rows.inner;
        const Layout training = allocate(model.training, model.training_schedule, model.rows);
        const Layout evaluation = allocate(model.evaluation, model.evaluation_schedule, model.rows);
        EXPECT_EQ(overlap_in(model.training, model.training_schedule, training), "")
            << model.name();
        EXPECT_EQ(fault_of(model, training, evaluation), "") << model.name();
        ++cases;
        if (!dropping.any()) smaller += training.elements < before ? 1 : 0;
      }
    }
  });
  EXPECT_GT(cases, 3000);
  EXPECT_GT(smaller, 500);
}

// The judges see what is wrong: each value in turn is moved to where another one lies at a time at
// which it lives, and no such layout passes.
TEST(Allocate, ALayoutWithTwoLivingValuesInOnePlaceIsFound) {
  for (const std::string& kind : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      ModelConfig config;
      config.kind = kind;
      config.relations = 3;
      config.edge_features = 3;
      config.hidden = 16;
      config.features = 24;
      config.outputs = 5;
      config.norm = norm;
      Case model(config);
      model.rows = {4, 6, 2, 0};
      const Layout sound = allocate(model.training, model.training_schedule, model.rows);
      const Layout evaluation = allocate(model.evaluation, model.evaluation_schedule, model.rows);
      const std::vector<Life> lives = lives_of(model.training, model.training_schedule);
      const Program& program = model.training;
      const Overwriting overwriting(program, model.training_schedule);
      int broken = 0;
      for (Value a = 0; a < program.size(); ++a) {
        for (Value b = a + 1; b < program.size(); ++b) {
          const bool both = !sound.places[at(a)].is_nowhere() && !sound.places[at(b)].is_nowhere();
          if (!both || !lives[at(a)].meets(lives[at(b)]) || overwriting.allows(b, a)) continue;
          Layout layout = sound;
          layout.places[at(b)].offset = layout.places[at(a)].offset;
          const Extent moved = extent_of(program, layout, b);
          layout.elements = std::max(layout.elements, moved.end);
          EXPECT_NE(overlap_in(program, model.training_schedule, layout), "")
              << to_string(program, a) << "; " << to_string(program, b);
          ++broken;
          // At one and the same instant the second judge depends on who is last.
          const bool apart =
              lives[at(b)].begin > lives[at(a)].begin && lives[at(b)].begin < lives[at(a)].end;
          if (!apart) continue;
          EXPECT_NE(fault_of(model, layout, evaluation), "")
              << to_string(program, a) << "; " << to_string(program, b);
        }
      }
      EXPECT_GT(broken, kind == "gcn" || kind == "sage" ? 30 : 5);
    }
  }
}

// An activation of what is aggregated, too, may run before the aggregate does and still not lie in
// its input, although it is the later reader.
TEST(Allocate, NothingIsWrittenOverRowsThatNeighboursRead) {
  Builder builder(Pass::kEvaluation, 6, {}, 0);
  builder.begin_layer();
  const Value x = builder.linear(builder.input(), builder.weight("weight", builder.input(), 8));
  builder.end_layer(x);
  builder.begin_layer();
  const Value own = builder.linear(x, builder.weight("own", x, 8));
  const Value neighbours = builder.aggregate(Normalisation::kMean, own);
  const Value active = builder.activate(own, ActivationFunction::kRelu, 0);
  const Value product = builder.linear(neighbours, builder.weight("weight", neighbours, 8));
  const Value logits = builder.add(active, product);
  builder.end_layer(logits);
  Program program = builder.finish(logits, builder.input());
  fuse(program);
  const Schedule schedule = atl::schedule(program);
  for (const RankRows& rows : rank_rows(4)) {
    if (rows.computed > 0) continue;
    const Layout layout = allocate(program, schedule, rows);
    EXPECT_EQ(overlap_in(program, schedule, layout), "");
    RememberingMemory memory(rows, layout.elements);
    memory.run(program, schedule, layout);
    EXPECT_EQ(memory.fault(), "");
  }
}

// --- sizes -------------------------------------------------------------------------------------

// Elements of all values together; and the most that live at one instant, of two that share a place
// by rule the larger one.
struct Sizes {
  std::int64_t all = 0;
  std::int64_t most_at_once = 0;
};
Sizes sizes_of(const Program& program, const Schedule& schedule, const Layout& layout) {
  const std::vector<Life> lives = lives_of(program, schedule);
  const Overwriting overwriting(program, schedule);
  Sizes sizes;
  std::set<int> instants;
  std::vector<Value> placed;
  const auto elements = [&](Value v) {
    const Extent extent = extent_of(program, layout, v);
    return extent.end - extent.begin;
  };
  for (Value v = 0; v < program.size(); ++v) {
    if (layout.places[at(v)].is_nowhere()) continue;
    placed.push_back(v);
    instants.insert(lives[at(v)].begin);
    sizes.all += elements(v);
  }
  for (const int instant : instants) {
    std::vector<Value> living;
    std::ranges::copy_if(placed, std::back_inserter(living), [&](Value v) {
      return lives[at(v)].begin <= instant && instant <= lives[at(v)].end;
    });
    std::int64_t sum = 0;
    for (const Value v : living) {
      const bool is_under = std::ranges::any_of(
          living, [&](Value later) { return later != v && overwriting.allows(later, v); });
      if (!is_under) sum += elements(v);
    }
    sizes.most_at_once = std::max(sizes.most_at_once, sum);
  }
  return sizes;
}

struct FormerLayer {
  std::int64_t in = 0;
  std::int64_t out = 0;
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool constant_input = false;
  bool cache_aggregate = false;
  bool input_gradient = true;
  Norm norm = Norm::kNone;
  bool relu = true;
};

// Elements that tensors of training and evaluation took before programs: Model::plan_backward, and
// outputs and aggregates of every layer.
std::int64_t former_elements(const Case& model) {
  const std::int64_t inner = model.rows.inner;
  const std::int64_t with_halo =
      inner + std::max(model.rows.forward_halo, model.rows.backward_halo);
  const bool recomputes = model.config.recomputation.any();
  std::vector<FormerLayer> layers;
  std::int64_t columns = model.config.features;
  for (const ProgramLayer& layer : model.training.layers) {
    const bool first = layers.empty();
    const bool last = std::ssize(layers) + 1 == std::ssize(model.training.layers);
    const std::int64_t out = model.training.at(layer.output).columns;
    layers.push_back({.in = columns,
                      .out = out,
                      .order = layer.algebra.order,
                      .constant_input = first && model.config.input_dropout == 0,
                      .cache_aggregate = layer.algebra.cache_aggregate,
                      .input_gradient = !first,
                      .norm = last ? Norm::kNone : model.config.norm,
                      .relu = !last});
    columns = out;
  }
  const auto multiply_first = [](const FormerLayer& layer) {
    return layer.order == MultiplyOrder::kMultiplyFirst;
  };
  const auto gradient = [&](const FormerLayer& layer) {
    return (multiply_first(layer) ? with_halo : inner) * padded_columns(layer.out);
  };
  std::int64_t total = gradient(layers.back());
  std::int64_t product = 0;
  std::int64_t spare = 0;
  std::int64_t aggregate = 0;
  bool in_product = false;  // the gradient of the output
  for (std::size_t l = layers.size(); l-- > 0;) {
    const FormerLayer& layer = layers[l];
    if (multiply_first(layer)) product = std::max(product, with_halo * padded_columns(layer.out));
    if (!multiply_first(layer) && layer.input_gradient) {
      aggregate = std::max(aggregate, with_halo * padded_columns(layer.in));
    }
    const std::int64_t input_gradient = l > 0 ? gradient(layers[l - 1]) : 0;
    if (layer.norm != Norm::kNone) {
      total += std::max(inner * padded_columns(layer.out), input_gradient);
      in_product = false;
    } else {
      std::int64_t& to = in_product ? spare : product;
      to = std::max(to, input_gradient);
      in_product = !in_product;
    }
  }
  total += product + spare + aggregate;
  const auto input_rows = [&](const FormerLayer& layer) {
    const bool reads_halo = !multiply_first(layer) || (&layer == &layers[1] && recomputes);
    return reads_halo ? with_halo : inner;
  };
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (!multiply_first(layers[l])) total += inner * padded_columns(layers[l].in);
    total +=
        (l + 1 < layers.size() ? input_rows(layers[l + 1]) : inner) * padded_columns(layers[l].out);
  }
  if (recomputes) {
    const std::int64_t in = padded_columns(layers[0].in);
    const std::int64_t out = padded_columns(layers[0].out);
    total += model.rows.computed * (in + out);
    if (model.config.kind == "sage") total += model.rows.computed * in;
    if (layers[0].norm != Norm::kNone) total += model.rows.computed * out;
  }
  if (model.config.input_dropout > 0 || input_rows(layers[0]) > inner) {
    total += input_rows(layers[0]) * padded_columns(model.config.features);
  }
  return total;
}

TEST(Allocate, TakesLessThanAllValuesAndNotLessThanThoseOfOneInstant) {
  int cases = 0;
  int tight = 0;
  for_all_cases({{24, 16, 5}}, rank_rows(16), [&](const Case& model) {
    for (const bool evaluates : {false, true}) {
      const Program& program = evaluates ? model.evaluation : model.training;
      const Schedule& schedule = evaluates ? model.evaluation_schedule : model.training_schedule;
      const Layout layout = allocate(program, schedule, model.rows);
      const Sizes sizes = sizes_of(program, schedule, layout);
      EXPECT_LE(layout.elements, sizes.all) << model.name();
      EXPECT_GE(layout.elements, sizes.most_at_once) << model.name();
      ++cases;
      tight += layout.elements == sizes.most_at_once ? 1 : 0;
      // Values that live for ever lie in front, so that a layout of its own is never tighter.
      const Layout apart = allocate(program, schedule, model.rows, Sharing::kNone);
      EXPECT_LE(layout.elements, apart.elements) << model.name();
    }
  });
  EXPECT_GT(cases, 5000);
  RecordProperty("tight_of_1000", 1000 * tight / cases);
  EXPECT_GT(tight, cases * 8 / 10);
}

TEST(Allocate, NeverTakesMoreThanTheEngineBeforeProgramsDid) {
  std::vector<double> shares;
  const std::vector<Columns> columns = {
      {128, 256, 40}, {100, 256, 47}, {600, 64, 41}, {16, 64, 200}, {56, 56, 56}};
  for_all_cases(columns, rank_rows(10000),
                [&](const Case& model) {
                  const std::int64_t elements = std::max(
                      allocate(model.training, model.training_schedule, model.rows).elements,
                      allocate(model.evaluation, model.evaluation_schedule, model.rows).elements);
                  const std::int64_t former = former_elements(model);
                  shares.push_back(static_cast<double>(elements) / static_cast<double>(former));
                  EXPECT_LE(elements, former) << model.name();
                },
                {"gcn", "sage"});
  ASSERT_GT(shares.size(), 10000U);
  std::ranges::sort(shares);
  RecordProperty("cases", static_cast<int>(shares.size()));
  RecordProperty("least_percent", static_cast<int>(100 * shares.front()));
  RecordProperty("median_percent", static_cast<int>(100 * shares[shares.size() / 2]));
}

// Both programs find what is computed once in the same place: either may have computed it.
TEST(Allocate, KeepsConstantsInTheSamePlacesInTrainingAndEvaluation) {
  int kept = 0;
  for_all_cases({{24, 16, 5}}, rank_rows(4), [&](const Case& model) {
    const auto constants = [&](const Program& program, const Schedule& schedule) {
      const Layout layout = allocate(program, schedule, model.rows);
      const std::vector<Life> lives = lives_of(program, schedule);
      std::vector<std::string> found = {fmt::format("{} elements", layout.kept_elements)};
      for (Value v = 0; v < program.size(); ++v) {
        const Place& place = layout.places[at(v)];
        if (!program.at(v).constant || lives[at(v)].end != kForever || place.is_nowhere()) continue;
        EXPECT_LE(extent_of(program, layout, v).end, layout.kept_elements);
        found.push_back(fmt::format("{} at {}: {} + {} + {} rows of {}", program.at(v).rule->name,
                                    place.offset, place.inner, place.halo, place.computed,
                                    program.at(v).columns));
      }
      return found;
    };
    const auto training = constants(model.training, model.training_schedule);
    EXPECT_EQ(training, constants(model.evaluation, model.evaluation_schedule)) << model.name();
    kept += training.size() > 1 ? 1 : 0;
  });
  EXPECT_GT(kept, 1000);
}

}  // namespace
}  // namespace atl
