#include <algorithm>
#include <cstring>

#include "codegen/tile/vm_frame.h"

namespace gm::tile_vm {
namespace {

constexpr size_t kAlignment = 64;

bool is_index(Element element) { return element >= Element::i32; }

float float_at(const ArrayData& array, Element element, int64_t i) {
  switch (element) {
    case Element::f32:
      return reinterpret_cast<const float*>(array.data)[i];
    case Element::bf16:
      return bf16_to_f32(reinterpret_cast<const uint16_t*>(array.data)[i]);
    default:
      return f16_to_f32(reinterpret_cast<const uint16_t*>(array.data)[i]);
  }
}

int64_t integer_at(const ArrayData& array, Element element, int64_t i) {
  switch (element) {
    case Element::i32:
      return reinterpret_cast<const int32_t*>(array.data)[i];
    case Element::i8:
      return reinterpret_cast<const int8_t*>(array.data)[i];
    default:
      return reinterpret_cast<const int64_t*>(array.data)[i];
  }
}

template <class IndexOf>
void store_elements(const ArrayData& array, Element element, const void* source, int64_t n,
                    const IndexOf& index_of) {
  const auto* floats = static_cast<const float*>(source);
  const auto* integers = static_cast<const int64_t*>(source);
  switch (element) {
    case Element::f32:
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(array.data)[index_of(i)] = floats[i];
      break;
    case Element::bf16:
      for (int64_t i = 0; i < n; ++i)
        reinterpret_cast<uint16_t*>(array.data)[index_of(i)] = f32_to_bf16(floats[i]);
      break;
    case Element::f16:
      for (int64_t i = 0; i < n; ++i)
        reinterpret_cast<uint16_t*>(array.data)[index_of(i)] = f32_to_f16(floats[i]);
      break;
    case Element::i32:
      for (int64_t i = 0; i < n; ++i)
        reinterpret_cast<int32_t*>(array.data)[index_of(i)] = static_cast<int32_t>(integers[i]);
      break;
    case Element::i8:
      for (int64_t i = 0; i < n; ++i)
        reinterpret_cast<int8_t*>(array.data)[index_of(i)] = static_cast<int8_t>(integers[i]);
      break;
    case Element::i64:
      for (int64_t i = 0; i < n; ++i)
        reinterpret_cast<int64_t*>(array.data)[index_of(i)] = integers[i];
      break;
  }
}

}  // namespace

Frame::Frame(const KernelProgram& kernel, std::span<const int64_t> dims,
             std::span<void* const> buffers)
    : kernel_(kernel),
      slots_(static_cast<size_t>(kernel.slots)),
      strides_(static_cast<size_t>(kernel.strides)),
      extents_(static_cast<size_t>(kernel.strides)),
      scalars_(kernel.initial),
      arrays_(kernel.arrays.size()),
      tiles_(kernel.arrays.size()),
      run_(static_cast<size_t>(kernel.values)) {
  GM_CHECK(dims.size() == static_cast<size_t>(kernel.dims), "{} dims for kernel {}, which has {}",
           dims.size(), kernel.name, kernel.dims);
  GM_CHECK(buffers.size() == static_cast<size_t>(kernel.params),
           "{} buffers for kernel {}, which has {}", buffers.size(), kernel.name, kernel.params);
  std::ranges::copy(dims, slots_.begin());
  for (int i = 0; i < kernel.params; ++i) {
    set_shape(i);
    arrays_[static_cast<size_t>(i)].data = static_cast<char*>(buffers[static_cast<size_t>(i)]);
  }
  const size_t bytes = static_cast<size_t>(kernel.registers) * kChunk * 8;
  register_storage_ = std::make_unique_for_overwrite<char[]>(bytes + kAlignment);
  void* start = register_storage_.get();
  size_t space = bytes + kAlignment;
  registers_.reset(static_cast<char*>(std::align(kAlignment, bytes, start, space)));
  if (kernel.checked) {
    out_of_bounds_.resize(static_cast<size_t>(kernel.values) * kChunk);
    needed_.resize(static_cast<size_t>(kernel.values) * kChunk);
  }
}

void Frame::set_shape(int array) {
  const ArrayInfo& info = kernel_.arrays[static_cast<size_t>(array)];
  int64_t size = 1;
  for (size_t d = info.shape.size(); d-- > 0;) {
    const int64_t extent = std::max<int64_t>(info.shape[d].evaluate(slots_.data()), 0);
    strides_[static_cast<size_t>(info.stride_base) + d] = size;
    extents_[static_cast<size_t>(info.stride_base) + d] = extent;
    GM_CHECK(!__builtin_mul_overflow(size, extent, &size), "%{} of kernel {} is too large",
             info.name, kernel_.name);
  }
  arrays_[static_cast<size_t>(array)].size = size;
}

void Frame::allocate(int array) {
  set_shape(array);
  ArrayData& data = arrays_[static_cast<size_t>(array)];
  const bool wide = kernel_.arrays[static_cast<size_t>(array)].element == Element::i64;
  std::vector<int64_t>& storage = tiles_[static_cast<size_t>(array)];
  const size_t words = static_cast<size_t>(wide ? data.size : (data.size + 1) / 2);
  if (storage.size() < words) storage.resize(words);
  data.data = reinterpret_cast<char*>(storage.data());
}

void Frame::load_one(const Op& op, int64_t index, void* result, int64_t position) const {
  const ArrayData& array = arrays_[static_cast<size_t>(op.array)];
  const Element element = kernel_.arrays[static_cast<size_t>(op.array)].element;
  const bool inside = index >= 0 && index < array.size;
  if (is_index(element)) {
    static_cast<int64_t*>(result)[position] = inside ? integer_at(array, element, index) : 0;
  } else {
    static_cast<float*>(result)[position] = inside ? float_at(array, element, index) : 0.0f;
  }
}

void Frame::load_linear(const Program& program, const Op& op, Scalar* scalars, int64_t start,
                        int64_t n) {
  const ArrayData& array = arrays_[static_cast<size_t>(op.array)];
  const Element element = kernel_.arrays[static_cast<size_t>(op.array)].element;
  const int64_t step = scalars[op.a].step;
  const int64_t first = scalars[op.a].i + step * start;
  const int64_t last = first + step * (n - 1);
  void* result = reg(program, op.r);
  run_[static_cast<size_t>(op.r)] = result;
  if (first < 0 || first >= array.size || last < 0 || last >= array.size) {
    for (int64_t i = 0; i < n; ++i) load_one(op, first + step * i, result, i);
    return;
  }
  if (step == 1) {
    switch (element) {
      case Element::f32:
        run_[static_cast<size_t>(op.r)] = reinterpret_cast<const float*>(array.data) + first;
        return;
      case Element::i64:
        run_[static_cast<size_t>(op.r)] = reinterpret_cast<const int64_t*>(array.data) + first;
        return;
      case Element::bf16:
        loops().widen_bf16(static_cast<float*>(result),
                           reinterpret_cast<const uint16_t*>(array.data) + first, n);
        return;
      default:
        break;
    }
  }
  if (is_index(element)) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<int64_t*>(result)[i] = integer_at(array, element, first + step * i);
  } else if (element == Element::f32) {
    const float* from = reinterpret_cast<const float*>(array.data) + first;
    for (int64_t i = 0; i < n; ++i) static_cast<float*>(result)[i] = from[step * i];
  } else {
    for (int64_t i = 0; i < n; ++i)
      static_cast<float*>(result)[i] = float_at(array, element, first + step * i);
  }
}

