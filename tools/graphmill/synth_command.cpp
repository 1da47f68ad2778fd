#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "models/qwen35/synth.h"
#include "runtime/memory.h"
#include "runtime/thread_pool.h"
#include "tools/common/open_instance.h"
#include "tools/common/output.h"
#include "tools/graphmill/commands.h"
#include "tools/graphmill/staged_files.h"
#include "tools/graphmill/synth_tokenizer.h"

namespace gm {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;  // what a thread fills and writes at a time
constexpr int64_t kMostLayers = 4096;     // that a config may have

struct SynthFlags {
  std::string size, config, output, seed = "0", shard = "4G";
  std::optional<int64_t> layers;
  int threads = 0;
  bool force = false, quiet = false;
};

struct Piece {
  size_t shard;
  const SynthTensor* tensor;
  int64_t begin, bytes;  // in the tensor's data
};

Result<Qwen35Config> wanted_config(const SynthFlags& flags) {
  if (flags.size.empty() == flags.config.empty()) {
    return err(Code::command_line, {}, "see `graphmill synth --help`",
               "give either --size or --config");
  }
  if (flags.layers && (*flags.layers < 1 || *flags.layers > kMostLayers)) {
    return err(Code::command_line, {},
               fmt::format("give --layers a number from 1 to {}", kMostLayers),
               "--layers {} is out of range", *flags.layers);
  }
  Qwen35Config config;
  if (!flags.size.empty()) {
    std::vector<std::string> sizes;
    for (const std::string_view size : published_sizes()) sizes.emplace_back(size);
    GM_TRY(one_of("--size", flags.size, sizes));
    config = *published_config(flags.size);
  } else {
    GM_ASSIGN(const Json json, read_json(flags.config));
    GM_ASSIGN(config, parse_config(JsonView(json, flags.config)));
  }
  return flags.layers ? with_layers(std::move(config), *flags.layers) : config;
}

Result<uint64_t> parse_seed(std::string_view text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, seed);
  if (fault != std::errc() || stop != end) {
    return err(Code::command_line, {}, fmt::format("give a whole number from 0 to {}", UINT64_MAX),
               "--seed cannot be '{}'", text);
  }
  return seed;
}

// config.json, an index, weights or a tokenizer.
bool is_part_of_checkpoint(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name == "config.json" || name == "tokenizer.json" ||
         (name.starts_with("model") &&
          (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")));
}

Result<std::vector<std::filesystem::path>> old_checkpoint(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> parts;
  std::error_code fault;
  if (!std::filesystem::is_directory(folder, fault)) return parts;
  for (std::filesystem::directory_iterator i(folder, fault), end; !fault && i != end;
       i.increment(fault)) {
    if (is_part_of_checkpoint(i->path())) parts.push_back(i->path());
  }
  if (fault) {
    return err(Code::file_open, Location::of_file(folder.string()), "check its permissions",
               "cannot read {}: {}", folder.string(), fault.message());
  }
  return parts;
}

// Better than to find out after an hour.
Result<> check_space(const std::filesystem::path& folder, int64_t bytes) {
  std::error_code fault;
  std::filesystem::path there = std::filesystem::absolute(folder, fault);
  while (!std::filesystem::exists(there, fault) && there.has_relative_path())
    there = there.parent_path();
  const auto space = std::filesystem::space(there, fault);
  if (fault || space.available >= static_cast<uintmax_t>(bytes)) return {};
  return err(Code::file_write, Location::of_file(folder.string()),
             "free space, choose another disk, or cut the model with --layers",
             "the checkpoint takes {}, but its disk has {} free", bytes_text(bytes),
             bytes_text(static_cast<int64_t>(space.available)));
}

std::vector<Piece> pieces_of(const SynthCheckpoint& checkpoint) {
  std::vector<Piece> pieces;
  for (size_t s = 0; s < checkpoint.shards.size(); ++s) {
    for (const SynthTensor& tensor : checkpoint.shards[s].tensors) {
      for (int64_t begin = 0; begin < tensor.bytes; begin += kPieceBytes)
        pieces.push_back({s, &tensor, begin, std::min(kPieceBytes, tensor.bytes - begin)});
    }
  }
  return pieces;
}

// Threads take piece after piece; this one watches.
Result<> fill(const SynthCheckpoint& checkpoint, uint64_t seed, int threads,
              const StagedFiles& files, const std::vector<size_t>& numbers, Progress& progress) {
  const std::vector<Piece> pieces = pieces_of(checkpoint);
  std::vector<std::vector<std::byte>> buffers(static_cast<size_t>(threads));
  for (auto& buffer : buffers) buffer.resize(kPieceBytes);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::condition_variable changed;
  int64_t done_bytes = 0;
  size_t working = buffers.size();
  Result<> result;

  auto work = [&](std::vector<std::byte>& buffer) {
    for (size_t i; (i = next++) < pieces.size();) {
      const Piece& piece = pieces[i];
      const SynthTensor& tensor = *piece.tensor;
      const std::span<std::byte> bytes(buffer.data(), static_cast<size_t>(piece.bytes));
      fill_synth(tensor, seed, piece.begin / size_bytes(tensor.dtype), bytes);
      auto written = files.write(numbers[piece.shard], tensor.offset + piece.begin, bytes);
      const std::lock_guard lock(mutex);
      done_bytes += piece.bytes;
      if (!written) {
        if (result) result = std::move(written);
        next = pieces.size();
      }
    }
    const std::lock_guard lock(mutex);
    --working;
    changed.notify_one();
  };
  std::vector<std::jthread> workers;
  for (auto& buffer : buffers) workers.emplace_back([&] { work(buffer); });
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return working == 0; })) {
    const int64_t done = done_bytes;
    lock.unlock();
    progress.update("weights", done, checkpoint.bytes);
    lock.lock();
  }
  return result;
}

