#include "engine/training/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/checksum.hpp"
#include "base/files.hpp"
#include "engine/training/rank_files.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;

NamedTensor tensor(const std::string& dtype, std::vector<std::int64_t> shape, std::size_t bytes) {
  NamedTensor result{dtype, std::move(shape), std::vector<std::byte>(bytes)};
  for (std::size_t i = 0; i < bytes; ++i) result.bytes[i] = static_cast<std::byte>(7 * i + 1);
  return result;
}

SafetensorsFile example() {
  SafetensorsFile file;
  file.tensors["weight"] = tensor("F32", {2, 3}, 24);
  file.tensors["mean"] = tensor("F64", {3}, 24);
  file.tensors["empty"] = tensor("F32", {0, 5}, 0);
  file.tensors["text"] = tensor("U8", {7}, 7);
  file.metadata["atoll"] = "{\"a\": 1}";
  return file;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Safetensors, RoundTrips) {
  const TempDir dir;
  write(dir.path() / "a.safetensors", to_safetensors(example()));
  const SafetensorsFile read = read_safetensors(dir.path() / "a.safetensors");
  ASSERT_EQ(read.tensors.size(), 4U);
  for (const auto& [name, wanted] : example().tensors) {
    EXPECT_EQ(read.tensors.at(name).dtype, wanted.dtype);
    EXPECT_EQ(read.tensors.at(name).shape, wanted.shape);
    EXPECT_EQ(read.tensors.at(name).bytes, wanted.bytes);
  }
  EXPECT_EQ(read.metadata.at("atoll"), "{\"a\": 1}");
}

// The layout of the format's specification, byte by byte.
TEST(Safetensors, HasTheSpecifiedLayout) {
  SafetensorsFile file;
  file.tensors["x"] = tensor("F32", {1}, 4);
  const std::string bytes = to_safetensors(file);
  const std::string begin = R"({"__metadata__":{"checksum":")";
  const std::string end = R"("},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  ASSERT_EQ(bytes.size() % 4, 0U);
  EXPECT_EQ(bytes.substr(8, begin.size()), begin);
  EXPECT_EQ(bytes.substr(8 + begin.size() + 16, end.size()), end);
  std::string unsigned_bytes = bytes;
  unsigned_bytes.replace(8 + begin.size(), 16, 16, '0');
  EXPECT_EQ(bytes.substr(8 + begin.size(), 16), to_hex(checksum(unsigned_bytes)));
  EXPECT_EQ(static_cast<std::size_t>(bytes[0]), bytes.size() - 8 - 4);
  EXPECT_EQ(bytes.substr(bytes.size() - 4), std::string("\x01\x08\x0f\x16"));
}

TEST(Safetensors, RefusesDamage) {
  const TempDir dir;
  const std::filesystem::path path = dir.path() / "a.safetensors";
  const std::string good = to_safetensors(example());
  const auto message = [&](const std::string& bytes) {
    write(path, bytes);
    return std::string(thrown_error([&] { read_safetensors(path); }).what());
  };
  EXPECT_NE(message(good.substr(0, 5)).find("too few"), std::string::npos);
  EXPECT_NE(message(good.substr(0, 40)).find("cut off"), std::string::npos);
  std::string garbled = good;
  garbled[9] = '!';
  EXPECT_NE(message(garbled).find("JSON"), std::string::npos);
  // The damages below are no checksum's matter: files of others have none.
  const std::size_t entry = good.find(R"(,"checksum":")");
  std::string unsigned_file = good;
  unsigned_file.replace(entry, 30, 30, ' ');
  EXPECT_EQ(parse_safetensors(std::as_bytes(std::span(unsigned_file)), path).tensors.size(), 4U);
  EXPECT_NE(std::string(thrown_error([&] {
                          require_checksum(
                              parse_safetensors(std::as_bytes(std::span(unsigned_file)), path),
                              path);
                        }).what())
                .find("no 'checksum'"),
            std::string::npos);
  EXPECT_NE(message(unsigned_file.substr(0, good.size() - 1)).find("data_offsets"),
            std::string::npos);
  for (const std::size_t byte : {good.size() - 1, good.find("[2,3]") + 1, entry + 15}) {
    std::string flipped = good;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 1);
    EXPECT_NE(message(flipped).find("damaged"), std::string::npos) << byte;
  }
  // Sizes that add up don't show that two tensors lie in one place.
  const auto two_at = [&](const std::string& first, const std::string& second, std::size_t size) {
    std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    return length + header + std::string(size, 'x');
  };
  for (const char* second : {"[0,4]", "[2,6]", "[5,9]"}) {
    const std::string text = message(two_at("[0,4]", second, 9));
    EXPECT_NE(text.find("a.safetensors, tensor 'b': its data begin at"), std::string::npos) << text;
  }
  EXPECT_NE(message(two_at("[4,8]", "[0,4]", 9)).find("end at byte 8 of 9"), std::string::npos);
  write(path, two_at("[4,8]", "[0,4]", 8));
  EXPECT_EQ(read_safetensors(path).tensors.size(), 2U);
  std::string shape = unsigned_file;
  shape.replace(shape.find("[2,3]"), 5, "[2,4]");
  EXPECT_NE(message(shape).find("its shape needs"), std::string::npos);
  std::string dtype = unsigned_file;
  dtype.replace(dtype.find("F64"), 3, "Q64");
  EXPECT_NE(message(dtype).find("allowed are F32"), std::string::npos);
}

