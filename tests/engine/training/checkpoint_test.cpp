#include "engine/training/checkpoint.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

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
  const std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  ASSERT_EQ(bytes.size() % 4, 0U);
  EXPECT_EQ(bytes.substr(8, header.size()), header);
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
  EXPECT_NE(message(good.substr(0, good.size() - 1)).find("data_offsets"), std::string::npos);
  std::string garbled = good;
  garbled[9] = '!';
  EXPECT_NE(message(garbled).find("JSON"), std::string::npos);
  std::string shape = good;
  shape.replace(shape.find("[2,3]"), 5, "[2,4]");
  EXPECT_NE(message(shape).find("its shape needs"), std::string::npos);
  std::string dtype = good;
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
  checkpoint.best.evaluations_since = 1;
  checkpoint.best.weights.tensors["weight"] = tensor("F32", {2, 3}, 24);
  return checkpoint;
}

TEST(CheckpointFolder, RoundTripsAndKeepsOnlyTheNewest) {
  const TempDir dir;
  EXPECT_FALSE(has_checkpoint(dir.path()));
  write_checkpoint(dir.path(), checkpoint_at(5));
  write_checkpoint(dir.path(), checkpoint_at(10));
  EXPECT_TRUE(has_checkpoint(dir.path()));
  const Checkpoint read = read_checkpoint(dir.path(), checkpoint_at(10).fingerprint);
  EXPECT_EQ(read.epoch, 10);
  EXPECT_EQ(read.state.tensors.at("mean").bytes, example().tensors.at("mean").bytes);
  EXPECT_EQ(read.state.tensors.count("best.weight"), 0U);
  EXPECT_EQ(read.best.weights.tensors.count("weight"), 1U);
  EXPECT_EQ(read.best.epoch, 9);
  EXPECT_EQ(read.best.metrics.valid, 0.25);
  EXPECT_TRUE(std::isnan(read.best.metrics.test));
  EXPECT_EQ(read.best.evaluations_since, 1);
  int files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(dir.path() / "checkpoint")) {
    ++files;
  }
  EXPECT_EQ(files, 2);  // tensors and checkpoint.json
}

TEST(CheckpointFolder, RefusesDamageAndOtherOptions) {
  const TempDir dir;
  const Json fingerprint = checkpoint_at(5).fingerprint;
  EXPECT_NE(std::string(thrown_error([&] { read_checkpoint(dir.path(), fingerprint); }).what())
                .find("no checkpoint"),
            std::string::npos);
  write_checkpoint(dir.path(), checkpoint_at(5));
  const std::string other = thrown_error([&] {
                              read_checkpoint(dir.path(), {{"model", "gcn"}, {"lr", 0.02}});
                            }).what();
  EXPECT_NE(other.find("lr = 0.01"), std::string::npos) << other;
  EXPECT_NE(other.find("0.02"), std::string::npos) << other;
  const std::filesystem::path file = dir.path() / "checkpoint" / "epoch-5.safetensors";
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write(file, bytes);
  EXPECT_NE(std::string(thrown_error([&] { read_checkpoint(dir.path(), fingerprint); }).what())
                .find("damaged"),
            std::string::npos);
}

}  // namespace
}  // namespace atl
