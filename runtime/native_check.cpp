// What is asked of native code and of the CPU before the code is loaded.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <elf.h>

#include "runtime/native_library.h"

namespace gm {
namespace {

struct Feature {
  std::string_view name;  // LLVM's
  bool present;
};

#if defined(__x86_64__)
// What compiled code may use. __builtin_cpu_supports takes literals only.
#define GM_CPU(name) {name, __builtin_cpu_supports(name) != 0}
std::span<const Feature> host_features() {
  static const std::array features = std::to_array<Feature>({
      GM_CPU("sse"),
      GM_CPU("sse2"),
      GM_CPU("sse3"),
      GM_CPU("ssse3"),
      GM_CPU("sse4.1"),
      GM_CPU("sse4.2"),
      GM_CPU("sse4a"),
      GM_CPU("avx"),
      GM_CPU("avx2"),
      GM_CPU("fma"),
      GM_CPU("fma4"),
      GM_CPU("xop"),
      GM_CPU("f16c"),
      GM_CPU("bmi"),
      GM_CPU("bmi2"),
      GM_CPU("lzcnt"),
      GM_CPU("movbe"),
      GM_CPU("popcnt"),
      GM_CPU("aes"),
      GM_CPU("pclmul"),
      GM_CPU("gfni"),
      GM_CPU("vaes"),
      GM_CPU("vpclmulqdq"),
      GM_CPU("sha"),
      GM_CPU("adx"),
      GM_CPU("tbm"),
      GM_CPU("lwp"),
      GM_CPU("avx512f"),
      GM_CPU("avx512bw"),
      GM_CPU("avx512cd"),
      GM_CPU("avx512dq"),
      GM_CPU("avx512vl"),
      GM_CPU("avx512ifma"),
      GM_CPU("avx512vbmi"),
      GM_CPU("avx512vbmi2"),
      GM_CPU("avx512vnni"),
      GM_CPU("avx512bitalg"),
      GM_CPU("avx512vpopcntdq"),
      GM_CPU("avx512bf16"),
      GM_CPU("avx512fp16"),
      GM_CPU("avx512vp2intersect"),
      GM_CPU("avxvnni"),
  });
  return features;
}
#undef GM_CPU
#else
std::span<const Feature> host_features() { return {}; }
#endif

// Of every x86-64 CPU, or instructions that no compiler emits by itself.
constexpr std::string_view kHarmless[] = {
    "64bit",     "amx-bf16",     "amx-complex",  "amx-fp16",    "amx-int8", "amx-tile",
    "avxifma",   "avxneconvert", "avxvnniint16", "avxvnniint8", "cldemote", "clflushopt",
    "clwb",      "clzero",       "cmov",         "cmpccxadd",   "crc32",    "cx16",
    "cx8",       "enqcmd",       "evex512",      "fsgsbase",    "fxsr",     "hreset",
    "invpcid",   "kl",           "mmx",          "movdir64b",   "movdiri",  "mwaitx",
    "pconfig",   "pku",          "prefetchi",    "prfchw",      "ptwrite",  "raoint",
    "rdpid",     "rdpru",        "rdrnd",        "rdseed",      "rtm",      "sahf",
    "serialize", "sgx",          "sha512",       "shstk",       "sm3",      "sm4",
    "tsxldtrk",  "uintr",        "usermsr",      "waitpkg",     "wbnoinvd", "widekl",
    "x87",       "xsave",        "xsavec",       "xsaveopt",    "xsaves"};

constexpr std::string_view kLevel3 =
    "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3";
constexpr std::string_view kLevel4 = ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";

// A structure of the file, if it lies in it wholly.
template <class T>
std::optional<T> read_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<std::span<const std::byte>> part(std::span<const std::byte> bytes, uint64_t offset,
                                               uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  return bytes.subspan(offset, size);
}

std::optional<std::string_view> string_at(std::span<const std::byte> strings, uint64_t offset) {
  if (offset >= strings.size()) return std::nullopt;
  const char* const text = reinterpret_cast<const char*>(strings.data()) + offset;
  const size_t size = strnlen(text, strings.size() - offset);
  if (size == strings.size() - offset) return std::nullopt;
  return std::string_view(text, size);
}

struct Section {
  Elf64_Shdr header;
  std::span<const std::byte> data;
};

class ObjectReader {
 public:
  ObjectReader(std::span<const std::byte> bytes, const std::string& file)
      : bytes_(bytes), file_(file) {}

