#include "kernels/cpu/product.hpp"

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/address_space.hpp"
#include "base/error.hpp"

namespace atl {

namespace {

using dnnl::matmul;
using dnnl::memory;

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// A bf16 product of one shape.
struct Shape {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t inner;
  bool transpose_a;
  bool transpose_b;
  std::int64_t a_stride;
  std::int64_t b_stride;
  std::int64_t c_stride;
  bool add;
  DType c_type;
  auto operator<=>(const Shape&) const = default;
};

struct Product {
  memory::desc a;
  memory::desc b;
  memory::desc c;
  matmul primitive;
};

memory::desc describe(std::int64_t rows, std::int64_t cols, memory::data_type type, bool transposed,
                      std::int64_t stride) {
  return {{rows, cols},
          type,
          transposed ? memory::dims{1, stride} : memory::dims{stride, std::int64_t{1}}};
}

Product make_product(const Shape& shape) {
  const auto bf16 = memory::data_type::bf16;
  Product product{
      describe(shape.rows, shape.inner, bf16, shape.transpose_a, shape.a_stride),
      describe(shape.inner, shape.cols, bf16, shape.transpose_b, shape.b_stride),
      describe(shape.rows, shape.cols, shape.c_type == DType::kBf16 ? bf16 : memory::data_type::f32,
               false, shape.c_stride),
      {}};
  dnnl::primitive_attr attributes;
  if (shape.add) {
    dnnl::post_ops then;
    then.append_sum(1.0F);
    attributes.set_post_ops(then);
  }
#if DNNL_VERSION_MAJOR >= 3
  const matmul::primitive_desc plan(cpu_engine(), product.a, product.b, product.c, attributes);
#else
  const matmul::primitive_desc plan(matmul::desc(product.a, product.b, product.c), attributes,
                                    cpu_engine());
#endif
  product.primitive = matmul(plan);
  return product;
}

void multiply_bf16(const Shape& shape, ConstMatrixView a, ConstMatrixView b, MatrixView c) {
  // Making a product compiles code. Each thread has its own: none waits for another.
  constexpr std::size_t kMostShapes = 256;
  thread_local std::map<Shape, Product> known;
  thread_local dnnl::stream stream(cpu_engine());
  if (known.size() > kMostShapes) known.clear();
  auto found = known.find(shape);
  if (found == known.end()) found = known.emplace(shape, make_product(shape)).first;
  const Product& product = found->second;
  const auto view = [](const memory::desc& description, const void* data) {
    return memory(description, cpu_engine(), const_cast<void*>(data));
  };
  product.primitive.execute(stream, {{DNNL_ARG_SRC, view(product.a, a.data)},
                                     {DNNL_ARG_WEIGHTS, view(product.b, b.data)},
                                     {DNNL_ARG_DST, view(product.c, c.data)}});
  stream.wait();
}

// oneDNN makes its kernels at the first product, and dies where memory for them is refused.
void check_room_for_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (const std::optional<std::int64_t> left = address_space_left(); left && *left == 0) {
      fail(ErrorKind::kMemory,
           "the limit of the address space (ulimit -v) leaves too little for the kernels of matrix "
           "products; raise it, or compute with fewer threads (--threads)");
    }
  });
}

}  // namespace

bool multiplies_bf16() {
  static const bool known = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16;
  return known;
}

void multiply(Transpose transpose_a, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b,
              double beta, MatrixView c) {
  check_room_for_kernels();
  const bool swap_a = transpose_a == Transpose::kYes;
  const bool swap_b = transpose_b == Transpose::kYes;
  const std::int64_t inner = swap_a ? a.rows : a.cols;
  ATOLL_ASSERT(a.dtype == b.dtype);
  if (a.dtype == DType::kBf16) {
    ATOLL_ASSERT(multiplies_bf16() && (c.dtype == DType::kF32 || beta == 0));
    return multiply_bf16(
        {c.rows, c.cols, inner, swap_a, swap_b, a.stride, b.stride, c.stride, beta != 0, c.dtype},
        a, b, c);
  }
  ATOLL_ASSERT(c.dtype == DType::kF32);
  const dnnl_status_t status = dnnl_sgemm(
      swap_a ? 'T' : 'N', swap_b ? 'T' : 'N', c.rows, c.cols, inner, 1.0F, a.row<float>(0),
      a.stride, b.row<float>(0), b.stride, static_cast<float>(beta), c.row<float>(0), c.stride);
  if (status != dnnl_success) {
    fail(ErrorKind::kMemory, "a product of {} x {} and {} x {} failed with status {} of oneDNN",
         c.rows, inner, inner, c.cols, static_cast<int>(status));
  }
}

}  // namespace atl
