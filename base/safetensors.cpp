#include "base/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/json.h"

namespace gm {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100u << 20;  // the format's own limit
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kRefetch =
    "fetch the file again: it is damaged or not a safetensors file";

constexpr std::array<std::pair<std::string_view, int64_t>, 15> kDTypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"U16", 2},
    {"I16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"U32", 4},
    {"I32", 4},
    {"F32", 4},
    {"U64", 8},
    {"I64", 8},
    {"F64", 8},
}};

// The fault of a field of one entry, under the code that says which kind of thing is wrong.
Error recode(Diag diag, Code code) {
  diag.code = code;
  diag.fix = kRefetch;
  return Error(std::move(diag));
}

struct Extent {
  uint64_t begin, end;
  std::string name;
  auto operator<=>(const Extent&) const = default;
};

struct Entry {
  StoredTensor tensor;
  Extent extent;
};

Result<Entry> read_entry(const std::string& name, const JsonView& view, const std::string& file,
                         std::span<const std::byte> data) {
  if (!view.is_object()) {
    return err(Code::safetensors_entry, view.where(), std::string(kRefetch),
               "the entry of a tensor must be an object");
  }
  Entry entry{{name, {}, {}, file, {}}, {}};
  StoredTensor& tensor = entry.tensor;

  auto dtype_view = view.at("dtype");
  if (!dtype_view) return recode(std::move(dtype_view).error(), Code::safetensors_entry);
  auto dtype = dtype_view->string();
  if (!dtype) return recode(std::move(dtype).error(), Code::safetensors_entry);
  tensor.dtype = *std::move(dtype);
  const std::optional<int64_t> element_bytes = stored_dtype_bytes(tensor.dtype);
  if (!element_bytes) {
    return err(Code::safetensors_dtype, dtype_view->where(),
               "convert the checkpoint to BF16, F16 or F32", "unknown dtype \"{}\"", tensor.dtype);
  }

  auto shape_view = view.at("shape");
  if (!shape_view) return recode(std::move(shape_view).error(), Code::safetensors_entry);
  auto dims = shape_view->items();
  if (!dims) return recode(std::move(dims).error(), Code::safetensors_entry);
  int64_t bytes = *element_bytes;
  bool overflow = false;
  for (const JsonView& dim : *dims) {
    auto extent = dim.integer(0);
    if (!extent) return recode(std::move(extent).error(), Code::safetensors_shape);
    tensor.shape.push_back(*extent);
    // A zero dim after an overflow makes the tensor empty in mathematics, and still no real file
    // says so.
    overflow |= __builtin_mul_overflow(bytes, *extent, &bytes);
  }
  if (overflow) {
    return err(Code::safetensors_shape, shape_view->where(), std::string(kRefetch),
               "the tensor would take more than 2^63 bytes");
  }

  auto offsets_view = view.at("data_offsets");
  if (!offsets_view) return recode(std::move(offsets_view).error(), Code::safetensors_entry);
  auto offsets = offsets_view->items();
  if (!offsets) return recode(std::move(offsets).error(), Code::safetensors_entry);
  if (offsets->size() != 2) {
    return err(Code::safetensors_entry, offsets_view->where(), std::string(kRefetch),
               "expected two offsets, found {}", offsets->size());
  }
  auto begin = (*offsets)[0].integer(0);
  if (!begin) return recode(std::move(begin).error(), Code::safetensors_offsets);
  auto end = (*offsets)[1].integer(0);
  if (!end) return recode(std::move(end).error(), Code::safetensors_offsets);
  if (*begin > *end) {
    return err(Code::safetensors_offsets, offsets_view->where(), std::string(kRefetch),
               "the data begins at {}, behind its end {}", *begin, *end);
  }
  if (static_cast<uint64_t>(*end) > data.size()) {
    return err(Code::safetensors_offsets, offsets_view->where(),
               "fetch the file again: it seems cut off",
               "the data ends at {}, but the file has {} bytes of data", *end, data.size());
  }
  if (*end - *begin != bytes) {
    return err(Code::safetensors_offsets, offsets_view->where(), std::string(kRefetch),
               "the offsets span {} bytes, but dtype and shape need {}", *end - *begin, bytes);
  }
  tensor.data = data.subspan(static_cast<size_t>(*begin), static_cast<size_t>(bytes));
  entry.extent = {static_cast<uint64_t>(*begin), static_cast<uint64_t>(*end), name};
  return entry;
}

