#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/diag.h"

namespace gm {
namespace {

std::string hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string digest(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest(std::string_view text) { return digest(std::as_bytes(std::span(text))); }

struct Digester::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    GM_CHECK(xxh != nullptr && XXH3_128bits_reset(xxh) == XXH_OK, "no state for a digest");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }
};

Digester::Digester() : state_(std::make_unique<State>()) {}
Digester::~Digester() = default;
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(Digester&&) noexcept = default;

void Digester::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Digester::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

std::string Digester::finish() const { return hex(XXH3_128bits_digest(state_->xxh)); }

}  // namespace gm