  Result<> check(std::vector<std::string> exports) {
    GM_TRY(read_header());
    GM_TRY(read_sections());
    GM_TRY(check_dynamic());
    GM_TRY(check_relocations());
    return check_symbols(std::move(exports));
  }

 private:
  template <class... A>
  Error fault(fmt::format_string<A...> text, A&&... args) const {
    return err(Code::native_object, Location::of_path(file_, "kernels/cpu.so"),
               "compile the plan again", "the native code {}",
               fmt::format(text, std::forward<A>(args)...));
  }

  Result<> read_header() {
    const auto header = read_at<Elf64_Ehdr>(bytes_, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
      return fault("is not an ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != EM_X86_64 || header->e_type != ET_DYN) {
      return fault("is not a shared object for x86-64");
    }
    header_ = *header;
    return {};
  }

  Result<> read_sections() {
    if (header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shnum == 0)
      return fault("has no sections");
    for (uint64_t i = 0; i < header_.e_shnum; ++i) {
      const auto section = read_at<Elf64_Shdr>(bytes_, header_.e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) return fault("is cut off in its section table");
      std::span<const std::byte> data;
      if (section->sh_type != SHT_NOBITS) {
        const auto found = part(bytes_, section->sh_offset, section->sh_size);
        if (!found) return fault("has a section that ends outside of it");
        data = *found;
      }
      sections_.push_back({*section, data});
    }
    return {};
  }

  // By the segment, since that is what the loader goes by.
  Result<> check_dynamic() {
    std::optional<std::span<const std::byte>> dynamic;
    if (header_.e_phentsize != sizeof(Elf64_Phdr)) return fault("has no program headers");
    for (uint64_t i = 0; i < header_.e_phnum; ++i) {
      const auto segment = read_at<Elf64_Phdr>(bytes_, header_.e_phoff + i * sizeof(Elf64_Phdr));
      if (!segment) return fault("is cut off in its program headers");
      if (segment->p_type == PT_INTERP) return fault("asks for an interpreter");
      if (segment->p_type == PT_LOAD) {
        if (!part(bytes_, segment->p_offset, segment->p_filesz))
          return fault("has a segment that ends outside of it");
        if ((segment->p_flags & PF_W) != 0 && (segment->p_flags & PF_X) != 0) {
          return fault("has memory that is writable and executable");
        }
      }
      if (segment->p_type != PT_DYNAMIC) continue;
      if (dynamic) return fault("has two dynamic segments");
      dynamic = part(bytes_, segment->p_offset, segment->p_filesz);
      if (!dynamic) return fault("has a segment that ends outside of it");
    }
    if (!dynamic) return fault("has no dynamic segment");
    for (uint64_t at = 0;; at += sizeof(Elf64_Dyn)) {
      const auto entry = read_at<Elf64_Dyn>(*dynamic, at);
      if (!entry) return fault("has a dynamic segment without an end");
      switch (entry->d_tag) {
        case DT_NULL:
          return {};
        case DT_NEEDED:
          return fault("needs another library");
        case DT_INIT:
        case DT_INIT_ARRAY:
        case DT_PREINIT_ARRAY:
          return fault("has a constructor");
        case DT_FINI:
        case DT_FINI_ARRAY:
          return fault("has a destructor");
        case DT_SYMTAB:
          symbol_table_ = entry->d_un.d_ptr;
          break;
        case DT_AUDIT:
        case DT_DEPAUDIT:
        case DT_FILTER:
        case DT_AUXILIARY:
          return fault("names another library");
        default:
          break;
      }
    }
  }

  // A relocation by a function's result would run that function while the object is loaded.
  Result<> check_relocations() {
    for (const Section& section : sections_) {
      if (section.header.sh_type != SHT_RELA) continue;
      for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.data.size();
           at += sizeof(Elf64_Rela)) {
        const auto relocation = read_at<Elf64_Rela>(section.data, at);
        if (ELF64_R_TYPE(relocation->r_info) == R_X86_64_IRELATIVE)
          return fault("has a relocation that runs code");
      }
    }
    return {};
  }