void Frame::gather(const Program& program, const Op& op, int64_t n) {
  void* result = reg(program, op.r);
  run_[static_cast<size_t>(op.r)] = result;
  const auto* indices = static_cast<const int64_t*>(run_[static_cast<size_t>(op.a)]);
  for (int64_t i = 0; i < n; ++i) load_one(op, indices[i], result, i);
}

void Frame::address(const Program& program, const Op& op, Scalar* scalars) const {
  int64_t base = 0, step = 0;
  for (int t = op.extra; t < op.extra + op.count; ++t) {
    const AddressTerm& term = program.terms[static_cast<size_t>(t)];
    const int64_t stride = term.stride < 0 ? 1 : strides_[static_cast<size_t>(term.stride)];
    base += scalars[term.value].i * stride;
    step += scalars[term.value].step * stride;
  }
  scalars[op.r].i = base;
  scalars[op.r].step = step;
}

void Frame::run_level(const Program& program, int level, int64_t start, int64_t n) {
  Scalar* s = scalars_.data() + program.scalar_base;
  const int end = program.level_begin[static_cast<size_t>(level) + 1];
  for (int o = program.level_begin[static_cast<size_t>(level)]; o < end; ++o) {
    const Op& op = program.ops[static_cast<size_t>(o)];
    switch (op.action) {
      case Do::scalar:
        op.loop(&s[op.r].i, &s[op.a].i, &s[op.b].i, &s[op.c].i, 1);
        break;
      case Do::vector: {
        void* result = reg(program, op.r);
        const auto at = [&](int value, int bit) -> const void* {
          return (op.mask & (1 << bit)) != 0 ? run_[static_cast<size_t>(value)] : &s[value].i;
        };
        op.loop(result, at(op.a, 0), at(op.b, 1), at(op.c, 2), n);
        run_[static_cast<size_t>(op.r)] = result;
        break;
      }
      case Do::linear_add:
        s[op.r].i = s[op.a].i + s[op.b].i;
        s[op.r].step = s[op.a].step + s[op.b].step;
        break;
      case Do::linear_sub:
        s[op.r].i = s[op.a].i - s[op.b].i;
        s[op.r].step = s[op.a].step - s[op.b].step;
        break;
      case Do::linear_mul:
        s[op.r].i = s[op.a].i * s[op.b].i;
        s[op.r].step = s[op.a].step * s[op.b].i;
        break;
      case Do::sym:
        s[op.r].i = program.syms[static_cast<size_t>(op.extra)].evaluate(slots_.data());
        break;
      case Do::stride:
        s[op.r].i = strides_[static_cast<size_t>(op.extra)];
        break;
      case Do::iota: {
        auto* result = static_cast<int64_t*>(reg(program, op.r));
        const int64_t step = s[op.a].step, first = s[op.a].i + step * start;
        for (int64_t i = 0; i < n; ++i) result[i] = first + step * i;
        run_[static_cast<size_t>(op.r)] = result;
        break;
      }
      case Do::address:
        address(program, op, s);
        break;
      case Do::load_scalar:
        load_one(op, s[op.a].i, &s[op.r].i, 0);
        break;
      case Do::load_linear:
        load_linear(program, op, s, start, n);
        break;
      case Do::gather:
        gather(program, op, n);
        break;
    }
    if (kernel_.checked && op.action >= Do::load_scalar) mark_load(program, op, start, n);
  }
}