Result<> check_metadata(const JsonView& view) {
  auto members = view.members();
  if (!members) return recode(std::move(members).error(), Code::safetensors_metadata);
  for (const auto& [key, value] : *members) {
    if (auto text = value.string(); !text)
      return recode(std::move(text).error(), Code::safetensors_metadata);
  }
  return {};
}

// The format wants the data covered by the tensors, each byte once: anything else is damage or
// hides something.
Result<> check_extents(std::vector<Extent> extents, const std::string& file, uint64_t data_bytes,
                       uint64_t data_offset) {
  std::sort(extents.begin(), extents.end());
  uint64_t covered = 0;
  const Extent* previous = nullptr;
  for (const Extent& extent : extents) {
    if (extent.begin < covered) {
      return err(Code::safetensors_overlap, Location::of_path(file, extent.name),
                 std::string(kRefetch), "the data of tensors \"{}\" and \"{}\" overlap",
                 previous->name, extent.name);
    }
    if (extent.begin > covered) break;
    covered = extent.end;
    previous = &extent;
  }
  if (covered == data_bytes) return {};
  const auto next = std::find_if(extents.begin(), extents.end(),
                                 [&](const Extent& e) { return e.begin > covered; });
  const uint64_t hole_end = next == extents.end() ? data_bytes : next->begin;
  return err(Code::safetensors_hole,
             Location::of_offset(file, static_cast<int64_t>(data_offset + covered)),
             std::string(kRefetch), "{} bytes {} belong to no tensor", hole_end - covered,
             next == extents.end() ? std::string("at the end")
                                   : fmt::format("before tensor \"{}\"", next->name));
}

using TensorMap = std::map<std::string, StoredTensor, std::less<>>;

Result<TensorMap> read_tensors(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < 8) {
    return err(Code::safetensors_header, Location::of_offset(file, 0), std::string(kRefetch),
               "a safetensors file has at least 8 bytes, this one has {}", bytes.size());
  }
  uint64_t header_bytes = 0;
  for (int i = 0; i < 8; ++i) header_bytes |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  if (header_bytes > kMaxHeaderBytes) {
    return err(Code::safetensors_header, Location::of_offset(file, 0), std::string(kRefetch),
               "the header would take {} bytes, more than the format's limit of {}", header_bytes,
               kMaxHeaderBytes);
  }
  if (header_bytes > bytes.size() - 8) {
    return err(Code::safetensors_header, Location::of_offset(file, 0),
               "fetch the file again: it seems cut off",
               "the header would take {} bytes, but only {} follow", header_bytes,
               bytes.size() - 8);
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  const std::span<const std::byte> data = bytes.subspan(8 + header_bytes);

  auto parsed = parse_json(header, file);
  if (!parsed) {
    Diag diag = std::move(parsed).error();
    if (diag.code == Code::json_duplicate) diag.code = Code::safetensors_duplicate;
    diag.fix = kRefetch;
    return Error(std::move(diag).note(
        "line and column count from the header's first byte, 8 into the file"));
  }
  const JsonView root(*parsed, file);
  if (!root.is_object()) {
    return err(Code::safetensors_header, Location::of_offset(file, 8), std::string(kRefetch),
               "the header must be a JSON object");
  }

  TensorMap tensors;
  std::vector<Extent> extents;
  GM_ASSIGN(const auto members, root.members());
  for (const auto& [name, view] : members) {
    if (name == "__metadata__") {
      GM_TRY(check_metadata(view));
      continue;
    }
    GM_ASSIGN(Entry entry, read_entry(name, view, file, data));
    extents.push_back(std::move(entry.extent));
    tensors.emplace(name, std::move(entry.tensor));
  }
  GM_TRY(check_extents(std::move(extents), file, data.size(), 8 + header_bytes));
  return tensors;
}

// Tensor name to shard name.
using WeightMap = std::map<std::string, std::string, std::less<>>;

