// Header for programs with an operation of their own, beside atoll.hpp: rules, their views and
// gradients, and backends (docs/own-model.md).
#pragma once

#include "base/error.hpp"
#include "engine/program/gradients.hpp"
#include "engine/program/views.hpp"
#include "kernels/backend.hpp"
#include "kernels/operation_work.hpp"
