// op_reference ops|codes            prints docs/ops.md or docs/codes.md
// op_reference ops|codes --check F  exits with 1 if F is another text
#include <cstdio>
#include <span>

#include "base/mapped_file.h"
#include "ops/ops.h"
#include "tools/dev/op_reference/pages.h"

int main(int argc, char** argv) {
  const std::span<char*> args(argv, static_cast<size_t>(argc));
  const std::string mode = args.size() > 1 ? args[1] : "";
  const bool check = args.size() == 4 && std::string_view(args[2]) == "--check";
  if ((mode != "ops" && mode != "codes") || (args.size() != 2 && !check)) {
    fmt::print(stderr, "usage: op_reference ops|codes [--check FILE]\n");
    return 1;
  }
  const std::string page = mode == "ops" ? gm::ops_page(gm::builtin_ops()) : gm::codes_page();
  if (!check) {
    fmt::print("{}", page);
    return 0;
  }
  const auto file = gm::read_text_file(args[3]);
  if (!file) {
    fmt::print(stderr, "{}", file.error().to_string());
    return 1;
  }
  if (*file == page) return 0;
  fmt::print(stderr, "error: {} is not what the declarations say\n  fix: op_reference {} > {}\n",
             args[3], mode, args[3]);
  return 1;
}