Result<WeightMap> read_index(const std::filesystem::path& path) {
  GM_ASSIGN(const Json document, read_json(path));
  constexpr std::string_view fix = "write the index again with the tool that wrote the shards";
  const auto fault = [&](Diag diag) {
    diag.code = Code::safetensors_index;
    diag.fix = fix;
    return Error(std::move(diag));
  };
  const JsonView root(document, path.string());
  auto view = root.at("weight_map");
  if (!view) return fault(std::move(view).error());
  auto members = view->members();
  if (!members) return fault(std::move(members).error());
  WeightMap map;
  for (const auto& [name, value] : *members) {
    auto shard = value.string();
    if (!shard) return fault(std::move(shard).error());
    // The index is as little trusted as the rest: it must not lead out of its folder.
    const bool plain = !shard->empty() && *shard != "." && *shard != ".." &&
                       shard->find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      return err(Code::safetensors_index, value.where(), std::string(fix),
                 "\"{}\" is not a plain file name in the same folder", *shard);
    }
    map.emplace(name, *std::move(shard));
  }
  return map;
}

}  // namespace

std::optional<int64_t> stored_dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDTypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

Result<SafeTensors> SafeTensors::open_file(const std::filesystem::path& file) {
  SafeTensors result;
  GM_ASSIGN(std::shared_ptr<const MappedFile> mapped, MappedFile::open(file));
  GM_ASSIGN(result.tensors_, read_tensors(mapped->bytes(), file.string()));
  result.files_.push_back(std::move(mapped));
  return result;
}

Result<SafeTensors> SafeTensors::open_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path index = folder / kIndexName;
  const std::filesystem::path single = folder / "model.safetensors";
  if (!std::filesystem::exists(index, ignored)) {
    if (!std::filesystem::exists(single, ignored)) {
      return err(Code::file_open, Location::of_file(folder.string()),
                 "give the folder of a downloaded model",
                 "{} holds neither model.safetensors nor {}", folder.string(), kIndexName);
    }
    return open_file(single);
  }

  GM_ASSIGN(const WeightMap weight_map, read_index(index));
  std::map<std::string, std::string> shards;  // shard -> a tensor of it, to say who needs it
  for (const auto& [name, shard] : weight_map) shards.emplace(shard, name);

  SafeTensors result;
  for (const auto& [shard, first_tensor] : shards) {
    const std::filesystem::path path = folder / shard;
    if (!std::filesystem::exists(path, ignored)) {
      return err(Code::safetensors_shard,
                 Location::of_path(index.string(), "weight_map." + first_tensor),
                 "fetch the missing file", "shard {} is missing", path.string());
    }
    GM_ASSIGN(std::shared_ptr<const MappedFile> mapped, MappedFile::open(path));
    GM_ASSIGN(TensorMap tensors, read_tensors(mapped->bytes(), path.string()));
    for (auto& [name, tensor] : tensors) {
      const auto mapped_to = weight_map.find(name);
      if (mapped_to == weight_map.end()) {
        return err(Code::safetensors_shard_contents, Location::of_path(path.string(), name),
                   "fetch index and shards again, from one version",
                   "tensor \"{}\" of shard {} is not in {}", name, shard, kIndexName);
      }
      if (const auto [before, fresh] = result.tensors_.emplace(name, std::move(tensor)); !fresh) {
        return err(Code::safetensors_duplicate, Location::of_path(path.string(), name),
                   "fetch index and shards again, from one version", "tensor \"{}\" is also in {}",
                   name, before->second.file);
      }
      if (mapped_to->second != shard) {
        return err(Code::safetensors_shard_contents, Location::of_path(path.string(), name),
                   "fetch index and shards again, from one version",
                   "tensor \"{}\" is in shard {}, but {} says {}", name, shard, kIndexName,
                   mapped_to->second);
      }
    }
    result.files_.push_back(std::move(mapped));
  }
  for (const auto& [name, shard] : weight_map) {
    if (result.find(name) == nullptr) {
      return err(Code::safetensors_shard_contents,
                 Location::of_path(index.string(), "weight_map." + name),
                 "fetch index and shards again, from one version",
                 "tensor \"{}\" is not in shard {}", name, shard);
    }
  }
  return result;
}

const StoredTensor* SafeTensors::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace gm
