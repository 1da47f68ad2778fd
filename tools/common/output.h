// Where results and news of the work go. Texts go to a file, or to stdout for "-"; what is going on
// goes to stderr: a bar on a terminal, plain lines elsewhere, nothing if it is to be quiet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"
#include "base/json.h"

namespace gm {

Result<> write_text(const std::string& path, std::string_view text);
void print_text(std::string_view text);  // to stdout
void print_json(const Json& value);      // to stdout

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // On a terminal one line that is written over; elsewhere a line when a stage is complete.
  void update(std::string_view stage, int64_t done, int64_t total);
  void end();  // leaves the terminal's line empty
  void line(std::string_view text);

 private:
  bool quiet_, terminal_;
  bool drawn_ = false;
  int percent_ = -1;
  std::string stage_;
};

// Rows of words in columns; the first row is the header. Column i is set flush right where right[i]
// is `r`.
std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       std::string_view right = {});

}  // namespace gm
