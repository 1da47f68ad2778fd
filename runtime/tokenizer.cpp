#include "runtime/tokenizer.h"

#include <algorithm>

#include "base/mapped_file.h"
#include "runtime/byte_level.h"
#include "runtime/tokenizer_model.h"
#include "runtime/unicode_nfc.h"

namespace gm {
namespace {

constexpr size_t kMaxTextBytes = size_t{64}
                                 << 20;  // merging takes some 30 bytes a byte of one long word

// One call of encode(): the output and the working memory of the merging.
class Encoder {
 public:
  explicit Encoder(const TokenizerModel& model) : model_(model) {}

  Result<std::vector<int32_t>> run(std::string_view text) {
    GM_TRY(between(model_.raw_added, text, [&](std::string_view part) -> Result<> {
      // Each part by itself: an added token also ends what may compose.
      if (!model_.nfc) return normalized(part);
      return normalized(unicode_nfc(part));
    }));
    return std::move(ids_);
  }

 private:
  // Emits the added tokens that `finder` finds, and calls `rest` for what is between.
  template <class F>
  Result<> between(const AddedTokenFinder& finder, std::string_view text, F&& rest) {
    size_t at = 0;
    while (at < text.size()) {
      const auto match = finder.next(text, at);
      const size_t end = match ? match->start : text.size();
      if (end > at) GM_TRY(rest(text.substr(at, end - at)));
      if (!match) break;
      ids_.push_back(match->id);
      at = match->start + match->length;
    }
    return {};
  }

  Result<> normalized(std::string_view text) {
    return between(model_.normalized_added, text, [&](std::string_view part) -> Result<> {
      GM_ASSIGN(const auto pieces, model_.regex.split(part));
      for (const std::string_view piece : pieces) GM_TRY(word(piece));
      return {};
    });
  }

  Result<> word(std::string_view bytes) {
    if (model_.ignore_merges) {
      if (const auto whole = model_.vocab.find(bytes); whole != model_.vocab.end()) {
        ids_.push_back(whole->second);
        return {};
      }
    }
    symbols_.clear();
    for (const char c : bytes) {
      const int32_t id = model_.byte_ids[static_cast<uint8_t>(c)];
      if (id < 0)
        return err(Code::tokenizer_text, {}, "use the tokenizer that belongs to the model",
                   "the vocabulary has no entry for the byte 0x{:02X}, which the text needs",
                   static_cast<uint8_t>(c));
      symbols_.push_back(id);
    }
    model_.merges.apply(symbols_, scratch_, ids_);
    return {};
  }

  const TokenizerModel& model_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> symbols_;
  MergeTable::Scratch scratch_;
};

}  // namespace

bool AddedTokenFinder::add(std::string_view text, int32_t id) {
  if (!ids_.emplace(text, id).second) return false;
  const auto first = static_cast<uint8_t>(text.front());
  auto& lengths = lengths_[first];
  const auto place = std::ranges::lower_bound(lengths, text.size(), std::greater{});
  if (place == lengths.end() || *place != text.size()) lengths.insert(place, text.size());
  return true;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::next(std::string_view text,
                                                              size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    const auto first = static_cast<uint8_t>(text[at]);
    for (const size_t length : lengths_[first]) {
      if (length > text.size() - at) continue;
      if (const auto found = ids_.find(text.substr(at, length)); found != ids_.end())
        return Match{at, length, found->second};
    }
  }
  return std::nullopt;
}

void TokenEntries::assign(const std::vector<std::pair<int32_t, std::string>>& entries) {
  offsets_.reserve(entries.size() + 1);
  for (const auto& [id, bytes] : entries) {
    if (ranges_.empty() || ranges_.back().second != id) {
      ranges_.emplace_back(id, id);
      first_index_.push_back(offsets_.size());
    }
    ++ranges_.back().second;
    offsets_.push_back(bytes_.size());
    bytes_ += bytes;
  }
  offsets_.push_back(bytes_.size());
}

std::optional<std::string_view> TokenEntries::find(int32_t id) const {
  // The last range that starts at or before the id.
  const auto after = std::ranges::upper_bound(ranges_, id, {}, &std::pair<int32_t, int32_t>::first);
  if (after == ranges_.begin()) return std::nullopt;
  const auto range = after - 1;
  if (id >= range->second) return std::nullopt;
  const size_t index = first_index_[static_cast<size_t>(range - ranges_.begin())] +
                       static_cast<size_t>(id - range->first);
  return std::string_view(bytes_).substr(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerModel> model) : model_(std::move(model)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::open_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  GM_ASSIGN(const std::string text, read_text_file(path));
  return parse(text, path.string());
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view utf8) const {
  if (utf8.size() > kMaxTextBytes)
    return err(Code::tokenizer_text, {}, "cut the text", "the text has {} bytes; the limit is {}",
               utf8.size(), kMaxTextBytes);
  if (const auto bad = utf8_error_offset(utf8))
    return err(Code::tokenizer_text, Location::of_offset("text", static_cast<int64_t>(*bad)),
               "give the text as UTF-8", "the text is not valid UTF-8 at byte {} (0x{:02X})", *bad,
               static_cast<uint8_t>(utf8[*bad]));
  return Encoder(*model_).run(utf8);
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto entry = model_->entries.find(ids[i]);
    if (!entry)
      return err(Code::tokenizer_id, {}, "give ids of this tokenizer only",
                 "token id {} has no entry in the tokenizer", ids[i]);
    if (skip_special && is_special(ids[i])) continue;
    bytes += *entry;
  }
  return utf8_lossy(bytes);
}

std::optional<int32_t> TokenizerModel::vocab_id(std::string_view content) const {
  const auto bytes = byte_level_bytes(content);
  const TokenIds& ids = bytes ? vocab : other_vocab;
  const auto found = ids.find(bytes ? std::string_view(*bytes) : content);
  return found == ids.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> Tokenizer::token_id(std::string_view content) const {
  const auto found = model_->added.find(content);
  return found == model_->added.end() ? model_->vocab_id(content) : found->second;
}

bool Tokenizer::has_entry(int32_t id) const { return model_->entries.find(id).has_value(); }

bool Tokenizer::is_special(int32_t id) const { return model_->special.contains(id); }

int32_t Tokenizer::id_limit() const {
  const auto& ranges = model_->entries.ranges();
  return ranges.empty() ? 0 : ranges.back().second;
}

std::vector<std::pair<int32_t, int32_t>> Tokenizer::entry_ranges() const {
  return model_->entries.ranges();
}

std::string Tokenizer::token_bytes(int32_t id) const {
  return std::string(model_->entries.find(id).value_or(std::string_view{}));
}

}  // namespace gm
