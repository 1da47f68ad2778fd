#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/counter_random.h"
#include "base/dtype.h"
#include "compiler/pipeline.h"
#include "ir/nearest.h"
#include "ops/reference.h"
#include "runtime/npy.h"
#include "tools/common/output.h"
#include "tools/graphmill/commands.h"
#include "tools/graphmill/module_text.h"

namespace gm {
namespace {

struct EvalFlags {
  std::string file, graph, dtype = "f32", dims, output;
  std::vector<std::string> inputs;
  uint64_t seed = 0;
  CLI::Option* has_seed = nullptr;
};

using Dims = std::map<std::string, int64_t, std::less<>>;

std::vector<std::string> symbol_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const SymInfo& symbol : graph.symbols.symbols()) names.push_back(symbol.name);
  return names;
}

// What comes from outside: inputs, states and weights.
std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::result) names.push_back(value.name);
  }
  return names;
}

std::string range_text(const SymInfo& symbol) {
  std::string text =
      symbol.hi ? fmt::format("from {} to {}", symbol.lo.to_string(), symbol.hi->to_string())
                : fmt::format("{} or more", symbol.lo.to_string());
  if (symbol.multiple_of > 1) text += fmt::format(", a multiple of {}", symbol.multiple_of);
  return text;
}

Result<Dims> parse_dims(const std::string& text, const Graph& graph) {
  Dims dims;
  for (const std::string& word : name_list(text)) {
    const size_t equals = word.find('=');
    int64_t value = 0;
    const char* end = word.data() + word.size();
    if (equals == std::string::npos) {
      return err(Code::command_line, {}, "write it as in --dims tokens=4,seqs=2",
                 "'{}' in --dims has no value", word);
    }
    const auto [stop, fault] = std::from_chars(word.data() + equals + 1, end, value);
    if (fault != std::errc() || stop != end) {
      return err(Code::command_line, {}, "write it as in --dims tokens=4,seqs=2",
                 "'{}' in --dims gives no integer", word);
    }
    const std::string name = word.substr(0, equals);
    if (graph.symbols.find(name) == nullptr) {
      const std::string nearest = nearest_name(name, symbol_names(graph));
      return err(Code::command_line, {},
                 nearest.empty() ? "leave --dims out" : fmt::format("did you mean '{}'?", nearest),
                 "graph @{} has no symbol '{}'", graph.name, name);
    }
    if (!dims.emplace(name, value).second) {
      return err(Code::command_line, {}, "give each symbol one value", "--dims gives '{}' twice",
                 name);
    }
  }
  return dims;
}

// A value for each symbol, in its range.
Result<Dims> dims_of(const EvalFlags& flags, const Graph& graph) {
  GM_ASSIGN(Dims dims, parse_dims(flags.dims, graph));
  for (const SymInfo& symbol : graph.symbols.symbols()) {
    if (dims.contains(symbol.name)) continue;
    const auto lo = symbol.lo.constant(), hi = symbol.hi ? symbol.hi->constant() : std::nullopt;
    if (!lo || lo != hi) {
      return err(Code::evaluate_input, Location::of_path(flags.file, symbol.name),
                 fmt::format("give --dims {}=N, N {}", symbol.name, range_text(symbol)),
                 "symbol {} has no value", symbol.name);
    }
    dims.emplace(symbol.name, *lo);
  }
  for (const SymInfo& symbol : graph.symbols.symbols()) {
    const int64_t value = dims.at(symbol.name);
    const auto lo = symbol.lo.evaluate(dims);
    const auto hi = symbol.hi ? symbol.hi->evaluate(dims) : std::nullopt;
    if (!lo || value < *lo || (symbol.hi && (!hi || value > *hi)) ||
        value % symbol.multiple_of != 0) {
      return err(Code::evaluate_input, Location::of_path(flags.file, symbol.name),
                 fmt::format("give --dims {}=N, N {}", symbol.name, range_text(symbol)),
                 "symbol {} cannot be {}", symbol.name, value);
    }
  }
  return dims;
}

// The shape of a value; its elements are few enough to be held.
Result<std::vector<int64_t>> shape_of(const Value& value, const Dims& dims,
                                      const std::string& file) {
  constexpr int64_t kMostElements = int64_t{1} << 31;
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const SymExpr& dim : value.type.shape) {
    const auto extent = dim.evaluate(dims);
    if (!extent || *extent < 0 || __builtin_mul_overflow(count, *extent, &count) ||
        count > kMostElements) {
      return err(
          Code::evaluate_input, Location::of_path(file, value.name), "give --dims other values",
          "{} has no size at these values, or more than 2^31 elements", value.type.to_string());
    }
    shape.push_back(*extent);
  }
  return shape;
}

