// `atoll export`: the model of a run for another program.
#include <fmt/format.h>

#include <memory>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/pyg_tensors.hpp"
#include "launch/command.hpp"
#include "launch/pyg_model.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct ExportArguments {
  std::string run;
  std::string to = "pyg";
  std::filesystem::path out;
};

void run_export(const ExportArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const std::filesystem::path path = std::filesystem::path(arguments.run) / "model.safetensors";
  const SafetensorsFile file = read_run_model(arguments.run);
  const ModelConfig model = read_model_options(file, path).model;
  // Complete, so that nothing that is asked of it below is missing.
  const SafetensorsFile weights = initial_weights(file, model, path.string());
  const SafetensorsFile state_dict = to_pyg(weights, model);
  const std::span<const std::byte> python = pyg_model_file();
  if (!is_there(arguments.out)) check_outside_datasets(arguments.out, "--out");
  AtomicFolder folder(arguments.out);
  write_atomically(folder.path() / "model.safetensors", to_safetensors(state_dict));
  write_json(folder.path() / "model.json", pyg_description(model));
  write_atomically(folder.path() / "model.py",
                   {reinterpret_cast<const char*>(python.data()), python.size()});
  folder.commit();
  print("{} of {} layers in {}: model.safetensors, model.json, and model.py, which loads them\n",
        model_name(model), layer_count(model), arguments.out.string());
  if (model.dtype == DType::kBf16) {
    print("  trained with --dtype bf16; PyTorch computes in f32, so logits differ by rounding\n");
  }
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write a model for PyTorch Geometric");
  command->footer(
      "Writes a state_dict (model.safetensors) with the names, shapes and types of PyTorch\n"
      "Geometric's classes, a description of the model (model.json), and a Python file (model.py)\n"
      "that makes the module of both. It needs no Atoll where it runs. Such a state_dict, trained\n"
      "further or elsewhere, is taken back by atoll train --init.\n"
      "Examples:\n"
      "  atoll export runs/arxiv --to pyg --out arxiv-pyg\n"
      "  python -c 'import sys; sys.path.insert(0, \"arxiv-pyg\"); import model; "
      "print(model.load())'");
  const auto arguments = std::make_shared<ExportArguments>();
  command->add_option("run", arguments->run, "Run folder of `atoll train`")->required();
  command->add_option("--to", arguments->to, "pyg: PyTorch Geometric")->check(one_of({"pyg"}));
  command->add_option("--out", arguments->out, "Folder to make")->required();
  command->callback([arguments] { run_export(*arguments); });
}

}  // namespace atl
