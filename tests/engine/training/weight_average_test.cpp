// Runs that are evaluated with the mean of their weights over steps.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/engine/training/block_options.hpp"
#include "tests/engine/training/example_runs.hpp"

namespace atl {
namespace {

constexpr double kDecay = 0.75;

std::vector<float> floats_of(const NamedTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TrainOptions averaging(TrainOptions options) {
  options.optimizer.average_decay = kDecay;
  return options;
}

class AveragedRuns : public RunsInFolders {};

TEST_F(AveragedRuns, TrainAsOthersDoAndAreEvaluatedWithTheMean) {
  const TrainOptions options = small_options();
  constexpr int kEpochs = 4;
  run_local_ranks(2, 30, [&](Transport& transport) {
    RankJob plain(transport, dataset_, {}, options);
    const TrainOptions with_mean = averaging(options);
    RankJob job(transport, dataset_, {}, with_mean);
    std::map<std::string, std::vector<double>> sums;
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      const double loss = plain.trainer().run_epoch(epoch).loss;
      plain.trainer().evaluate(epoch);
      ASSERT_EQ(job.trainer().run_epoch(epoch).loss, loss) << epoch;
      const SafetensorsFile weights = plain.trainer().state(false);
      for (const Parameter& parameter : plain.trainer().network().parameters().list()) {
        const std::vector<float> now = floats_of(weights.tensors.at(parameter.name));
        std::vector<double>& sum = sums[parameter.name];
        sum.resize(now.size());
        for (std::size_t i = 0; i < now.size(); ++i) sum[i] = kDecay * sum[i] + now[i];
      }
      const Metrics found = job.trainer().evaluate(epoch);
      SafetensorsFile mean = job.trainer().state(false);
      const double weight = (1 - std::pow(kDecay, epoch)) / (1 - kDecay);
      for (const auto& [name, sum] : sums) {
        const std::vector<float> values = floats_of(mean.tensors.at(name));
        for (std::size_t i = 0; i < sum.size(); ++i) {
          ASSERT_NEAR(values[i], sum[i] / weight, 1e-6) << name << " " << i << ", epoch " << epoch;
        }
      }
      // Others evaluate these weights in the same way.
      RankJob reader(transport, dataset_, {}, options);
      reader.trainer().load_state(mean, /*optimizer=*/false, "mean");
      EXPECT_EQ(to_json(found), to_json(reader.trainer().evaluate(epoch))) << epoch;
      if (epoch > 1) {
        EXPECT_FALSE(same_tensors(mean, plain.trainer().state(false)));
      }
    }
  });
}

TEST_F(AveragedRuns, GoOnBitForBit) {
  TrainOptions on_blocks = averaging(block_options("sage", 3));
  on_blocks.blocks.until.epoch = 2;
  for (const auto& [kind, options] :
       {std::pair<std::string, TrainOptions>{"whole", averaging(small_options())},
        {"blocks", on_blocks}}) {
    run(kind, 5, false, options);
    for (const int stop : {1, 3}) {
      const std::string name = fmt::format("{}-{}", kind, stop);
      run(name, stop, false, options);
      run(name, 5, true, options);
      expect_same(name, kind);
    }
  }
  EXPECT_NE(lines("whole", "loss"), lines("blocks", "loss"));
}

TEST_F(AveragedRuns, AreTheSameOnAnyNumberOfRanks) {
  const TrainOptions options = averaging(block_options("gcn", 3));
  for (const int ranks : {1, 3}) run(fmt::format("{}", ranks), 4, false, options, ranks);
  const std::vector<Json> one = lines("1", "valid_loss");
  const std::vector<Json> three = lines("3", "valid_loss");
  for (std::size_t epoch = 0; epoch < one.size(); ++epoch) {
    EXPECT_NEAR(three[epoch].get<double>(), one[epoch].get<double>(), 1e-5) << epoch;
  }
}

// The loss of validation is less noisy than that of the weights themselves at such a rate.
TEST_F(AveragedRuns, AreSmoother) {
  TrainOptions options = small_options();
  options.optimizer.learning_rate = 0.3;
  const auto jumps = [&](const std::string& name, const TrainOptions& of) {
    run(name, 24, false, of);
    const std::vector<Json> losses = lines(name, "valid_loss");
    double sum = 0;
    for (std::size_t epoch = 12; epoch < losses.size(); ++epoch) {
      sum += std::abs(losses[epoch].get<double>() - losses[epoch - 1].get<double>());
    }
    return sum;
  };
  EXPECT_LT(jumps("mean", averaging(options)), 0.7 * jumps("plain", options));
}

}  // namespace
}  // namespace atl
