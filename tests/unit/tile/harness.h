// Kernels from text, run by the tile interpreter whole, in pieces and with checks, which must agree
// in every bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "codegen/tile/interpreter.h"

namespace gm::test {

using Bytes = std::vector<uint8_t>;

inline Bytes poisoned(int64_t bytes) { return Bytes(static_cast<size_t>(bytes), 0xCB); }

template <class T>
Bytes to_bytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> from_bytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline std::vector<float> random_floats(int64_t n, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) x = (static_cast<float>(random() >> 8) * 0x1p-23f - 1) * scale;
  return values;
}

inline std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float x : values) bits.push_back(f32_to_bf16(x));
  return bits;
}

inline std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  return from_bytes<uint32_t>(to_bytes(values));
}

inline void* const* data_of(std::vector<Bytes>& buffers, std::vector<void*>& pointers) {
  pointers.clear();
  for (Bytes& buffer : buffers) pointers.push_back(buffer.data());
  return pointers.data();
}

inline Kernel kernel_of(const std::string& text) {
  auto kernel = parse_kernel(text, "test.gm");
  if (!kernel) {
    ADD_FAILURE() << kernel.error().to_string();
    std::abort();
  }
  return *std::move(kernel);
}

inline TileInterpreter interpreter_of(const std::string& text, Checked checked = Checked::no) {
  auto interpreter = TileInterpreter::create(kernel_of(text), checked);
  if (!interpreter) {
    ADD_FAILURE() << interpreter.error().to_string();
    std::abort();
  }
  return *std::move(interpreter);
}

// The buffers after the kernel.
inline std::vector<Bytes> run_kernel(const std::string& text, const std::vector<int64_t>& dims,
                                     const std::vector<Bytes>& buffers) {
  std::vector<void*> pointers;
  std::vector<Bytes> whole = buffers;
  const TileInterpreter plain = interpreter_of(text);
  const int64_t items = plain.work_items(dims);
  data_of(whole, pointers);
  plain.run(dims, pointers, 0, items);

  std::vector<Bytes> checked = buffers;
  data_of(checked, pointers);
  interpreter_of(text, Checked::yes).run(dims, pointers, 0, items);
  EXPECT_TRUE(whole == checked) << "the checked mode gives other bits";

  std::vector<Bytes> pieces = buffers;
  data_of(pieces, pointers);
  // Later pieces first, of uneven sizes.
  for (int64_t end = items, size = 1; end > 0; size = size * 3 % 7 + 1) {
    const int64_t begin = std::max<int64_t>(end - size, 0);
    plain.run(dims, pointers, begin, end);
    end = begin;
  }
  EXPECT_TRUE(whole == pieces) << "pieces give other bits";
  return whole;
}

}  // namespace gm::test
