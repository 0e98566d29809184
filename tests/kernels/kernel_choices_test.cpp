#include "kernels/kernel_choices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

KernelKey some_key() { return {"spmm", 100, 900, 256, DType::kF32, "a device"}; }

// One valid entry as a file holds it.
Json some_entry() {
  return {{"operation", "spmm"}, {"rows", 100},
          {"nnz", 900},          {"width", 256},
          {"dtype", "f32"},      {"device", "a device"},
          {"kernel", "own"},     {"milliseconds", {{"own", 1.5}, {"cusparse-alg3", 2.25}}}};
}

Json file_with(const Json& entry) { return {{"kernel_choices", Json::array({entry})}}; }

void expect_refused(const Json& object, const std::string& message) {
  KernelChoices choices;
  const Error error = thrown_error([&] { choices.add_json(object, "choices.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("choices.json: "));
  EXPECT_THAT(error.what(), HasSubstr(message));
}

TEST(KernelChoices, WhatIsRecordedIsFoundForItsKeyAlone) {
  KernelChoices choices;
  EXPECT_EQ(choices.wish(), SpmmWish::kOwn);
  EXPECT_EQ(choices.lookup(some_key()), std::nullopt);
  choices.record(some_key(), {"cusparse-alg3", {{"own", 2}, {"cusparse-alg3", 1}}, {}});
  EXPECT_EQ(choices.lookup(some_key()), "cusparse-alg3");
  KernelKey other = some_key();
  other.dtype = DType::kBf16;
  EXPECT_EQ(choices.lookup(other), std::nullopt);
  choices.record(some_key(), {"own", {}, {}});
  EXPECT_EQ(choices.lookup(some_key()), "own");
}

TEST(KernelChoices, WishesHaveTheNamesOfTheOption) {
  EXPECT_STREQ(to_string(SpmmWish::kOwn), "own");
  EXPECT_STREQ(to_string(SpmmWish::kCusparse), "cusparse");
  EXPECT_STREQ(to_string(SpmmWish::kAuto), "auto");
  EXPECT_EQ(KernelChoices(SpmmWish::kAuto).measured_edges(), kMeasuredEdges);
}

TEST(KernelChoices, FilesComeBackAsTheyWere) {
  KernelChoices choices;
  choices.add_json(file_with(some_entry()), "choices.json");
  EXPECT_EQ(choices.lookup(some_key()), "own");
  EXPECT_EQ(choices.to_json(), file_with(some_entry()));
  Json entry = some_entry();
  entry["repeats"] = {{"cusparse-alg2", true}};
  choices.add_json(file_with(entry), "choices.json");
  EXPECT_EQ(choices.to_json(), file_with(entry));
  // A kernel that can't run as chosen is replaced, and what was measured stays.
  choices.replace_kernel(some_key(), "cusparse-alg3");
  entry["kernel"] = "cusparse-alg3";
  EXPECT_EQ(choices.to_json(), file_with(entry));
}

TEST(KernelChoices, FilesAreReadStrictly) {
  expect_refused(Json::object(), "field 'kernel_choices' is missing");
  expect_refused({{"kernel_choices", 3}}, "expected a list");
  expect_refused({{"kernel_choices", {5}}}, "kernel_choices[0]: found 5, expected an object");
  for (const char* field :
       {"operation", "rows", "nnz", "width", "dtype", "device", "kernel", "milliseconds"}) {
    Json entry = some_entry();
    entry.erase(field);
    expect_refused(file_with(entry), std::string("field '") + field + "' is missing");
    entry[field] = true;
    expect_refused(file_with(entry), field);
  }
  const auto with = [](const char* field, const Json& value) {
    Json entry = some_entry();
    entry[field] = value;
    return file_with(entry);
  };
  expect_refused(with("speed", 1), "unknown field 'speed'; allowed are operation, rows");
  expect_refused(with("operation", "gemm"), "unknown operation 'gemm'");
  expect_refused(with("kernel", "best"),
                 "unknown kernel 'best' of spmm; allowed are own, cusparse-alg2, cusparse-alg3");
  expect_refused(with("dtype", "f16"), "dtype 'f16'; allowed are f32, bf16, f64");
  expect_refused(with("rows", -1), "field 'rows' is -1, allowed from 0");
  expect_refused(with("milliseconds", {{"best", 1}}), "unknown kernel 'best'");
  expect_refused(with("repeats", 8), "field 'repeats' is 8, expected an object");
  expect_refused(with("repeats", {{"best", true}}), "unknown kernel 'best'");
  expect_refused(with("repeats", {{"own", 1}}), "own");
  expect_refused(with("milliseconds", {{"own", -1}}), "own takes -1 ms, allowed from 0");
  expect_refused({{"kernel_choices", {some_entry(), some_entry()}}},
                 "kernel_choices[1]: this operation and shape came before");
}

TEST(KernelChoices, AFileThatIsRefusedAddsNothing) {
  KernelChoices choices;
  Json bad = some_entry();
  bad["kernel"] = "best";
  thrown_error([&] {
    choices.add_json({{"kernel_choices", {some_entry(), bad}}}, "choices.json");
  });
  EXPECT_EQ(choices.lookup(some_key()), std::nullopt);
}

}  // namespace

}  // namespace atl