int64_t count_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

int64_t most_of(DType dtype) { return dtype == DType::i8 ? INT8_MAX : INT32_MAX; }

template <class T>
Result<RefTensor<T>> read_tensor(const Value& value, std::vector<int64_t> shape,
                                 const std::string& file) {
  GM_ASSIGN(const NpyArray array, read_npy(file));
  const Location where = Location::of_path(file, value.name);
  const bool floating = is_float(value.type.dtype);
  if (array.floating != floating) {
    return err(Code::evaluate_input, where,
               fmt::format("save it as {}", floating ? "float32" : "int32"),
               "{} is {}, but the file holds {}", value.name, value.type.to_string(),
               array.floating ? "floats" : "integers");
  }
  if (array.shape != shape) {
    return err(Code::evaluate_input, where, "save an array of that shape, or give other --dims",
               "{} is of shape [{}] at these values, but the file's array of [{}]", value.name,
               fmt::join(shape, ", "), fmt::join(array.shape, ", "));
  }
  RefTensor<T> tensor{.shape = std::move(shape), .data = {}, .ints = array.integers};
  const int64_t most = most_of(value.type.dtype);
  for (const int64_t x : tensor.ints) {
    if (x > most || x < -most - 1) {
      return err(Code::evaluate_input, where, "save values of that dtype", "{} is no value of {}",
                 x, to_string(value.type.dtype));
    }
  }
  for (const double x : array.numbers)
    tensor.data.push_back(static_cast<T>(round_to(value.type.dtype, static_cast<float>(x))));
  return tensor;
}

