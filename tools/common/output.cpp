#include "tools/common/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/mapped_file.h"

namespace gm {

Result<> write_text(const std::string& path, std::string_view text) {
  if (path != "-") return write_file_atomically(path, text);
  print_text(text);
  return {};
}

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }
void print_json(const Json& value) { print_text(write_json(value)); }

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::update(std::string_view stage, int64_t done, int64_t total) {
  if (quiet_ || total <= 0) return;
  const int percent =
      static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (stage == stage_ && percent == percent_) return;
  stage_ = stage;
  percent_ = percent;
  if (terminal_) {
    constexpr int kWidth = 30;
    const int filled = std::clamp(percent * kWidth / 100, 0, kWidth);
    fmt::print(stderr, "\r\x1b[K{} [{}{}] {:3}%", stage,
               std::string(static_cast<size_t>(filled), '#'),
               std::string(static_cast<size_t>(kWidth - filled), ' '), percent);
    std::fflush(stderr);
    drawn_ = true;
  } else if (done >= total) {
    fmt::print(stderr, "{}: done\n", stage);
  }
}

void Progress::end() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

void Progress::line(std::string_view text) {
  if (quiet_) return;
  end();
  fmt::print(stderr, "{}\n", text);
}

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::string_view right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < right.size() && right[i] == 'r' ? fmt::format("{:>{}}", row[i], widths[i])
                                                  : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace gm
