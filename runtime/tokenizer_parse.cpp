// Reads tokenizer.json. Each object is read with the list of keys it may have, so that a setting
// which would change ids is never passed over.
#include <algorithm>
#include <initializer_list>

#include "base/json.h"
#include "runtime/byte_level.h"
#include "runtime/tokenizer.h"
#include "runtime/tokenizer_model.h"
#include "runtime/unicode_nfc.h"

namespace gm {
namespace {

constexpr size_t kMaxAddedTokenBytes = 256;
constexpr std::string_view kFamilyFix = "use the tokenizer.json of a Qwen3.5 model";

// A text of the file for a message: quoted, short, on one line.
std::string shown(std::string_view text) {
  constexpr size_t kMaxShown = 64;
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    if (out.size() > kMaxShown) {
      out += "..";
      break;
    }
    const size_t length = utf8_step(text.substr(at)).length;
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x20 || c == 0x7F || c == '"' || c == '\\') {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += utf8_lossy(text.substr(at, length));
    }
    at += length;
  }
  return out + "\"";
}

Error unsupported(const JsonView& view, std::string_view what) {
  return err(Code::tokenizer_unsupported, view.where(), std::string(kFamilyFix),
             "{} is not supported", what);
}

Result<> only_keys(const JsonView& view, std::initializer_list<std::string_view> keys) {
  GM_ASSIGN(const auto members, view.members());
  for (const auto& [key, value] : members) {
    if (std::ranges::find(keys, key) == keys.end())
      return unsupported(value, fmt::format("the setting {}", shown(key)));
  }
  return {};
}

Result<> expect_type(const JsonView& view, std::string_view type, std::string_view what) {
  GM_ASSIGN(const auto field, view.at("type"));
  GM_ASSIGN(const std::string found, field.string());
  if (found != type)
    return unsupported(field, fmt::format("the {} {} (only {} is)", what, shown(found), type));
  return {};
}

Result<> expect_null(const JsonView& view, std::string_view key) {
  if (const auto field = view.find(key))
    return unsupported(*field, fmt::format("the setting {}", key));
  return {};
}

// A boolean that must have this value; one that is absent counts as `absent`.
Result<> expect_boolean(const JsonView& view, std::string_view key, bool value, bool absent) {
  if (!view.has(key)) {
    if (absent == value) return {};
    return unsupported(view, fmt::format("leaving out {} (which means {})", key, absent));
  }
  GM_ASSIGN(const auto field, view.at(key));
  GM_ASSIGN(const bool found, field.boolean());
  if (found != value) return unsupported(field, fmt::format("{} = {}", key, found));
  return {};
}

class Reader {
 public:
  explicit Reader(const JsonView& root) : root_(root) {}

  Result<std::unique_ptr<const TokenizerModel>> run() {
    GM_TRY(only_keys(root_, {"version", "truncation", "padding", "added_tokens", "normalizer",
                             "pre_tokenizer", "post_processor", "decoder", "model"}));
    if (const auto version = root_.find("version")) {
      GM_ASSIGN(const std::string text, version->string());
      if (text != "1.0") return unsupported(*version, fmt::format("version {}", shown(text)));
    }
    GM_TRY(expect_null(root_, "truncation"));
    GM_TRY(expect_null(root_, "padding"));
    GM_TRY(post_processor());
    GM_TRY(decoder());
    GM_ASSIGN(TokenizerRegex regex, pre_tokenizer());
    model_ = std::make_unique<TokenizerModel>(TokenizerModel{.regex = std::move(regex)});
    GM_TRY(normalizer());
    GM_ASSIGN(const auto model, root_.at("model"));
    GM_TRY(model_settings(model));
    GM_ASSIGN(const auto vocab, model.at("vocab"));
    GM_TRY(read_vocab(vocab));
    GM_ASSIGN(const auto merges, model.at("merges"));
    GM_TRY(read_merges(merges));
    GM_TRY(added_tokens());
    model_->entries.assign(entries_);
    return std::move(model_);
  }

