#include "tests/unit/cpu/harness.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "codegen/tile/expand_math.h"
#include "codegen/tile/interpreter.h"

namespace gm::test {

Bytes random_floats(DType dtype, int64_t count, uint32_t seed, bool special) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> floats(static_cast<size_t>(count));
  const float specials[] = {0.0f, -0.0f, 1e-40f, -3e-39f, 65504.0f, -88.0f, 30.0f, 1e30f};
  for (float& f : floats) {
    f = normal(engine);
    if (special && engine() % 8 == 0) f = specials[engine() % std::size(specials)];
  }
  if (dtype == DType::f32) return bytes_of(floats);
  std::vector<uint16_t> halves;
  for (const float f : floats)
    halves.push_back(dtype == DType::bf16 ? f32_to_bf16(f) : f32_to_f16(f));
  return bytes_of(halves);
}

Kernel kernel_of(const std::string& text) {
  Result<Kernel> kernel = parse_kernel(text, "test.gm");
  if (!kernel) {
    ADD_FAILURE() << kernel.error().to_string() << text;
    return {};
  }
  return *kernel;
}

std::vector<CpuTarget> host_targets() {
  std::vector<CpuTarget> targets;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v3")) targets.push_back(*parse_cpu_target("cpu:v3"));
  if (__builtin_cpu_supports("x86-64-v4")) targets.push_back(*parse_cpu_target("cpu:v4"));
  if (auto native = parse_cpu_target("cpu:native")) targets.push_back(*native);
  return targets;
}

Loaded::Loaded(const NativeObject& object) {
  const int fd = memfd_create("kernels", 0);
  EXPECT_EQ(write(fd, object.shared_object.data(), object.shared_object.size()),
            static_cast<ssize_t>(object.shared_object.size()));
  library_ = dlopen(fmt::format("/proc/self/fd/{}", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) ADD_FAILURE() << dlerror();
  close(fd);
}

Loaded::~Loaded() {
  if (library_ != nullptr) dlclose(library_);
}

Loaded::Function Loaded::find(const std::string& symbol) const {
  return library_ == nullptr ? nullptr
                             : reinterpret_cast<Function>(dlsym(library_, symbol.c_str()));
}

std::vector<Bytes> run_everywhere(const Kernel& kernel, std::vector<int64_t> dims,
                                  std::vector<Bytes> buffers) {
  const auto pointers = [](std::vector<Bytes>& of) {
    std::vector<void*> result;
    for (Bytes& bytes : of) result.push_back(bytes.data());
    return result;
  };
  if (kernel.parts.empty()) return {};  // did not parse
  std::vector<Bytes> expected = buffers;
  const Result<TileInterpreter> interpreter = TileInterpreter::create(kernel, Checked::yes);
  if (!interpreter) {
    ADD_FAILURE() << interpreter.error().to_string();
    return {};
  }
  const int64_t items = interpreter->work_items(dims);
  const std::vector<void*> expected_pointers = pointers(expected);
  interpreter->run(dims, expected_pointers, 0, items);

  const Kernel expanded = expand_math(kernel);
  for (const CpuTarget& target : host_targets()) {
    const Result<NativeObject> object = compile_kernels({&expanded, 1}, target);
    if (!object) {
      ADD_FAILURE() << object.error().to_string();
      return {};
    }
    const Loaded loaded(*object);
    const Loaded::Function function = loaded.find(object->kernels.at(0).symbol);
    if (function == nullptr) {
      ADD_FAILURE() << "no symbol";
      return {};
    }
    const auto scratch_bytes = static_cast<size_t>(object->kernels[0].scratch_bytes);
    const size_t room = (scratch_bytes + 64 + 63) / 64 * 64;
    auto* scratch = static_cast<unsigned char*>(std::aligned_alloc(64, room));
    std::memset(scratch, 0xff, room);  // every f32 in it is a NaN
    std::vector<Bytes> actual = buffers;
    const std::vector<void*> actual_pointers = pointers(actual);
    for (int64_t begin = 0, step = 1; begin < items; begin += step, step = step % 3 + 1) {
      function(dims.data(), actual_pointers.data(), begin, std::min(items, begin + step), scratch);
    }
    for (size_t i = scratch_bytes; i < room; ++i)
      EXPECT_EQ(scratch[i], 0xff) << "scratch byte " << i << " of " << scratch_bytes;
    std::free(scratch);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == actual[i]) continue;
      const auto size = static_cast<size_t>(size_bytes(kernel.params[i].dtype));
      size_t at = 0;
      while (std::memcmp(&expected[i][at * size], &actual[i][at * size], size) == 0) ++at;
      uint32_t want = 0;
      uint32_t got = 0;
      std::memcpy(&want, &expected[i][at * size], size);
      std::memcpy(&got, &actual[i][at * size], size);
      ADD_FAILURE() << fmt::format("{}: %{} element {} is {:#x}, the interpreter has {:#x}",
                                   target.cpu, kernel.params[i].name, at, got, want);
    }
  }
  return expected;
}

}  // namespace gm::test
