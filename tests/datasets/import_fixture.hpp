// A folder to write a source to and to import from.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "datasets/import.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

class ImportFixture : public ::testing::Test {
 protected:
  // Imports with options_, opens and validates.
  Dataset import(const std::string& format, const std::filesystem::path& source) {
    options_.source = source;
    options_.out = dir_.path() / "out";
    std::filesystem::remove_all(options_.out);
    report_ = import_dataset(format, options_);
    Dataset dataset = Dataset::open(options_.out);
    dataset.validate();
    return dataset;
  }
  // The message of an import that fails and leaves nothing.
  std::string refused(const std::string& format, const std::filesystem::path& source) {
    const Error error = thrown_error([&] { import(format, source); });
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_FALSE(std::filesystem::exists(dir_.path() / "out"));
    return error.what();
  }
  std::filesystem::path in() const { return dir_.path() / "in"; }

  TempDir dir_;
  ImportOptions options_;
  ImportReport report_;
};

}  // namespace atl
