#include "runtime/weights.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/checkpoint_names.h"

namespace gm {
namespace {

constexpr int64_t kPanelWidth = 32;

// Tensors by canonical name.
using Checkpoint = std::map<std::string, const StoredTensor*, std::less<>>;

std::optional<DType> dtype_of(std::string_view word) {
  if (word == "F32") return DType::f32;
  if (word == "BF16") return DType::bf16;
  if (word == "F16") return DType::f16;
  if (word == "I32") return DType::i32;
  if (word == "I8") return DType::i8;
  return std::nullopt;
}

// The elements of a part in row-major order, wherever they are in the data of its tensors: pieces,
// each of runs of `run` elements, `stride` elements from the first of one to the first of the next.
class PartData {
 public:
  int64_t elements = 0;

  // `data` is the first element; any alignment.
  void add(const std::byte* data, int64_t runs, int64_t run, int64_t stride) {
    pieces_.push_back({data, elements, run, stride});
    elements += runs * run;
  }

  // dst gets elements [begin, begin + count).
  void copy(int64_t begin, int64_t count, int64_t size, std::byte* dst) const {
    while (count > 0) {
      const auto [data, together] = at(begin, size);
      const int64_t n = std::min(count, together);
      std::memcpy(dst, data, static_cast<size_t>(n * size));
      begin += n;
      count -= n;
      dst += n * size;
    }
  }
  // Elements [begin, begin + count) as they lie, or null if they are not side by side.
  const std::byte* rows(int64_t begin, int64_t count, int64_t size) const {
    const auto [data, together] = at(begin, size);
    return count <= together ? data : nullptr;
  }

 private:
  struct Piece {
    const std::byte* data;
    int64_t first;  // the number of its first element in the part
    int64_t run, stride;
  };
  // Where an element is, and how many are side by side from it on.
  std::pair<const std::byte*, int64_t> at(int64_t element, int64_t size) const {
    const auto after = std::ranges::upper_bound(pieces_, element, {}, &Piece::first);
    const Piece& p = *std::prev(after);
    const int64_t run = (element - p.first) / p.run, within = (element - p.first) % p.run;
    return {p.data + (run * p.stride + within) * size, p.run - within};
  }

  std::vector<Piece> pieces_;  // ascending in `first`
};

// `tensors` gives the data of each tensor of the part.
PartData part_data(const WeightPart& part, const std::vector<const StoredTensor*>& tensors,
                   int64_t size) {
  PartData result;
  // A slice's runs are along its axis, those of groups along axis 0, and whole tensors are one run.
  const int axis = part.groups != 0 ? 0 : part.slice_axis;
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < part.stored_shape.size(); ++i) {
    (static_cast<int>(i) <= axis ? outer : inner) *= part.stored_shape[i];
  }
  for (const StoredTensor* tensor : tensors) {
    const std::byte* data = tensor->data.data();
    if (part.groups != 0) {
      const int64_t stride = outer / part.groups * inner;
      for (const auto& [begin, end] : part.ranges) {
        result.add(data + begin * inner * size, part.groups, (end - begin) * inner, stride);
      }
    } else if (part.slice_axis >= 0) {
      const int64_t extent = part.stored_shape[static_cast<size_t>(part.slice_axis)];
      result.add(data + part.slice_begin * inner * size, outer / extent,
                 (part.slice_end - part.slice_begin) * inner, extent * inner);
    } else {
      result.add(data, 1, inner, inner);
    }
  }
  return result;
}

std::vector<std::byte> values_data(const WeightPart& part, DType dtype) {
  std::vector<std::byte> bytes(part.values.size() * static_cast<size_t>(size_bytes(dtype)));
  for (size_t i = 0; i < part.values.size(); ++i) {
    const auto value = static_cast<float>(part.values[i]);
    const auto put = [&](auto bits) {
      std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
    };
    switch (dtype) {
      case DType::f32:
        put(value);
        break;
      case DType::bf16:
        put(f32_to_bf16(value));
        break;
      case DType::f16:
        put(f32_to_f16(value));
        break;
      case DType::i32:
        put(static_cast<int32_t>(value));
        break;
      case DType::i8:
        put(static_cast<int8_t>(value));
        break;
      case DType::pred:
        GM_CHECK(false, "values of dtype pred");
    }
  }
  return bytes;
}

// dst[k, j] = rows[j][k]; columns without a row stay zero.
template <int64_t Size>
void transpose_rows(const std::byte* const* rows, int64_t count, int64_t length, int64_t pitch,
                    std::byte* dst) {
  for (int64_t k = 0; k < length; ++k) {
    for (int64_t j = 0; j < count; ++j) {
      std::memcpy(dst + (k * pitch + j) * Size, rows[j] + k * Size, Size);
    }
  }
}

void transpose(const std::byte* const* rows, int64_t count, int64_t length, int64_t pitch,
               int64_t size, std::byte* dst) {
  switch (size) {
    case 1:
      return transpose_rows<1>(rows, count, length, pitch, dst);
    case 2:
      return transpose_rows<2>(rows, count, length, pitch, dst);
    case 4:
      return transpose_rows<4>(rows, count, length, pitch, dst);
    default:
      GM_CHECK(false, "elements of {} bytes", size);
  }
}

// Up to 32 rows of `length` elements from row `first` of the part to columns of dst. Rows that are
// not in one piece go through `copies`.
void fill_columns(const PartData& part, int64_t first, int64_t count, int64_t length, int64_t pitch,
                  int64_t size, std::vector<std::byte>& copies, std::byte* dst) {
  const std::byte* rows[kPanelWidth];
  copies.resize(static_cast<size_t>(count * length * size));
  for (int64_t j = 0; j < count; ++j) {
    rows[j] = part.rows((first + j) * length, length, size);
    if (rows[j] != nullptr) continue;
    std::byte* copy = copies.data() + j * length * size;
    part.copy((first + j) * length, length, size, copy);
    rows[j] = copy;
  }
  transpose(rows, count, length, pitch, size, dst);
}

// [A, B] to [B, A].
void fill_transposed(const WeightBuffer& weight, const PartData& part, ThreadPool& threads,
                     std::byte* dst) {
  const int64_t b = weight.shape[0], a = weight.shape[1], size = size_bytes(weight.dtype);
  threads.parallel_for((a + kPanelWidth - 1) / kPanelWidth, [&](int64_t begin, int64_t end, int) {
    std::vector<std::byte> copies;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kPanelWidth;
      fill_columns(part, first, std::min(kPanelWidth, a - first), b, a, size, copies,
                   dst + first * size);
    }
  });
}

