#include "runtime/tokenizer.h"
#include "tools/common/output.h"
#include "tools/graphmill/commands.h"

namespace gm {
namespace {

struct TokenizeFlags {
  std::string folder, text, ids;
  CLI::Option* has_text = nullptr;
  CLI::Option* has_ids = nullptr;
  bool json = false;
};

constexpr int kSchema = 1;

Result<Exit> tokenize(const TokenizeFlags& flags) {
  const bool has_text = flags.has_text->count() > 0, has_ids = flags.has_ids->count() > 0;
  if (has_text == has_ids)
    return err(Code::command_line, {}, "see `graphmill tokenize --help`",
               "give either --text or --ids");
  GM_ASSIGN(const Tokenizer tokenizer, Tokenizer::open_folder(flags.folder));
  std::vector<int32_t> ids;
  std::string text = flags.text;
  if (has_text) {
    GM_ASSIGN(ids, tokenizer.encode(text));
  } else {
    GM_ASSIGN(const std::vector<int64_t> given, integer_list("--ids", flags.ids, 0, INT32_MAX));
    ids.assign(given.begin(), given.end());
    GM_ASSIGN(text, tokenizer.decode(ids));
  }
  if (flags.json) {
    print_json({{"schema", kSchema}, {"ids", ids}, {"text", text}});
  } else {
    print_text(has_text ? fmt::format("{}\n", fmt::join(ids, ",")) : text + "\n");
  }
  return Exit::ok;
}

}  // namespace

void add_tokenize(ProgramLine& program) {
  const auto flags = std::make_shared<TokenizeFlags>();
  CLI::App& command = program.command("tokenize", "turn text into ids, or ids into text",
                                      "tokenize qwen3.5-0.8b/ --text 'Hello world'",
                                      [flags] { return tokenize(*flags); });
  command.add_option("FOLDER", flags->folder, "the folder that holds tokenizer.json")->required();
  flags->has_text =
      command.add_option("--text", flags->text, "prints the ids, separated by commas");
  flags->has_ids = command.add_option("--ids", flags->ids, "prints the text")->type_name("1,2,3");
  command.add_flag("--json", flags->json, "print {\"schema\", \"ids\", \"text\"}");
}

}  // namespace gm