// Integers that keep a contract: sequence starts evenly spaced; what must differ or be consecutive
// counts up, and where that ends goes on with rows that are masked; all else random within the
// bounds, and not negative where the bounds allow it.
template <class T>
Result<RefTensor<T>> random_integers(const Value& value, std::vector<int64_t> shape,
                                     const Dims& dims, const EvalFlags& flags) {
  const auto refuse = [&](std::string_view why) {
    return err(Code::evaluate_input, Location::of_path(flags.file, value.name),
               fmt::format("give --input {}=FILE.npy", value.name),
               "{} cannot be filled at random: {}", value.name, why);
  };
  if (!value.contract) return refuse("it has no contract that says which integers it may hold");
  const Contract& contract = *value.contract;
  const auto lowest = contract.lo.evaluate(dims);
  const auto hi = contract.hi ? contract.hi->evaluate(dims) : std::nullopt;
  const auto total = contract.total ? contract.total->evaluate(dims) : std::nullopt;
  const int64_t count = count_of(shape);
  RefTensor<T> tensor{.shape = std::move(shape), .data = {}, .ints = {}};
  if (!lowest) return refuse("its lower bound has no value");
  const int64_t lo = std::max<int64_t>(*lowest, 0), most = most_of(value.type.dtype);
  if (lo > most || (hi && *hi > most + 1) || (total && *total > most))
    return refuse("its bounds lie beyond its dtype");
  if (contract.monotone) {
    if (!total || *total < 0 || count < 1) return refuse("it ascends to no given total");
    for (int64_t i = 0; i < count; ++i)
      tensor.ints.push_back(count == 1 ? 0 : *total * i / (count - 1));
    return tensor;
  }
  const bool counts_up = contract.distinct || contract.consecutive;
  if (!counts_up && (!hi || *hi <= lo))
    return refuse("its bounds leave no integers to choose from");
  const uint64_t stream = random_stream(value.name);
  for (int64_t i = 0; i < count; ++i) {
    if (counts_up) {
      const bool beyond = hi && lo + i >= *hi;
      tensor.ints.push_back(beyond && contract.masked && *lowest < 0 ? -1 : lo + i);
      continue;
    }
    const auto index = static_cast<uint64_t>(i);
    const auto block =
        philox4x32({static_cast<uint32_t>(index / 4), static_cast<uint32_t>(index / 4 >> 32),
                    static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                   {static_cast<uint32_t>(flags.seed), static_cast<uint32_t>(flags.seed >> 32)});
    const uint64_t scaled = uint64_t{block[index % 4]} * static_cast<uint64_t>(*hi - lo);
    tensor.ints.push_back(lo + static_cast<int64_t>(scaled >> 32));
  }
  return tensor;
}

template <class T>
RefTensor<T> random_floats(const Value& value, std::vector<int64_t> shape, uint64_t seed) {
  constexpr BellShape kBell = {.step = 1.0F / 256, .centre = 0};  // a deviation of 0.58
  std::vector<float> numbers(static_cast<size_t>(count_of(shape)));
  fill_random(seed, random_stream(value.name), 0, kBell, numbers);
  RefTensor<T> tensor{.shape = std::move(shape), .data = {}, .ints = {}};
  for (const float x : numbers)
    tensor.data.push_back(static_cast<T>(round_to(value.type.dtype, x)));
  return tensor;
}

template <class T>
using Tensors = std::map<std::string, RefTensor<T>, std::less<>>;

template <class T>
Result<Tensors<T>> tensors_of(const EvalFlags& flags, const Graph& graph, const Dims& dims) {
  std::map<std::string, std::string, std::less<>> files;
  for (const std::string& word : flags.inputs) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      return err(Code::command_line, {}, "write it as in --input x=x.npy", "--input cannot be '{}'",
                 word);
    }
    const size_t begin = word[0] == '%' ? 1 : 0;
    const std::string name = word.substr(begin, equals - begin);
    const std::vector<std::string> known = input_names(graph);
    if (std::ranges::find(known, name) == known.end()) {
      const std::string nearest = nearest_name(name, known);
      return err(Code::command_line, {},
                 nearest.empty() ? "leave it out" : fmt::format("did you mean '{}'?", nearest),
                 "graph @{} has no input, state or weight '{}'", graph.name, name);
    }
    if (!files.emplace(name, word.substr(equals + 1)).second) {
      return err(Code::command_line, {}, "give each input one file", "--input gives '{}' twice",
                 name);
    }
  }
  Tensors<T> tensors;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::result) continue;
    GM_ASSIGN(std::vector<int64_t> shape, shape_of(value, dims, flags.file));
    if (const auto file = files.find(value.name); file != files.end()) {
      GM_ASSIGN(RefTensor<T> tensor, read_tensor<T>(value, std::move(shape), file->second));
      tensors.emplace(value.name, std::move(tensor));
      continue;
    }
    if (value.source && !value.source->values.empty()) continue;  // the text has its numbers
    if (flags.has_seed->count() == 0) {
      return err(Code::evaluate_input, Location::of_path(flags.file, value.name),
                 fmt::format("give --input {}=FILE.npy, or --random SEED", value.name),
                 "no tensor is given for {}, which is {}", value.name, value.type.to_string());
    }
    if (is_float(value.type.dtype)) {
      tensors.emplace(value.name, random_floats<T>(value, std::move(shape), flags.seed));
    } else {
      GM_ASSIGN(RefTensor<T> tensor, random_integers<T>(value, std::move(shape), dims, flags));
      tensors.emplace(value.name, std::move(tensor));
    }
  }
  return tensors;
}

template <class N>
std::vector<std::string> summary_of(std::span<const N> values) {
  if (values.empty()) return {"-", "-", "-", "-"};
  double sum = 0;
  bool nan = false;
  for (const N x : values) {
    nan |= std::isnan(static_cast<double>(x));
    sum += static_cast<double>(x);
  }
  const auto [least, most] = std::ranges::minmax(values);
  std::string first;
  constexpr size_t kFirst = 4;
  for (const N x : values.first(std::min(kFirst, values.size())))
    first += fmt::format("{}{:.6g}", first.empty() ? "" : " ", static_cast<double>(x));
  if (values.size() > kFirst) first += " ...";
  const auto number = [&](double x) { return nan ? "nan" : fmt::format("{:.6g}", x); };
  return {number(static_cast<double>(least)), number(static_cast<double>(most)),
          number(sum / static_cast<double>(values.size())), first};
}

