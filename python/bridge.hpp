// The part of atoll._engine that atoll.torch stands on.
#pragma once

#include <nanobind/nanobind.h>

// Part, Exchange and dropout_factors, and errors of the engine as exceptions of the package.
void add_bridge(nanobind::module_& module);
