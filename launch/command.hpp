// Subcommands' interface to the `atoll` program: one file per subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace atl {

// Each function adds its subcommand with options, help and examples to `app`; the work runs in the
// subcommand's callback once parsing succeeded.
void add_import_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_append_command(CLI::App& app);
void add_compact_command(CLI::App& app);
void add_split_command(CLI::App& app);
void add_features_command(CLI::App& app);
void add_partition_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_launch_command(CLI::App& app);
void add_jobs_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_schedule_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_program_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_topology_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_completion_command(CLI::App& app);
void add_reference_command(CLI::App& app);
// Subcommands of `atoll plan`, `atoll trace` and `atoll schedule`.
void add_train_policy_command(CLI::App& plan);
void add_trace_draw_command(CLI::App& trace);
void add_trace_replay_command(CLI::App& trace);
void add_schedule_run_commands(CLI::App& schedule);

}  // namespace atl