template <class T>
Result<Exit> evaluate(const EvalFlags& flags, const Graph& graph) {
  GM_ASSIGN(const Dims dims, dims_of(flags, graph));
  GM_ASSIGN(const Tensors<T> tensors, tensors_of<T>(flags, graph, dims));
  auto values = evaluate_graph<T>(graph, tensors, dims);
  if (!values) {
    // Values have names, not places in the file.
    Diag fault = std::move(values).error();
    if (fault.location.file.empty()) fault.location.file = flags.file;
    return Error(std::move(fault));
  }
  std::vector<std::vector<std::string>> rows = {
      {"output", "dtype", "shape", "min", "max", "mean", "first values"}};
  for (const GraphOutput& output : graph.outputs()) {
    const RefTensor<T>& tensor = (*values)[index_of(output.value)];
    const DType dtype = graph.value(output.value).type.dtype;
    if (!flags.output.empty()) {
      const auto path = std::filesystem::path(flags.output) / (output.name + ".npy");
      GM_TRY(is_float(dtype) ? write_npy(path, tensor.shape, std::span<const T>(tensor.data))
                             : write_npy(path, tensor.shape, std::span(tensor.ints)));
      continue;
    }
    std::vector<std::string> row = {output.name, std::string(to_string(dtype)),
                                    fmt::format("[{}]", fmt::join(tensor.shape, ", "))};
    std::ranges::copy(is_float(dtype) ? summary_of(std::span<const T>(tensor.data))
                                      : summary_of(std::span<const int64_t>(tensor.ints)),
                      std::back_inserter(row));
    rows.push_back(std::move(row));
  }
  if (flags.output.empty()) print_text(table_text(rows));
  return Exit::ok;
}

// The graph that --graph names, or the only one.
Result<const Graph*> choose_graph(const EvalFlags& flags, const ModuleText& text) {
  std::vector<std::string> names;
  for (const Unit& unit : text.module.units) names.push_back(unit.graph.name);
  if (names.empty()) {
    return err(Code::command_line, Location::of_file(flags.file), "give a text with a graph",
               "the file holds {}", text.kernels.empty() ? "nothing" : "kernels, not a graph");
  }
  if (flags.graph.empty() && names.size() > 1) {
    return err(Code::command_line, Location::of_file(flags.file),
               fmt::format("choose one with --graph: {}", fmt::join(names, ", ")),
               "the file holds {} graphs", names.size());
  }
  if (flags.graph.empty()) return &text.module.units.front().graph;
  GM_TRY(one_of("--graph", flags.graph, names));
  return &text.module
              .units[static_cast<size_t>(std::ranges::find(names, flags.graph) - names.begin())]
              .graph;
}

Result<Exit> eval(const EvalFlags& flags) {
  const std::vector<std::string> dtypes = {"f32", "f64"};
  GM_TRY(one_of("--dtype", flags.dtype, dtypes));
  GM_ASSIGN(const ModuleText text, read_module_text(flags.file));
  GM_ASSIGN(const Graph* graph, choose_graph(flags, text));
  GM_TRY(verify_module(text.module));
  if (!flags.output.empty()) {
    for (const GraphOutput& output : graph->outputs()) {
      if (output.name.find('/') == std::string::npos) continue;
      return err(Code::command_line, Location::of_path(flags.file, output.name),
                 "rename the output, or leave -o out", "'{}' cannot be the name of a file",
                 output.name);
    }
    std::error_code fault;
    std::filesystem::create_directories(flags.output, fault);
    if (fault) {
      return err(Code::file_write, Location::of_file(flags.output),
                 "give -o a folder that can be made", "the folder cannot be made: {}",
                 fault.message());
    }
  }
  return flags.dtype == "f64" ? evaluate<double>(flags, *graph) : evaluate<float>(flags, *graph);
}

}  // namespace

void add_eval(ProgramLine& program) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App& command = program.command(
      "eval", "evaluate a graph's text by the reference interpreter",
      "eval mlp.gm --dims tokens=4 --input x=x.npy --random 0", [flags] { return eval(*flags); });
  command.add_option("FILE", flags->file, "a .gm text with a graph; '-' for stdin")->required();
  command.add_option("--graph", flags->graph, "which graph, if FILE holds several")
      ->type_name("NAME");
  command
      .add_option("--input", flags->inputs,
                  "an input, state or weight from a .npy file; as often as needed")
      ->type_name("NAME=FILE.npy")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  flags->has_seed =
      command
          .add_option("--random", flags->seed, "random values for all that --input does not give")
          ->type_name("SEED");
  command.add_option("--dims", flags->dims, "the values of the graph's symbols")
      ->type_name("tokens=4,...");
  command
      .add_option("--dtype", flags->dtype,
                  "f32: every value is rounded to its dtype; f64: only what comes in")
      ->capture_default_str();
  command
      .add_option("-o,--output", flags->output,
                  "writes OUTPUT.npy for each output; without it, a summary is printed")
      ->type_name("FOLDER");
}

}  // namespace gm