  Result<> check_symbols(std::vector<std::string> expected) {
    const auto table = std::ranges::find_if(
        sections_, [](const Section& s) { return s.header.sh_type == SHT_DYNSYM; });
    if (table == sections_.end() || table->header.sh_addr != symbol_table_ ||
        table->header.sh_link >= sections_.size()) {
      return fault("has no table of exported symbols");
    }
    const std::span<const std::byte> strings = sections_[table->header.sh_link].data;
    std::vector<std::string> found;
    for (uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= table->data.size();
         at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(table->data, at);
      const auto name = string_at(strings, symbol->st_name);
      if (!name) return fault("has a symbol without a name");
      if (symbol->st_shndx == SHN_UNDEF) return fault("needs {} from elsewhere", *name);
      if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
      if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
        return fault("exports {}, which is no function", *name);
      found.emplace_back(*name);
    }
    std::ranges::sort(found);
    std::ranges::sort(expected);
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    std::vector<std::string> differing;
    std::ranges::set_difference(expected, found, std::back_inserter(differing));
    if (!differing.empty()) return fault("lacks the function {} of a kernel", differing[0]);
    std::ranges::set_difference(found, expected, std::back_inserter(differing));
    if (!differing.empty()) return fault("exports {}, which is no kernel's function", differing[0]);
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  Elf64_Ehdr header_{};
  std::vector<Section> sections_;
  uint64_t symbol_table_ = 0;
};

}  // namespace

Result<> check_shared_object(std::span<const std::byte> object, std::vector<std::string> exports,
                             const std::string& file) {
  return ObjectReader(object, file).check(std::move(exports));
}

Result<> check_cpu_features(std::string_view target, std::string_view features,
                            const std::string& file) {
  const Location where = Location::of_path(file, "target_features");
  std::string all(features);
  if (target == "cpu" || target == "cpu:v3" || target == "cpu:v4")
    all += fmt::format(",{}", kLevel3);
  if (target == "cpu:v4") all += kLevel4;
  std::vector<std::string_view> missing;
  for (std::string_view rest = all; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (word.empty() || word[0] == '-') continue;  // what the code does without
    const std::string_view name = word[0] == '+' ? word.substr(1) : word;
    if (std::ranges::find(kHarmless, name) != std::end(kHarmless)) continue;
    const auto known = std::ranges::find(host_features(), name, &Feature::name);
    if (known == host_features().end()) {
      return err(
          Code::cpu_feature_name, where,
          "compile again for this machine: graphmill compile MODEL -o PLAN --target cpu:native",
          "the plan needs the CPU feature \"{}\", which this version does not know", name);
    }
    if (!known->present && std::ranges::find(missing, name) == missing.end())
      missing.push_back(name);
  }
  if (missing.empty()) return {};
  std::vector<std::string_view> present;
  for (const Feature& feature : host_features()) {
    if (feature.present) present.push_back(feature.name);
  }
  return Error(Diag{
      Code::cpu_features,
      fmt::format("the plan was compiled for {}, but this CPU lacks {}", target,
                  fmt::join(missing, ", ")),
      where,
      "compile again for this machine: graphmill compile MODEL -o PLAN --target cpu:native",
      {}}.note(fmt::format("this CPU has {}", fmt::join(present, ", "))));
}

}  // namespace gm