Checkpoint checkpoint_at(int epoch) {
  Checkpoint checkpoint;
  checkpoint.epoch = epoch;
  checkpoint.fingerprint = {{"model", "gcn"}, {"lr", 0.01}};
  checkpoint.state = example();
  checkpoint.state.metadata.clear();
  checkpoint.best.epoch = epoch - 1;
  checkpoint.best.metrics.train = 0.5;
  checkpoint.best.metrics.valid = 0.25;
  checkpoint.best.metrics.valid_loss = 0.75;
  checkpoint.best.metrics.all = {{{MetricKind::kMae}, {1, 2, kUnknownMetric}}};
  checkpoint.best.evaluations_since = 1;
  checkpoint.best.weights.tensors["weight"] = tensor("F32", {2, 3}, 24);
  checkpoint.rank_files = {"0123456789abcdef", "fedcba9876543210"};
  checkpoint.last_before_switch = 7;
  checkpoint.ranks = 4;
  checkpoint.gradient_sum = route_of_groups(4, 2);
  return checkpoint;
}

Checkpoint read_newest(const std::filesystem::path& run, const Json& fingerprint) {
  const std::filesystem::path file = newest_checkpoint(run).value();
  const std::string bytes = read_text(file);
  return parse_checkpoint(std::as_bytes(std::span(bytes)), file, fingerprint);
}

TEST(CheckpointFolder, RoundTripsAndKeepsOnlyTheNewest) {
  const TempDir dir;
  EXPECT_FALSE(newest_checkpoint(dir.path()));
  write_checkpoint(dir.path(), checkpoint_at(5));
  write_checkpoint(dir.path(), checkpoint_at(10));
  const Checkpoint read = read_newest(dir.path(), checkpoint_at(10).fingerprint);
  EXPECT_EQ(read.epoch, 10);
  EXPECT_EQ(read.state.tensors.at("mean").bytes, example().tensors.at("mean").bytes);
  EXPECT_EQ(read.state.tensors.count("best.weight"), 0U);
  EXPECT_EQ(read.best.weights.tensors.count("weight"), 1U);
  EXPECT_EQ(read.best.epoch, 9);
  EXPECT_EQ(read.best.metrics.valid, 0.25);
  EXPECT_TRUE(std::isnan(read.best.metrics.test));
  EXPECT_EQ(read.best.metrics.valid_loss, 0.75);
  const SplitValues* errors = read.best.metrics.find({MetricKind::kMae});
  ASSERT_NE(errors, nullptr);
  EXPECT_EQ((*errors)[1], 2);
  EXPECT_TRUE(std::isnan((*errors)[2]));
  EXPECT_EQ(read.best.metrics.find({MetricKind::kRmse}), nullptr);
  EXPECT_EQ(read.best.evaluations_since, 1);
  EXPECT_EQ(read.rank_files, (std::vector<std::string>{"0123456789abcdef", "fedcba9876543210"}));
  EXPECT_EQ(read.last_before_switch, 7);
  EXPECT_EQ(read.ranks, 4);
  EXPECT_EQ(read.gradient_sum.groups, (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(names_in(dir.path() / "checkpoint"), std::vector<std::string>{"epoch-10.safetensors"});
}

// Files of ranks have names and an age of their own.
TEST(CheckpointFolder, HasFilesOfRanks) {
  const TempDir dir;
  const RankFile third{.epoch = 7, .rank = 2, .ranks = 3};
  SafetensorsFile rows = example();
  rows.metadata["atoll exchange"] = "compensated";
  const std::string bytes = to_safetensors(rows);
  const std::string sum = write_rank_file(dir.path(), third, bytes);
  EXPECT_EQ(newest_checkpoint_epoch(dir.path()), 0);
  EXPECT_EQ(read_rank_file(dir.path(), third, sum), bytes);
  EXPECT_FALSE(read_rank_file(dir.path(), {.epoch = 7, .rank = 1, .ranks = 3}, sum));
  const Error other = thrown_error([&] { read_rank_file(dir.path(), third, "0123456789abcdef"); });
  EXPECT_EQ(other.kind(), ErrorKind::kInput);
  EXPECT_NE(std::string(other.what()).find("epoch-7.rank-2-of-3.safetensors"), std::string::npos);
  write_rank_file(dir.path(), {.epoch = 5, .rank = 0, .ranks = 2}, bytes);
  // Neither a name of ours nor a file of ours is enough alone.
  write(dir.path() / "checkpoint" / "epoch-5.rank-1-of-2.safetensors", "another's");
  write(dir.path() / "checkpoint" / "epoch-5.rank-1-of-2.safetensors.old", bytes);
  remove_checkpoints_before(dir.path(), 7);
  EXPECT_EQ(names_in(dir.path() / "checkpoint"),
            (std::vector<std::string>{"epoch-5.rank-1-of-2.safetensors",
                                      "epoch-5.rank-1-of-2.safetensors.old",
                                      "epoch-7.rank-2-of-3.safetensors"}));
}

TEST(CheckpointFolder, KeepsFilesOfOthers) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() / "checkpoint");
  for (const char* name : {"mine.safetensors", "epoch-2.safetensors", "epoch-3.json"}) {
    write(dir.path() / "checkpoint" / name, "mine");
  }
  write_checkpoint(dir.path(), checkpoint_at(5));
  remove_checkpoints_before(dir.path(), 6);
  EXPECT_EQ(names_in(dir.path() / "checkpoint"),
            (std::vector<std::string>{"epoch-2.safetensors", "epoch-3.json", "mine.safetensors"}));
}