// [L, N, K] to panels of [L, panels, K, 32]; the buffer is zero before.
void fill_panels(const WeightBuffer& weight, const WeightPart& recipe, const PartData& part,
                 ThreadPool& threads, std::byte* dst) {
  const size_t rank = weight.shape.size();
  const int64_t k = weight.shape[rank - 2], panels = weight.shape[rank - 3];
  const int64_t size = size_bytes(weight.dtype);
  int64_t leading = 1;
  for (size_t i = 0; i + 3 < rank; ++i) leading *= weight.shape[i];
  const int64_t n = part.elements / (leading * k);
  const int64_t own = (n + kPanelWidth - 1) / kPanelWidth;
  GM_CHECK(recipe.panel_offset + own <= panels && n * leading * k == part.elements,
           "a part of weight {} does not fit", weight.name);
  threads.parallel_for(leading * own, [&](int64_t begin, int64_t end, int) {
    std::vector<std::byte> copies;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t lead = item / own, panel = item % own;
      const int64_t first = panel * kPanelWidth;
      fill_columns(part, lead * n + first, std::min(kPanelWidth, n - first), k, kPanelWidth, size,
                   copies,
                   dst + (lead * panels + recipe.panel_offset + panel) * k * kPanelWidth * size);
    }
  });
}

void fill_dense(const WeightBuffer& weight, const PartData& part, ThreadPool& threads,
                std::byte* dst) {
  constexpr int64_t kBlock = 1 << 20;
  const int64_t size = size_bytes(weight.dtype);
  threads.parallel_for((part.elements + kBlock - 1) / kBlock, [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kBlock;
    part.copy(first, std::min(end * kBlock, part.elements) - first, size, dst + first * size);
  });
}

Result<Checkpoint> by_canonical_name(const SafeTensors& tensors) {
  Checkpoint result;
  for (const auto& [name, tensor] : tensors.tensors()) {
    if (is_skipped_tensor(name)) continue;
    const auto [at, first] = result.emplace(canonical_tensor_name(name), &tensor);
    if (!first) {
      return err(Code::weights_foreign, Location::of_path(tensor.file, name),
                 "give the folder of one checkpoint", "tensors {} and {} are both the model's {}",
                 at->second->name, name, at->first);
    }
  }
  return result;
}

