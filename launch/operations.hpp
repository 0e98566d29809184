// What a program with an operation of its own includes beside atoll.hpp: rules, their views and
// gradients, and backends (docs/own-model.md).
#pragma once

#include "base/error.hpp"
#include "engine/program/gradients.hpp"
#include "engine/program/views.hpp"
#include "kernels/backend.hpp"
#include "kernels/operation_work.hpp"