// A process that slept while another one went on with the run must not set it back.
TEST(CheckpointFolder, RefusesToReplaceANewerOne) {
  const TempDir dir;
  write_checkpoint(dir.path(), checkpoint_at(10));
  const Error error = thrown_error([&] { write_checkpoint(dir.path(), checkpoint_at(5)); });
  EXPECT_NE(std::string(error.what()).find("newer"), std::string::npos);
  EXPECT_EQ(names_in(dir.path() / "checkpoint"), std::vector<std::string>{"epoch-10.safetensors"});
}

// It may have slept right before the rename, where nothing can refuse any more.
TEST(CheckpointFolder, OneThatComesTooLateGoesAgain) {
  const TempDir dir;
  write_checkpoint(dir.path(), checkpoint_at(5),
                   [&] { write_checkpoint(dir.path(), checkpoint_at(10)); });
  EXPECT_EQ(names_in(dir.path() / "checkpoint"), std::vector<std::string>{"epoch-10.safetensors"});
}

TEST(CheckpointFolder, RefusesEveryFlippedBit) {
  const TempDir dir;
  const Json fingerprint = checkpoint_at(5).fingerprint;
  write_checkpoint(dir.path(), checkpoint_at(5));
  const std::filesystem::path file = newest_checkpoint(dir.path()).value();
  const std::string good = read_text(file);
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += 3) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const Error error =
        thrown_error([&] { parse_checkpoint(std::as_bytes(std::span(bytes)), file, fingerprint); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << bit;
  }
}

TEST(CheckpointFolder, RefusesOtherOptions) {
  const TempDir dir;
  write_checkpoint(dir.path(), checkpoint_at(5));
  const std::string other = thrown_error([&] {
                              read_newest(dir.path(), {{"model", "gcn"}, {"lr", 0.02}});
                            }).what();
  EXPECT_NE(other.find("lr = 0.01"), std::string::npos) << other;
  EXPECT_NE(other.find("0.02"), std::string::npos) << other;
  // Also one that this run leaves at a default that is not recorded.
  const std::string more = thrown_error([&] {
                             read_newest(dir.path(), {{"model", "gcn"}});
                           }).what();
  EXPECT_NE(more.find("lr = 0.01"), std::string::npos) << more;
}

// If several options differ, the one that explains the others is named.
TEST(CheckpointFolder, NamesTheOptionThatExplainsADifference) {
  const TempDir dir;
  const auto message = [&](const Json& made_with, const Json& wanted) {
    Checkpoint checkpoint = checkpoint_at(5);
    checkpoint.fingerprint = made_with;
    write_checkpoint(dir.path(), checkpoint);
    return std::string(thrown_error([&] { read_newest(dir.path(), wanted); }).what());
  };
  EXPECT_THAT(message({{"exchange", "stale"}}, {{"exchange", "stale"}, {"group-ranks", "2"}}),
              HasSubstr(R"(with group-ranks = its default ("1"), this run has "2";)"));
  EXPECT_THAT(message({{"epochs", 50}, {"lr-schedule", "cosine"}}, {{"lr-schedule", "constant"}}),
              HasSubstr(R"(with lr-schedule = "cosine", this run has "constant";)"));
  EXPECT_THAT(message({{"block-kind", "communities"}, {"blocks", "4"}}, Json::object()),
              HasSubstr(R"(with blocks = "4", this run has its default ("0");)"));
}

}  // namespace
}  // namespace atl