Result<> write_all(const SynthFlags& flags, const SynthCheckpoint& checkpoint, uint64_t seed,
                   const std::string& config, const std::string& tokenizer, Progress& progress) {
  GM_ASSIGN(StagedFiles files, StagedFiles::in(flags.output));
  auto add = [&](const std::string& name, std::string_view text) -> Result<size_t> {
    GM_ASSIGN(const size_t number, files.create(name));
    GM_TRY(files.write(number, 0, std::as_bytes(std::span(text))));
    return number;
  };
  std::vector<size_t> numbers;
  for (const SynthShard& shard : checkpoint.shards) {
    GM_ASSIGN(const size_t number, add(shard.file, shard.header));
    numbers.push_back(number);
  }
  GM_TRY(add("model.safetensors.index.json", checkpoint.index));
  GM_TRY(add("tokenizer.json", tokenizer));
  GM_TRY(add("config.json", config));  // the last: without it the folder is no checkpoint
  const int threads = flags.threads > 0 ? flags.threads : available_threads();
  GM_TRY(fill(checkpoint, seed, threads, files, numbers, progress));
  progress.update("weights", checkpoint.bytes, checkpoint.bytes);

  // Without --force there is none. With it, nothing of the old one may stay among the new files.
  GM_ASSIGN(const auto old, old_checkpoint(flags.output));
  return files.commit(old);
}

Result<Exit> synth(const SynthFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  if (flags.threads < 0 || flags.threads > 1024) {
    return err(Code::command_line, {}, "give --threads a number from 0 to 1024",
               "--threads {} is out of range", flags.threads);
  }
  GM_ASSIGN(const uint64_t seed, parse_seed(flags.seed));
  GM_ASSIGN(const int64_t shard_bytes, parse_bytes("--shard-bytes", flags.shard));
  GM_ASSIGN(Qwen35Config config, wanted_config(flags));
  GM_ASSIGN(const SynthTokenizer tokenizer,
            synth_tokenizer(config.vocab, Location::of_path(config.file, "vocab_size")));
  config.eos_id = tokenizer.first_added;
  const SynthCheckpoint checkpoint = synth_checkpoint(config, seed, shard_bytes);
  GM_ASSIGN(const auto old, old_checkpoint(flags.output));
  if (!old.empty() && !flags.force) {
    return err(Code::file_write, Location::of_file(old.front().string()),
               "give another folder, or --force to replace the checkpoint",
               "{} holds a checkpoint already", flags.output);
  }
  GM_TRY(check_space(flags.output, checkpoint.bytes));
  Progress progress(flags.quiet);
  GM_TRY(write_all(flags, checkpoint, seed, write_json(config_json(config)), tokenizer.json,
                   progress));
  progress.end();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  progress.line(fmt::format("wrote {}: {} tensors, {} in {} shard{}, in {:.1f} s", flags.output,
                            checkpoint.tensors, bytes_text(checkpoint.bytes),
                            checkpoint.shards.size(), checkpoint.shards.size() == 1 ? "" : "s",
                            seconds));
  return Exit::ok;
}

}  // namespace

void add_synth(ProgramLine& program) {
  const auto flags = std::make_shared<SynthFlags>();
  CLI::App& command =
      program.command("synth", "make a checkpoint with random weights that behave",
                      "synth --size 0.8b -o random-0.8b/", [flags] { return synth(*flags); });
  command.add_option("--size", flags->size,
                     "a published size: 0.8b, 2b, 4b, 9b, 27b, 35b-a3b, 122b-a10b, 397b-a17b");
  command.add_option("--config", flags->config, "instead of --size: a config.json")
      ->type_name("FILE");
  command.add_option("-o,--output", flags->output, "the folder to write")
      ->required()
      ->type_name("FOLDER");
  command.add_option("--layers", flags->layers, "another number of layers")->type_name("N");
  command.add_option("--seed", flags->seed, "other values")->capture_default_str()->type_name("N");
  command.add_option("--shard-bytes", flags->shard, "size of a shard at most: 4G, 500M")
      ->capture_default_str()
      ->type_name("BYTES");
  command.add_option("--threads", flags->threads, "0: as many as the machine has")
      ->capture_default_str()
      ->type_name("N");
  command.add_flag("--force", flags->force, "replace a checkpoint that is there");
  command.add_flag("--quiet", flags->quiet, "print nothing but errors");
}

}  // namespace gm
