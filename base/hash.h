// Content digests: XXH3-128 as 32 lower-case hex digits. Against damage, not against malice.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gm {

std::string digest(std::span<const std::byte> bytes);
std::string digest(std::string_view text);

// The same digest over pieces.
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(Digester&&) noexcept;
  Digester& operator=(Digester&&) noexcept;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  std::string finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gm
