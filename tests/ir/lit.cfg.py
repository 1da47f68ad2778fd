# Text cases: a file states how graphmill is run on it (RUN:) and what must come out (CHECK:). tests/error shares this
# file. On the PATH are graphmill, graphmill-run, FileCheck, not, count, split-file, and exits: 'exits 2 COMMAND...'
# passes only on that exit code, where 'not' takes any failure for the expected one.
import os

import lit.formats

for name in ("bin", "llvm_bin", "scratch"):
    if name not in lit_config.params:
        lit_config.fatal(f"run the text cases by ctest, which gives the parameter '{name}' (ctest -R '^ir[.]')")
if not os.access(os.path.join(lit_config.params["bin"], "graphmill"), os.X_OK):
    lit_config.fatal(f"there is no graphmill in {lit_config.params['bin']}: build it first")

source = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))

config.name = os.path.basename(os.path.dirname(__file__))
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".gm", ".test"]
config.excludes = ["inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["scratch"]

tools = [lit_config.params["bin"], os.path.join(source, "tests", "error", "bin"), lit_config.params["llvm_bin"]]
config.environment["PATH"] = os.pathsep.join(tools + [config.environment.get("PATH", os.environ["PATH"])])
config.environment["XDG_CACHE_HOME"] = os.path.join(config.test_exec_root, "cache")  # never the user's own cache
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%golden", os.path.join(source, "tests", "golden")))
