// Losses and metrics that are functions of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "engine/program/own_functions.hpp"

// `losses`: pairs of a name and a function of logits and labels, arrays of NumPy, that returns the
// loss and its gradient [rows, outputs], f32, or a text: what is wrong. `metrics`: triples of a
// name, whether the lowest is the best, and a function of the same arrays that returns a number or
// a text. The functions are called with Python's lock, from any thread.
atl::OwnFunctions functions_of_python(const nanobind::list& losses, const nanobind::list& metrics);
