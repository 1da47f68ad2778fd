#include "runtime/npy.h"

#include <cstring>
#include <string>

#include "base/mapped_file.h"

namespace gm {

Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const float> values) {
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
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents);
  constexpr size_t kPreamble = 10, kAlignment = 64;  // the format wants the data aligned
  header.append((kAlignment - (kPreamble + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  const size_t start = file.size();
  file.resize(start + values.size_bytes());
  if (!values.empty()) std::memcpy(file.data() + start, values.data(), values.size_bytes());
  return write_file_atomically(path, std::string_view(file));
}

}  // namespace gm