 private:
  Result<> normalizer() {
    const auto view = root_.find("normalizer");
    if (!view) return {};
    GM_TRY(expect_type(*view, "NFC", "normalizer"));
    GM_TRY(only_keys(*view, {"type"}));
    model_->nfc = true;
    return {};
  }

  Result<TokenizerRegex> pre_tokenizer() {
    GM_ASSIGN(const auto view, root_.at("pre_tokenizer"));
    GM_TRY(expect_type(view, "Sequence", "pre-tokenizer"));
    GM_TRY(only_keys(view, {"type", "pretokenizers"}));
    GM_ASSIGN(const auto list, view.at("pretokenizers"));
    GM_ASSIGN(const auto steps, list.items());
    if (steps.size() != 2)
      return unsupported(list, fmt::format("a sequence of {} pre-tokenizers (only Split and "
                                           "ByteLevel are)",
                                           steps.size()));
    GM_TRY(expect_type(steps[0], "Split", "pre-tokenizer"));
    GM_TRY(only_keys(steps[0], {"type", "pattern", "behavior", "invert"}));
    GM_ASSIGN(const auto behavior, steps[0].at("behavior"));
    GM_ASSIGN(const std::string behavior_text, behavior.string());
    if (behavior_text != "Isolated")
      return unsupported(behavior,
                         fmt::format("the behavior {} (only Isolated is)", shown(behavior_text)));
    GM_TRY(expect_boolean(steps[0], "invert", false, false));
    GM_TRY(expect_type(steps[1], "ByteLevel", "pre-tokenizer"));
    GM_TRY(only_keys(steps[1], {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    // The values that an absent key has are those of the library that writes these files.
    GM_TRY(expect_boolean(steps[1], "add_prefix_space", false, true));
    GM_TRY(expect_boolean(steps[1], "use_regex", false, true));
    GM_ASSIGN(const auto pattern, steps[0].at("pattern"));
    GM_TRY(only_keys(pattern, {"Regex"}));
    GM_ASSIGN(const auto regex, pattern.at("Regex"));
    GM_ASSIGN(const std::string text, regex.string());
    return TokenizerRegex::compile(text, regex.where());
  }

  // None may put a token anywhere; ByteLevel concerns offsets only.
  Result<> post_processor() {
    const auto view = root_.find("post_processor");
    if (!view) return {};
    GM_ASSIGN(const auto type, view->at("type"));
    GM_ASSIGN(const std::string name, type.string());
    if (name == "ByteLevel")
      return only_keys(*view, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (name != "TemplateProcessing")
      return unsupported(type, fmt::format("the post-processor {}", shown(name)));
    GM_TRY(only_keys(*view, {"type", "single", "pair", "special_tokens"}));
    for (const std::string_view key : {"single", "pair"}) {
      GM_ASSIGN(const auto list, view->at(key));
      GM_ASSIGN(const auto pieces, list.items());
      for (const JsonView& piece : pieces) {
        if (!piece.has("Sequence")) return unsupported(piece, "a template that adds tokens");
        GM_TRY(only_keys(piece, {"Sequence"}));
      }
      if (key == "single" && pieces.size() != 1)
        return unsupported(list, fmt::format("a template of {} pieces", pieces.size()));
    }
    return {};
  }

  Result<> decoder() {
    GM_ASSIGN(const auto view, root_.at("decoder"));
    GM_TRY(expect_type(view, "ByteLevel", "decoder"));
    return only_keys(view, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  Result<> model_settings(const JsonView& view) {
    GM_TRY(expect_type(view, "BPE", "model"));
    GM_TRY(only_keys(
        view, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
               "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
    if (const auto dropout = view.find("dropout")) {
      GM_ASSIGN(const double value, dropout->number());
      if (value != 0) return unsupported(*dropout, "a dropout");
    }
    GM_TRY(expect_null(view, "unk_token"));
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto field = view.find(key);
      if (!field) continue;
      GM_ASSIGN(const std::string text, field->string());
      if (!text.empty()) return unsupported(*field, fmt::format("the setting {}", key));
    }
    GM_TRY(expect_boolean(view, "fuse_unk", false, false));
    GM_TRY(expect_boolean(view, "byte_fallback", false, false));
    if (view.has("ignore_merges")) {
      GM_ASSIGN(const auto field, view.at("ignore_merges"));
      GM_ASSIGN(model_->ignore_merges, field.boolean());
    }
    return {};
  }

  Result<> read_vocab(const JsonView& view) {
    GM_ASSIGN(const auto members, view.members());
    if (members.size() > static_cast<size_t>(kMaxTokenIds))
      return err(Code::tokenizer_vocab, view.where(), "use a smaller vocabulary",
                 "{} entries; the limit is {}", members.size(), kMaxTokenIds);
    model_->vocab.reserve(members.size());
    model_->byte_ids.fill(-1);
    std::vector<std::pair<int32_t, size_t>> order;  // id, member
    order.reserve(members.size());
    for (const auto& [content, value] : members) {
      GM_ASSIGN(const int64_t number, value.integer(0, kMaxTokenIds - 1));
      const auto id = static_cast<int32_t>(number);
      order.emplace_back(id, order.size());
      if (const auto bytes = byte_level_bytes(content)) {
        model_->vocab.emplace(*bytes, id);
        if (bytes->size() == 1) model_->byte_ids[static_cast<uint8_t>(bytes->front())] = id;
        entries_.emplace_back(id, *bytes);
      } else {
        model_->other_vocab.emplace(content, id);
        entries_.emplace_back(id, content);
      }
    }
    std::ranges::sort(order);
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i].first != order[i - 1].first) continue;
      const auto& [content, value] = members[order[i].second];
      return err(Code::tokenizer_vocab, value.where(), "give each entry an id of its own",
                 "id {} is given to both {} and {}", order[i].first,
                 shown(members[order[i - 1].second].first), shown(content));
    }
    std::ranges::sort(entries_);
    return {};
  }

  Result<> read_merges(const JsonView& view) {
    GM_ASSIGN(const auto items, view.items());
    model_->merges.reserve(items.size());
    std::string pair;
    for (const JsonView& item : items) {
      std::string_view left;
      std::string_view right;
      const Json& json = item.json();
      if (json.is_string()) {
        pair = json.get_ref<const std::string&>();
        if (pair.starts_with("#version")) continue;  // the head of an old merges.txt, not a merge
        const size_t space = pair.find(' ');
        if (space == std::string::npos || pair.find(' ', space + 1) != std::string::npos)
          return err(Code::tokenizer_merge, item.where(), "write \"LEFT RIGHT\"",
                     "the merge {} is not two parts with one space between", shown(pair));
        left = std::string_view(pair).substr(0, space);
        right = std::string_view(pair).substr(space + 1);
      } else if (json.is_array() && json.size() == 2 && json[0].is_string() &&
                 json[1].is_string()) {
        left = json[0].get_ref<const std::string&>();
        right = json[1].get_ref<const std::string&>();
      } else {
        return err(Code::tokenizer_merge, item.where(), "write [\"LEFT\", \"RIGHT\"]",
                   "a merge must be a string or a pair of strings");
      }
      const auto left_id = model_->vocab_id(left);
      const auto right_id = model_->vocab_id(right);
      const auto merged_id = model_->vocab_id(std::string(left) + std::string(right));
      if (!left_id || !right_id || !merged_id)
        return err(Code::tokenizer_merge, item.where(),
                   "leave the merge out, or copy the file again",
                   "the merge of {} and {} needs {}, which the vocabulary does not have",
                   shown(left), shown(right),
                   shown(!left_id    ? std::string(left)
                         : !right_id ? std::string(right)
                                     : std::string(left) + std::string(right)));
      if (left.empty() || right.empty() || !model_->merges.add(*left_id, *right_id, *merged_id))
        return err(Code::tokenizer_merge, item.where(), "leave it out",
                   "the merge of {} and {} is {}", shown(left), shown(right),
                   left.empty() || right.empty() ? "of nothing" : "there twice");
    }
    return {};
  }

  Result<> added_tokens() {
    const auto list = root_.find("added_tokens");
    if (!list) return {};
    GM_ASSIGN(const auto items, list->items());
    const size_t vocab_entries = entries_.size();
    for (const JsonView& item : items) GM_TRY(added_token(item, vocab_entries));
    std::ranges::sort(entries_);
    return {};
  }

  Result<> added_token(const JsonView& view, size_t vocab_entries) {
    GM_TRY(only_keys(
        view, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
    GM_ASSIGN(const auto id_field, view.at("id"));
    GM_ASSIGN(const int64_t number, id_field.integer(0, kMaxTokenIds - 1));
    const auto id = static_cast<int32_t>(number);
    GM_ASSIGN(const auto content_field, view.at("content"));
    GM_ASSIGN(const std::string content, content_field.string());
    GM_ASSIGN(const auto normalized_field, view.at("normalized"));
    GM_ASSIGN(const bool normalized, normalized_field.boolean());
    GM_ASSIGN(const auto special_field, view.at("special"));
    GM_ASSIGN(const bool special, special_field.boolean());
    for (const std::string_view key : {"single_word", "lstrip", "rstrip"})
      GM_TRY(expect_boolean(view, key, false, false));

    if (content.empty() || content.size() > kMaxAddedTokenBytes)
      return err(Code::tokenizer_added, content_field.where(), "leave the token out, or shorten it",
                 "an added token must have 1 to {} bytes; this has {}", kMaxAddedTokenBytes,
                 content.size());
    if (!model_->added.emplace(content, id).second)
      return err(Code::tokenizer_added, content_field.where(), "leave one of them",
                 "the added token {} is there twice", shown(content));
    if (const auto in_vocab = model_->vocab_id(content)) {
      if (*in_vocab != id)
        return err(Code::tokenizer_added, id_field.where(), "give it the id of the vocabulary",
                   "the added token {} has id {}, and id {} in the vocabulary", shown(content), id,
                   *in_vocab);
    } else {
      const auto vocab_end = entries_.begin() + static_cast<ptrdiff_t>(vocab_entries);
      const auto taken =
          std::ranges::lower_bound(entries_.begin(), vocab_end, id, {}, &Entry::first);
      if ((taken != vocab_end && taken->first == id) || !added_ids_.insert(id).second)
        return err(Code::tokenizer_added, id_field.where(), "give it an id of its own",
                   "the added token {} has id {}, which another entry has", shown(content), id);
      // The decoder reads added tokens in the byte-level alphabet too, as far as they are written
      // in it.
      entries_.emplace_back(id, byte_level_bytes(content).value_or(content));
    }
    if (special) model_->special.insert(id);
    if (!normalized) {
      model_->raw_added.add(content, id);  // new, since `added` had none of this content
    } else if (!model_->normalized_added.add(model_->nfc ? unicode_nfc(content) : content, id)) {
      return err(Code::tokenizer_added, content_field.where(), "leave one of them",
                 "the added token {} is there twice after normalisation", shown(content));
    }
    return {};
  }

  using Entry = std::pair<int32_t, std::string>;

  const JsonView& root_;
  std::unique_ptr<TokenizerModel> model_;
  std::vector<Entry> entries_;  // id and bytes
  std::set<int32_t> added_ids_;
};

}  // namespace

Result<Tokenizer> Tokenizer::parse(std::string_view json_text,
                                   const std::string& file_for_messages) {
  GM_ASSIGN(const Json json, parse_json(json_text, file_for_messages));
  const JsonView root(json, file_for_messages);
  GM_ASSIGN(auto model, Reader(root).run());
  return Tokenizer(std::move(model));
}

}  // namespace gm
