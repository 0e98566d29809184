#include "python/functions.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace nb = nanobind;

namespace {

// The engine destroys its copies without Python's lock; the last one in a process that ends, when
// there is no Python any more.
std::shared_ptr<nb::object> shared_with_lock(nb::object function) {
  return {new nb::object(std::move(function)), [](nb::object* held) {
            if (Py_IsInitialized() == 0) return;
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

// An array of Python's own: a function may keep it.
template <typename T>
nb::object array_of(std::span<const T> values, std::vector<std::size_t> shape) {
  auto* const copy = new std::vector<T>(values.begin(), values.end());
  const nb::capsule owner(copy,
                          [](void* held) noexcept { delete static_cast<std::vector<T>*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, T>(copy->data(), shape.size(), shape.data(), owner));
}

nb::object logits_of(const atl::LabelledRows& rows) {
  return array_of(rows.logits,
                  {static_cast<std::size_t>(rows.rows()), static_cast<std::size_t>(rows.outputs)});
}

nb::object labels_of(const atl::LabelledRows& rows) {
  const std::vector<std::size_t> shape = {static_cast<std::size_t>(rows.rows()),
                                          static_cast<std::size_t>(rows.outputs)};
  if (!rows.numbers.empty()) return array_of(rows.numbers, shape);
  if (!rows.multi_labels.empty()) return array_of(rows.multi_labels, shape);
  return array_of(rows.classes, {shape.front()});
}

void require_no_complaint(const nb::object& result) {
  if (nb::isinstance<nb::str>(result)) atl::fail_option("{}", nb::cast<std::string>(result));
}

double loss_by_python(const nb::object& function, const atl::LabelledRows& rows,
                      std::span<float> gradient) {
  using Gradient = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  const nb::object result = function(logits_of(rows), labels_of(rows));
  require_no_complaint(result);
  const auto found = nb::cast<Gradient>(result[1]);
  ATOLL_ASSERT(found.size() == gradient.size(), "a gradient of {} numbers", found.size());
  std::copy_n(found.data(), found.size(), gradient.begin());
  return nb::cast<double>(result[0]);
}

double metric_by_python(const nb::object& function, const atl::LabelledRows& rows) {
  const nb::object result = function(logits_of(rows), labels_of(rows));
  require_no_complaint(result);
  return nb::cast<double>(result);
}

}  // namespace

atl::OwnFunctions functions_of_python(const nb::list& losses, const nb::list& metrics) {
  atl::OwnFunctions functions;
  for (const nb::handle row : losses) {
    const auto function = shared_with_lock(nb::object(row[1]));
    functions.losses.push_back(
        {nb::cast<std::string>(row[0]),
         [function](const atl::LabelledRows& rows, std::span<float> gradient) {
           const nb::gil_scoped_acquire lock;
           return loss_by_python(*function, rows, gradient);
         }});
  }
  for (const nb::handle row : metrics) {
    const auto function = shared_with_lock(nb::object(row[2]));
    functions.metrics.push_back({nb::cast<std::string>(row[0]), nb::cast<bool>(row[1]),
                                 [function](const atl::LabelledRows& rows) {
                                   const nb::gil_scoped_acquire lock;
                                   return metric_by_python(*function, rows);
                                 }});
  }
  return functions;
}
