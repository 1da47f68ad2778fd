// Runs a kernel by the interpreter and as native code of every level that this machine has, and
// compares all bytes.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpu/cpu_codegen.h"
#include "ir/tile.h"

namespace gm::test {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes result(values.size() * sizeof(T));
  if (!result.empty()) std::memcpy(result.data(), values.data(), result.size());
  return result;
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

// Floats of a dtype, normal around 0, a few of them zeros of both signs, subnormals and large.
Bytes random_floats(DType dtype, int64_t count, uint32_t seed, bool special = false);

Kernel kernel_of(const std::string& text);
std::vector<CpuTarget> host_targets();  // v3, v4 where the machine has it, native

// A shared object that is loaded as long as this lives.
class Loaded {
 public:
  explicit Loaded(const NativeObject& object);
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  using Function = void (*)(const int64_t*, void* const*, int64_t, int64_t, void*);
  Function find(const std::string& symbol) const;

 private:
  void* library_ = nullptr;
};

// Buffers before -> the interpreter's buffers after; fails the test where native code gives other
// bytes or writes outside its scratch memory.
std::vector<Bytes> run_everywhere(const Kernel& kernel, std::vector<int64_t> dims,
                                  std::vector<Bytes> buffers);

}  // namespace gm::test
