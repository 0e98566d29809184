// Tests of the table of training options: what runs have recorded of them.
#include "engine/training/option_table.hpp"

#include <gmock/gmock.h>

#include <set>

#include "engine/models/convolutions.hpp"
#include "engine/models/model_options.hpp"

namespace atl {
namespace {

std::string recorded(const TrainOptions& options) {
  DatasetInfo dataset;
  dataset.checksum = "f0";
  return fingerprint(options, dataset).dump();
}

ModelConfig small_sage() {
  ModelConfig model;
  model.kind = "sage";
  model.layers = 2;
  model.hidden = 16;
  return model;
}

TEST(OptionTable, SaysOfEachOptionOfMessagesWhetherItCounts) {
  const TrainOptions options;
  for (const auto& row : train_options()) {
    if (is_of_exchange(row)) EXPECT_TRUE(row.recorded) << row.name;
  }
  EXPECT_EQ(exchange_json(options), Json({{"exchange", kExactMode}}));
}

// As checkpoints of version 0.1 and of every version since have them.
TEST(Fingerprint, OfARunWithDefaultsStaysToTheByte) {
  EXPECT_EQ(recorded(TrainOptions()),
            R"({"dataset_checksum":"f0","model":"gcn","layers":3,"hidden":256,"dropout":0.5,)"
            R"("input-dropout":0.0,"norm":"none","lr":0.01,"weight-decay":0.0,)"
            R"("weight-decay-layers":"all","lr-schedule":"constant","seed":1,"split-index":0,)"
            R"("dtype":"f32","tf32":false,"exchange":"exact"})");
}

TEST(Fingerprint, HoldsWhatAScheduleAndMessagesDependOn) {
  TrainOptions options;
  options.model = small_sage();
  options.model.input_dropout = 0.1;
  options.model.norm = Norm::kBatch;
  options.model.dtype = DType::kBf16;
  options.optimizer.schedule = LearningRateSchedule::kStep;
  options.optimizer.step_epochs = 2;
  options.optimizer.step_factor = 0.7;
  options.optimizer.weight_decay = 5e-4;
  options.optimizer.decay_first_layer_only = true;
  options.exchange = "quantized";
  options.message_bits.bits = parse_bits("adaptive");
  options.message_bits.lambda = 0.3;
  options.message_bits.reassign_every = 2;
  options.message_bits.sensitivity = Sensitivity::kUpperBound;
  EXPECT_EQ(recorded(options),
            R"({"dataset_checksum":"f0","model":"sage","layers":2,"hidden":16,"dropout":0.5,)"
            R"("input-dropout":0.1,"norm":"batch","lr":0.01,"weight-decay":0.0005,)"
            R"("weight-decay-layers":"first","lr-schedule":"step","seed":1,"split-index":0,)"
            R"("dtype":"bf16","tf32":false,"exchange":"quantized","bits":"adaptive",)"
            R"("reassign-every":2,"lambda":0.3,"sensitivity":"upper-bound","lr-step-epochs":2,)"
            R"("lr-step-factor":0.7})");

  TrainOptions cosine;
  cosine.optimizer.schedule = LearningRateSchedule::kCosine;
  cosine.optimizer.epochs = 3;
  cosine.exchange = "quantized";
  cosine.message_bits.bits = parse_bits("random");
  cosine.seed = 18446744073709551615U;
  EXPECT_EQ(recorded(cosine),
            R"({"dataset_checksum":"f0","model":"gcn","layers":3,"hidden":256,"dropout":0.5,)"
            R"("input-dropout":0.0,"norm":"none","lr":0.01,"weight-decay":0.0,)"
            R"("weight-decay-layers":"all","lr-schedule":"cosine","seed":18446744073709551615,)"
            R"("split-index":0,"dtype":"f32","tf32":false,"exchange":"quantized",)"
            R"("bits":"random","reassign-every":10,"epochs":3})");
}

TEST(Fingerprint, HoldsOptionsOfTheOptimizerWhereTheyDiffer) {
  TrainOptions options;
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.optimizer.warmup_epochs = 10;
  options.optimizer.clip_norm = 1;
  options.optimizer.parameter_groups = "layers.*: lr=0.5";
  EXPECT_THAT(recorded(options),
              ::testing::HasSubstr(R"("lr-schedule":"constant","optimizer":"adamw","lr-warmup":10,)"
                                   R"("clip-norm":1.0,"parameter-groups":"layers.*: lr=0.5",)"));
}

TEST(Fingerprint, HoldsWhereBlocksEnd) {
  TrainOptions options;
  options.blocks.count.number = 8;
  EXPECT_THAT(recorded(options), ::testing::HasSubstr(R"("blocks":"8","block-kind":"communities",)"
                                                      R"("blocks-until":"0","seed":1)"));
  options.blocks.until.epoch = 20;
  options.switching.rate_after = 0.02;
  EXPECT_THAT(recorded(options),
              ::testing::HasSubstr(R"("blocks-until":"20","lr-after-switch":0.02,"seed":1)"));
  options.blocks.until = {.by_accuracy = true};
  EXPECT_THAT(recorded(options), ::testing::HasSubstr(R"("blocks-until":"accuracy",)"
                                                      R"("switch-patience":3,"lr-after-switch")"));
}

TEST(Fingerprint, HoldsWhereALocalPhaseEnds) {
  TrainOptions options;
  EXPECT_THAT(recorded(options), ::testing::Not(::testing::HasSubstr("local")));
  options.local_until.epoch = 20;
  EXPECT_THAT(recorded(options), ::testing::HasSubstr(R"("exchange":"exact","local-until":"20")"));
  options.local_until = {.by_accuracy = true};
  EXPECT_THAT(recorded(options), ::testing::HasSubstr(R"("switch-patience":3,"seed":1)"));
}

TEST(TrainOptionTable, NamesAreThereOnce) {
  std::set<std::string> names;
  for (const auto& row : train_options()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.group.empty() || row.help.empty()) << row.name;
  }
}

std::string effect_problem(const std::vector<GivenOption>& given, const TrainOptions& run) {
  try {
    require_effect(given, std::span(&run, 1), "--exchange " + run.exchange);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TrainOptionTable, OptionsThatChangeNothingAreRefused) {
  using ::testing::HasSubstr;
  TrainOptions run;
  EXPECT_THAT(effect_problem({{"bits", "4"}}, run),
              HasSubstr("--bits 4: has no effect with --exchange exact; it is for --exchange"));
  EXPECT_EQ(effect_problem({{"bits", "32"}}, run), "");
  EXPECT_EQ(effect_problem({{"bits", "32,32"}}, run), "");
  const GivenOption factor{"lr-step-factor", "0.3"};
  EXPECT_THAT(effect_problem({factor}, run),
              HasSubstr("with --lr-schedule constant; it is for --lr-schedule step"));
  // A schedule on the command line overrules that of a file, and what goes with it.
  const GivenOption constant{"lr-schedule", "constant", true};
  EXPECT_EQ(effect_problem({constant, factor}, run), "");
  EXPECT_THAT(effect_problem({constant, {"lr-step-factor", "0.3", true}}, run),
              HasSubstr("has no effect"));
  run.optimizer.schedule = LearningRateSchedule::kStep;
  EXPECT_EQ(effect_problem({factor}, run), "");
  run.optimizer.decay_first_layer_only = true;
  EXPECT_THAT(effect_problem({{"weight-decay-layers", "first"}}, run),
              HasSubstr("with --weight-decay 0"));
  run.optimizer.weight_decay = 0.01;
  run.exchange = kModeOfBits;
  EXPECT_EQ(effect_problem({{"weight-decay-layers", "first"}, {"bits", "4"}}, run), "");
}

TEST(TrainOptionTable, PlansAreMadeForTheModel) {
  EXPECT_EQ(planned_options(TrainOptions()).dump(),
            R"({"model":"gcn","layers":3,"hidden":256,"input-dropout":0.0,"norm":"none"})");
}

TEST(ModelOptions, TracesGiveTheModelBack) {
  ModelConfig model = small_sage().sized({.features = 30, .outputs = 4}, 1);
  model.input_dropout = 0.25;
  model.norm = Norm::kLayer;
  const Json json = trace_json(model);
  EXPECT_EQ(json.dump(),
            R"({"kind":"sage","layers":2,"hidden":16,"input_dropout":0.25,"norm":"layer",)"
            R"("features":30,"outputs":4})");
  EXPECT_EQ(trace_json(read_trace_model(json, "trace.json")), json);
}

TEST(ModelOptions, RecomputationOfAllIsKnownOnceRanksAre) {
  ModelConfig model;
  EXPECT_FALSE(model.sized({.features = 3, .outputs = 4}, 2).recomputation.any());
  model.recompute_all = true;
  const ModelConfig sized = model.sized({.features = 3, .outputs = 4}, 2);
  EXPECT_EQ(sized.recomputation, Recomputation::of_all_pairs(2));
  EXPECT_EQ(sized.features, 3);
  EXPECT_EQ(sized.outputs, 4);
}

ModelConfig model_with_types(const std::string& kind) {
  ModelConfig model;
  model.kind = kind;
  model.layers = 2;
  model.hidden = 8;
  return model.sized({.features = 5, .outputs = 6, .relations = 3, .edge_features = 2}, 1);
}

// The models that differ from `model` in nothing but an option.
std::vector<ModelConfig> with_other_values(const ModelConfig& model,
                                           const Option<ModelConfig>& option) {
  std::vector<Json> values = {true, 2, 0.25};
  if (const auto* words = std::get_if<Option<ModelConfig>::Word>(&option.value)) {
    values.assign(words->words.begin(), words->words.end());
  }
  std::vector<ModelConfig> others;
  for (const Json& value : values) {
    ModelConfig other = model;
    try {
      read_option_json(option, {{"value", value}}, "value", "", other);
    } catch (const Error&) {
      continue;  // it is of another type
    }
    if (option_json(option, other) != option_json(option, model)) others.push_back(other);
  }
  return others;
}

// Whether some value of an option makes another program of a model.
bool changes_program(const ModelConfig& model, const Option<ModelConfig>& option) {
  const auto parameters = [](const Program& program) {
    std::vector<std::tuple<std::string, double, std::size_t>> all;
    for (const DeclaredParameter& parameter : program.parameters) {
      all.emplace_back(parameter.name, parameter.start, parameter.heights.size());
    }
    return all;
  };
  const Program usual = model_program(model, Pass::kTraining);
  return std::ranges::any_of(with_other_values(model, option), [&](const ModelConfig& other) {
    try {
      const Program changed = model_program(other, Pass::kTraining);
      return changed.operations != usual.operations || parameters(changed) != parameters(usual);
    } catch (const Error&) {
      return false;  // a value that this model refuses
    }
  });
}

// Where an option has an effect: the convolutions' rows say so, and only there it may be given.
TEST(ModelOptions, AreRefusedByModelsWithoutUseForThem) {
  std::set<std::string> options;
  for (const ConvolutionKind& kind : convolution_kinds()) {
    options.insert(kind.lacks.begin(), kind.lacks.end());
    ASSERT_TRUE(kind.reads.has_value()) << kind.name;
    options.insert(kind.reads->begin(), kind.reads->end());
  }
  for (const std::string& name : options) {
    const Option<ModelConfig>& option = option_named(model_options(), name);
    for (const std::string& kind : model_kinds()) {
      // Some options do nothing without others.
      std::vector<ModelConfig> models(4, model_with_types(kind));
      models[1].aggregator = Aggregator::kSoftmax;
      models[2].aggregator = Aggregator::kPower;
      models[3].heads = 2;
      const bool has_use = std::ranges::any_of(
          models, [&](const ModelConfig& model) { return changes_program(model, option); });
      for (const ModelConfig& model : with_other_values(models[0], option)) {
        std::string problem;
        try {
          check_model_options(model);
        } catch (const Error& error) {
          problem = error.what();
        }
        EXPECT_EQ(problem.find("has no use for it") == std::string::npos, has_use)
            << "--" << name << " of " << kind << ": " << problem;
      }
    }
  }
}

}  // namespace
}  // namespace atl
