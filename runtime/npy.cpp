#include "runtime/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string>

#include "base/mapped_file.h"

namespace gm {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

template <class T>
Result<> write_array(const std::filesystem::path& path, std::string_view descr,
                     std::span<const int64_t> shape, std::span<const T> values) {
  size_t elements = 1;
  std::string extents;
  for (const int64_t extent : shape) {
    elements *= static_cast<size_t>(extent);
    extents += fmt::format("{}, ", extent);
  }
  GM_CHECK(elements == values.size(), "an array of {} elements with {} values", elements,
           values.size());
  // A tuple of one needs its comma, longer ones do not mind it.
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, extents);
  constexpr size_t kPreamble = 10, kAlignment = 64;  // the format wants the data aligned
  header.append((kAlignment - (kPreamble + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string file(kMagic);
  file += std::string("\x01\x00", 2);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  const size_t start = file.size();
  file.resize(start + values.size_bytes());
  if (!values.empty()) std::memcpy(file.data() + start, values.data(), values.size_bytes());
  return write_file_atomically(path, std::string_view(file));
}

// What follows `'key':` in the header; nothing if the key is not there.
std::optional<std::string_view> field(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return std::nullopt;
  header.remove_prefix(at + key.size() + 3);
  while (header.starts_with(' ')) header.remove_prefix(1);
  return header;
}

// "(2, 3)", "(2,)", "()"
std::optional<std::vector<int64_t>> extents_of(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  text.remove_prefix(1);
  std::vector<int64_t> shape;
  while (true) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text.starts_with(')')) return shape;
    int64_t extent = 0;
    const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (fault != std::errc() || extent < 0) return std::nullopt;
    shape.push_back(extent);
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text.starts_with(',')) {
      text.remove_prefix(1);
    } else if (!text.starts_with(')')) {
      return std::nullopt;
    }
  }
}

template <class Stored, class T>
std::vector<T> converted(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    values[i] = static_cast<T>(stored);
  }
  return values;
}

}  // namespace

Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const float> values) {
  return write_array(path, "<f4", shape, values);
}

Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const double> values) {
  return write_array(path, "<f8", shape, values);
}

Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const int64_t> values) {
  return write_array(path, "<i8", shape, values);
}

Result<NpyArray> read_npy(const std::filesystem::path& path) {
  GM_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  const auto refuse = [&](std::string_view what) {
    return err(Code::evaluate_input, Location::of_file(path.string()),
               "write it with numpy.save, as a row-major array of float32, float64, int32 or int64",
               "{}", what);
  };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) return refuse("the file is no .npy file");
  constexpr size_t kVersionAt = 6, kLengthAt = 8;
  if (text.size() < kLengthAt + 4) return refuse("the .npy file ends within its header");
  const auto byte = [&](size_t at) { return static_cast<size_t>(bytes[at]); };
  // The length of the header has two bytes in version 1, four later.
  const size_t length_bytes = byte(kVersionAt) == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= byte(kLengthAt + i) << (8 * i);
  const size_t start = kLengthAt + length_bytes;
  if (length > text.size() - start) return refuse("the .npy file ends within its header");
  const std::string_view header = text.substr(start, length);

  NpyArray array;
  const auto descr = field(header, "descr"), order = field(header, "fortran_order");
  const auto shape = field(header, "shape");
  if (!descr || !order || !shape) return refuse("the .npy file's header lacks a field");
  if (!order->starts_with("False")) return refuse("the array is not stored row by row");
  auto extents = extents_of(*shape);
  if (!extents) return refuse("the shape in the .npy file's header is not one");
  array.shape = *std::move(extents);
  const std::string type(descr->substr(0, 5));
  const size_t width = type == "'<f4'" || type == "'<i4'" ? 4 : 8;
  if (type != "'<f4'" && type != "'<f8'" && type != "'<i4'" && type != "'<i8'")
    return refuse(fmt::format("the array's elements are {}", descr->substr(0, descr->find(','))));

  size_t wanted = width;
  bool counts = true;
  for (const int64_t extent : array.shape)
    counts &= !__builtin_mul_overflow(wanted, static_cast<size_t>(extent), &wanted);
  const std::span<const std::byte> data = bytes.subspan(start + length);
  if (!counts || data.size() != wanted) {
    return refuse(fmt::format("an array of shape [{}] does not have {} bytes of data",
                              fmt::join(array.shape, ", "), data.size()));
  }
  array.floating = type[2] == 'f';
  if (type == "'<f4'") array.numbers = converted<float, double>(data);
  if (type == "'<f8'") array.numbers = converted<double, double>(data);
  if (type == "'<i4'") array.integers = converted<int32_t, int64_t>(data);
  if (type == "'<i8'") array.integers = converted<int64_t, int64_t>(data);
  return array;
}

}  // namespace gm
