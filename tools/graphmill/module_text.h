// Files of IR text: graphs, each perhaps followed by its regions, or kernels.
#pragma once

#include <string>
#include <vector>

#include "compiler/module.h"

namespace gm {

struct ModuleText {
  Module module;                // the graphs, one unit each
  std::vector<Kernel> kernels;  // or the kernels of a file that holds kernels
};

// Each thing starts in the first column of a line: `graph @name {`, `regions {`, `kernel @name {`.
// "-" reads stdin.
Result<ModuleText> read_module_text(const std::string& path);
Result<ModuleText> parse_module_text(std::string_view text, const std::string& file);

}  // namespace gm