const void* Frame::elements(const Program& program, int value, int64_t n, void* scratch) const {
  const ValueInfo& info = program.values[static_cast<size_t>(value)];
  if (info.shape == Shape::vector) return run_[static_cast<size_t>(value)];
  const Scalar& from = scalar(program, value);
  if (info.type == ScalarType::index) {
    std::fill_n(static_cast<int64_t*>(scratch), n, from.i);
  } else {
    std::fill_n(static_cast<float*>(scratch), n, from.f);
  }
  return scratch;
}

void Frame::store(const Instr& instr, int64_t start, int64_t n, const void* source) {
  if (kernel_.checked) check_store(instr, start, n);
  const ArrayData& array = arrays_[static_cast<size_t>(instr.array)];
  const ArrayInfo& info = kernel_.arrays[static_cast<size_t>(instr.array)];
  const Program& program = instr.program;
  if (program.values[static_cast<size_t>(instr.address)].shape == Shape::vector) {
    const auto* indices = static_cast<const int64_t*>(run_[static_cast<size_t>(instr.address)]);
    for (int64_t i = 0; i < n; ++i)
      GM_CHECK(indices[i] >= 0 && indices[i] < array.size,
               "kernel {} writes element {} of %{}, which has {}", kernel_.name, indices[i],
               info.name, array.size);
    store_elements(array, info.element, source, n, [&](int64_t i) { return indices[i]; });
    return;
  }
  const Scalar& to = scalar(program, instr.address);
  const int64_t first = to.i + to.step * start, last = first + to.step * (n - 1);
  GM_CHECK(n == 0 || (std::min(first, last) >= 0 && std::max(first, last) < array.size),
           "kernel {} writes elements {} to {} of %{}, which has {}", kernel_.name, first, last,
           info.name, array.size);
  if (to.step == 1 && info.element == Element::f32) {
    if (n > 0)
      std::memmove(reinterpret_cast<float*>(array.data) + first, source,
                   static_cast<size_t>(n) * 4);
  } else if (to.step == 1 && info.element == Element::bf16) {
    loops().narrow_bf16(reinterpret_cast<uint16_t*>(array.data) + first,
                        static_cast<const float*>(source), n);
  } else {
    store_elements(array, info.element, source, n, [&](int64_t i) { return first + to.step * i; });
  }
}

}  // namespace gm::tile_vm