Result<const StoredTensor*> find_tensor(const Checkpoint& checkpoint, const WeightBuffer& weight,
                                        const WeightPart& part, const std::string& name) {
  const char* const fix =
      "give the weights of the model that the plan was compiled for, or compile again";
  const auto found = checkpoint.find(name);
  if (found == checkpoint.end()) {
    const std::string file = checkpoint.empty() ? "" : checkpoint.begin()->second->file;
    return err(Code::weights_missing, Location::of_path(file, name), fix,
               "the weights have no tensor {}, which the plan needs for {}", name, weight.name);
  }
  const StoredTensor& tensor = *found->second;
  const Location where = Location::of_path(tensor.file, tensor.name);
  if (tensor.shape != part.stored_shape) {
    return err(Code::weights_shape, where, fix,
               "tensor {} has shape [{}], but the plan was compiled for [{}]", name,
               fmt::join(tensor.shape, ", "), fmt::join(part.stored_shape, ", "));
  }
  if (dtype_of(tensor.dtype) != weight.dtype) {
    return err(Code::weights_dtype, where, fix,
               "tensor {} is stored as {}, but the plan was compiled for {}", name, tensor.dtype,
               to_string(weight.dtype));
  }
  return &tensor;
}

// All tensors of the part, of a series in its order.
Result<std::vector<const StoredTensor*>> find_tensors(const Checkpoint& checkpoint,
                                                      const WeightBuffer& weight,
                                                      const WeightPart& part) {
  std::vector<const StoredTensor*> tensors;
  for (int64_t i = 0; i < std::max<int64_t>(part.series, 1); ++i) {
    GM_ASSIGN(const StoredTensor* tensor,
              find_tensor(checkpoint, weight, part, part_tensor(part, i)));
    tensors.push_back(tensor);
  }
  return tensors;
}

// Nothing else stops weights of a deeper model, whose first layers all fit.
Result<> check_layers(const Plan& plan, const Checkpoint& checkpoint) {
  std::set<std::string> used;
  for (const WeightBuffer& weight : plan.weights) {
    for (const WeightPart& part : weight.parts) {
      for (int64_t i = 0; i < std::max<int64_t>(part.series, 1); ++i) {
        used.insert(part_tensor(part, i));
      }
    }
  }
  for (const auto& [name, tensor] : checkpoint) {
    if (!name.starts_with("layers.") || used.contains(name)) continue;
    return err(Code::weights_foreign, Location::of_path(tensor->file, tensor->name),
               "give the weights of the model that the plan was compiled for, or compile again",
               "the weights have a tensor {}, which the plan's model of {} layers does not have",
               name, plan.model.layers);
  }
  return {};
}

}  // namespace

const std::byte* WeightStore::find(std::string_view buffer) const {
  const auto found = buffers_.find(buffer);
  return found == buffers_.end() ? nullptr : found->second.data();
}

Result<WeightStore> bind_weights(const Plan& plan, const SafeTensors& tensors, HostMemory& memory,
                                 ThreadPool& threads,
                                 const std::function<void(int64_t, int64_t)>& progress) {
  GM_ASSIGN(const Checkpoint checkpoint, by_canonical_name(tensors));
  // All checks before the first byte is copied.
  int64_t total = 0;
  for (const WeightBuffer& weight : plan.weights) {
    int64_t bytes = size_bytes(weight.dtype);
    for (const int64_t extent : weight.shape) bytes *= extent;
    total += bytes;
    for (const WeightPart& part : weight.parts) {
      if (part.values.empty()) GM_TRY(find_tensors(checkpoint, weight, part));
    }
  }
  GM_TRY(check_layers(plan, checkpoint));
  WeightStore store;
  for (const WeightBuffer& weight : plan.weights) {
    const int64_t size = size_bytes(weight.dtype);
    int64_t bytes = size;
    for (const int64_t extent : weight.shape) bytes *= extent;
    GM_ASSIGN(Buffer buffer, memory.allocate(bytes, "weight " + weight.name));
    for (const WeightPart& part : weight.parts) {
      std::vector<std::byte> values;
      PartData data;
      if (part.values.empty()) {
        GM_ASSIGN(const auto found, find_tensors(checkpoint, weight, part));
        data = part_data(part, found, size);
      } else {
        values = values_data(part, weight.dtype);
        const auto count = static_cast<int64_t>(part.values.size());
        data.add(values.data(), 1, count, count);
      }
      if (weight.layout == "panels") {
        fill_panels(weight, part, data, threads, buffer.data());
        continue;
      }
      GM_CHECK(data.elements * size == bytes, "weight {} has {} bytes, its part gives {}",
               weight.name, bytes, data.elements * size);
      if (weight.layout == "transposed") {
        fill_transposed(weight, data, threads, buffer.data());
      } else {
        fill_dense(weight, data, threads, buffer.data());
      }
    }
    store.bytes_ += bytes;
    store.buffers_.emplace(weight.name, std::move(buffer));
    if (progress) progress(store.bytes_, total);
  }
  return store;
}

}  // namespace gm
