#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "ir/algorithms.h"
#include "ir/graph_text.h"
#include "ops/ops.h"
#include "tools/graphmill/inspect.h"

namespace gm {
namespace {

// A folder of its own for the two files that go to and from Graphviz, removed with all in it.
class TempFolder {
 public:
  static Result<TempFolder> create() {
    std::error_code fault;
    std::string path = (std::filesystem::temp_directory_path(fault) / "graphmill-XXXXXX").string();
    if (fault || mkdtemp(path.data()) == nullptr) {
      return err(Code::file_write, Location::of_file(path),
                 "free space in the folder for temporary files, or set TMPDIR",
                 "no temporary folder can be made: {}",
                 fault ? fault.message() : std::strerror(errno));
    }
    return TempFolder(std::move(path));
  }
  TempFolder(TempFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempFolder& operator=(TempFolder&&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Whether a program is on the PATH is known only when it is run: 127 then.
Result<std::string> draw(const std::string& dot) {
  GM_ASSIGN(const TempFolder folder, TempFolder::create());
  const std::string in = folder.file("graph.dot"), out = folder.file("graph.svg");
  GM_TRY(write_file_atomically(in, dot));
  const pid_t child = fork();
  if (child == 0) {
    execlp("dot", "dot", "-Tsvg", "-o", out.c_str(), in.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const bool missing = child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127;
    return err(
        Code::command_line, {},
        "install Graphviz (its program `dot`), or take --dot and draw it elsewhere", "{}",
        missing ? "--svg needs Graphviz, which is not installed" : "Graphviz' dot has failed");
  }
  return read_text_file(out, 1u << 30);
}

}  // namespace

Result<> inspect_graph(const Plan& plan, const InspectFlags& flags) {
  if (flags.text + flags.dot + flags.svg > 1)
    return err(Code::command_line, {}, "give one of --text, --dot and --svg",
               "a graph has one form at a time");
  GM_ASSIGN(const Program* program, chosen_program(plan, flags));
  const std::string& text = plan.texts.at(program->graph);
  std::string result = text;
  if (flags.dot || flags.svg) {
    GM_ASSIGN(const Graph graph,
              parse_graph(text, flags.plan + ": " + program->graph, builtin_ops()));
    result = to_dot(graph);
  }
  if (flags.svg) {
    GM_ASSIGN(result, draw(result));
  }
  if (flags.json) {
    const std::string form = flags.svg ? "svg" : flags.dot ? "dot" : "text";
    result = write_json({{"schema", kInspectSchema},
                         {"program", program->name},
                         {"form", form},
                         {"graph", result}});
  }
  return write_text(flags.output, result);
}

}  // namespace gm
