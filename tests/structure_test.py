#!/usr/bin/env python3
"""The checkers of tools/ find what they are for: each is run on small trees with one fault."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))
import check_report  # noqa: E402  # pylint: disable=wrong-import-position
import ratchet  # noqa: E402  # pylint: disable=wrong-import-position


class Tree(unittest.TestCase):
    """A scratch tree with the real tables and whatever a test puts into it."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        for name in ("cmake/layers.txt", "tools/packages.txt"):
            self.write(name, (ROOT / name).read_text())
        self.write("tests/ratchet.json", "{}")
        self.write("README.md", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, tool, *arguments):
        run = subprocess.run([sys.executable, str(TOOLS / tool), *map(str, arguments)],
                             capture_output=True, text=True, check=False)
        return run.returncode, run.stdout

    def expect(self, tool, complaint, *arguments):
        status, said = self.run_tool(tool, "--root", self.root, *arguments)
        self.assertEqual(status, 1, said)
        self.assertIn(complaint, said)

    def expect_fine(self, tool, *arguments):
        status, said = self.run_tool(tool, "--root", self.root, *arguments)
        self.assertEqual(status, 0, said)


class Layers(Tree):
    def setUp(self):
        super().setUp()
        self.write("src/base/result.h", "#include <tl/expected.hpp>\n#include <sys/mman.h>\n")
        self.write("src/kv/block_pool.h", '#include "base/result.h"\n')

    def test_passes_what_the_table_allows(self):
        self.write("src/kv/key.cc", '#include "kv/block_pool.h"\n')
        self.write("src/base/hash.cc", "#include <xxhash.h>\n")
        self.expect_fine("layers.py")

    def test_refuses_a_higher_folder(self):
        self.write("src/base/clock.h", '#include "kv/block_pool.h"\n')
        self.expect("layers.py", "base/ may not include kv/")

    def test_refuses_a_neighbour_of_the_same_floor_but_lets_its_test(self):
        self.write("src/text/a_test.cc", '#include "format/gguf.h"\n#include <gtest/gtest.h>\n')
        self.write("src/format/gguf.h", "")
        self.expect_fine("layers.py")
        self.write("src/text/a.cc", '#include "format/gguf.h"\n')
        self.expect("layers.py", "text/ may not include format/")

    def test_schedule_never_sees_the_model(self):
        self.write("src/model/model.h", "")
        self.write("src/schedule/scheduler.cc", '#include "model/model.h"\n')
        self.expect("layers.py", "schedule/ may not include model/")

    def test_refuses_third_parties_of_others(self):
        self.write("src/kv/a.cc", "#include <nlohmann/json.hpp>\n")
        self.expect("layers.py", "kv/ may not include json")
        self.write("src/kv/a.cc", "#include <zstd/zstd.h>\n")
        self.expect("layers.py", "belongs to no set")
        self.write("src/kv/a.cc", "#include <immintrin.h>\n")
        self.expect("layers.py", "kv/ may not include intrinsics")

    def test_refuses_references_of_kernels_outside_tests(self):
        self.write("src/kernels/rope_ref.h", "")
        self.write("src/kernels/rope.cc", '#include "kernels/rope_ref.h"\n')
        self.expect("layers.py", "kernels/rope_ref.h is for tests")

    def test_refuses_unknown_folders_and_files(self):
        self.write("src/gpu/a.h", "")
        self.expect("layers.py", "folder gpu/ has no row")
        shutil.rmtree(self.root / "src/gpu")
        self.write("src/kv/a.cc", '#include "block_pool.h"\n')
        self.expect("layers.py", "is not in src/")

    def test_finds_a_cycle(self):
        self.write("src/kv/a.h", '#include "kv/b.h"\n')
        self.write("src/kv/b.h", '#include "kv/a.h"\n')
        self.expect("layers.py", "kv/a.h -> kv/b.h -> kv/a.h")

    def test_the_table_itself_may_not_look_upwards(self):
        table = (ROOT / "cmake/layers.txt").read_text().replace("0  tensor     base",
                                                                "0  tensor     base kv")
        self.write("cmake/layers.txt", table)
        self.expect("layers.py", "tensor may include kv of a higher floor")


class Ratchet(Tree):
    def function(self, lines):
        return "int Long(int a) {\n" + "  a++;\n" * (lines - 2) + "}\n"

    def test_limits_files_and_tests_and_functions(self):
        self.write("src/base/a.cc", "\n" * 600)
        self.write("src/base/a_test.cc", "\n" * 900)
        self.write("src/base/b.cc", self.function(70))
        self.expect_fine("ratchet.py")
        self.write("src/base/a.cc", "\n" * 601)
        self.expect("ratchet.py", "src/base/a.cc: 601 lines, at most 600")
        self.write("src/base/a.cc", "")
        self.write("src/base/a_test.cc", "\n" * 901)
        self.expect("ratchet.py", "src/base/a_test.cc: 901 lines, at most 900")
        self.write("src/base/a_test.cc", "")
        self.write("src/base/b.cc", self.function(71))
        self.expect("ratchet.py", "src/base/b.cc:Long: 71 lines, at most 70")

    def test_known_exceptions_only_shrink(self):
        self.write("tests/ratchet.json", json.dumps({"src/base/b.cc:Long": 80}))
        self.write("src/base/b.cc", self.function(81))
        self.expect("ratchet.py", "grew from 80 to 81")
        self.run_tool("ratchet.py", "--root", self.root, "--update")
        self.expect("ratchet.py", "grew from 80 to 81")
        self.write("src/base/b.cc", self.function(79))
        self.expect("ratchet.py", "shrank from 80 to 79")
        self.expect_fine("ratchet.py", "--update")
        self.write("src/base/b.cc", self.function(20))
        self.expect("ratchet.py", "no longer too long")
        self.expect_fine("ratchet.py", "--update")
        self.assertEqual(json.loads((self.root / "tests/ratchet.json").read_text()), {})

    def test_reads_cpp_as_a_compiler_does(self):
        source = '''namespace baton {
class Pool {
 public:
  explicit Pool(int n) : blocks_{n}, free_(n) {
    Fill();
  }
  // { not a brace
  Pool& operator=(const Pool&) = delete;
  bool operator==(const Pool& other) const { return true; }
 private:
  int blocks_ = 0;
};
constexpr int kTable[] = {1, 2};
#define OPEN {
DECLARE(avx2)
DECLARE(avx512)
namespace {
int Inner() {
  return 1; }
}
auto Text() -> const char* {
  return R"x({{{)x";
}
template <typename T>
T Twice(T value) noexcept {
  if (value > 1'000) {
    auto half = [&](int a) { return a / 2; };
  }
  return '{' + "}{"[0];
}
TEST(Pool, Frees) {
}
}  // namespace baton
'''
        found = [(name, lines) for name, _, lines in ratchet.cpp_functions(source)]
        self.assertEqual(found, [("Pool", 3), ("operator==", 1), ("Inner", 2), ("Text", 3),
                                 ("Twice", 7), ("TEST(Pool, Frees)", 2)])


class Rules(Tree):
    def test_getenv(self):
        self.write("src/cli/main.cc", 'getenv("HOME");\n')
        self.write("src/kv/a.cc", "// getenv would be wrong here\n")
        self.expect_fine("source_rules.py")
        self.write("src/kv/a.cc", 'std::getenv("HOME");\n')
        self.expect("source_rules.py", "src/kv/a.cc:1: getenv belongs into src/cli/")

    def test_todo(self):
        self.write("src/kv/a.cc", "// TODO(#12): later\n")
        self.expect_fine("source_rules.py")
        self.write("src/kv/a.cc", "// TODO: later\n")
        self.expect("source_rules.py", "src/kv/a.cc:1: a TODO needs an issue")

    def test_names(self):
        self.write("src/kv/string_utils.h", "")
        self.expect("source_rules.py", "src/kv/string_utils.h: say what it is")

    def test_paths(self):
        self.write("src/kv/block_pool.h", "")
        self.write("docs/tour.md", "`src/kv/block_pool.h`, `kv/block_pool.h`, [map](../README.md)")
        self.expect_fine("source_rules.py")
        self.write("docs/tour.md", "`src/kv/block_tool.h`")
        self.expect("source_rules.py", "docs/tour.md: there is no src/kv/block_tool.h")
        self.write("docs/tour.md", "`kv/block_tool.h`")
        self.expect("source_rules.py", "docs/tour.md: there is no kv/block_tool.h")
        self.write("docs/tour.md", "")
        self.write("README.md", "[tour](docs/tower.md)")
        self.expect("source_rules.py", "README.md: there is no docs/tower.md")

    def test_packages(self):
        self.write("README.md", "Install libfmt" "-dev first.")
        self.expect("source_rules.py", "tools/packages.txt is the only list")


class Flags(Tree):
    def run_flags(self, file, flags):
        command = f"c++ -Werror -ffp-contract=off {flags} -c {file}"
        self.write("compile_commands.json", json.dumps([{"file": file, "command": command}]))
        return self.run_tool("check_flags.py", self.root)[0]

    def test_machine_flags_are_for_isa_files(self):
        self.assertEqual(self.run_flags("a/linear_isa.cc", "-mavx2"), 0)
        self.assertEqual(self.run_flags("a/linear.cc", "-O2"), 0)
        self.assertEqual(self.run_flags("a/linear.cc", "-mavx2"), 1)
        self.assertEqual(self.run_flags("a/linear_isa.cc", "-ffast-math"), 1)
        self.assertEqual(self.run_flags("a/linear.cc", "-ffp-contract=fast"), 1)


@unittest.skipUnless(shutil.which("c++"), "no compiler")
class IsaSymbols(Tree):
    def symbols(self, code):
        self.write("a.cc", code)
        compiled = self.root / "a.o"
        subprocess.run(["c++", "-std=c++20", "-O0", "-c", str(self.root / "a.cc"), "-o",
                        str(compiled)], check=True)
        return self.run_tool("check_isa_symbols.py", compiled)

    def test_only_own_names(self):
        status, said = self.symbols("namespace baton::avx2 { inline int Own(int a) { return a; }\n"
                                    "int Kernel(int a) { return Own(a); } }")
        self.assertEqual(status, 0, said)
        status, said = self.symbols("#include <algorithm>\nnamespace baton::avx2 {\n"
                                    "int Kernel(int a, int b) { return std::min(a, b); } }")
        self.assertEqual(status, 1)
        self.assertIn("std::min", said)

    def test_an_empty_object_is_no_proof(self):
        self.assertEqual(self.symbols("")[0], 1)


class Report(Tree):
    def test_counts_cases_and_programs_that_crashed(self):
        self.write("junit.xml", '''<testsuite tests="4">
<testcase name="kv" status="run"/><testcase name="text" status="fail"/>
<testcase name="crash" status="fail"/><testcase name="structure_layers" status="run"/>
</testsuite>''')
        self.write("cases/kv_test.xml", '''<testsuites tests="3" failures="0"><testsuite name="A">
<testcase name="a" status="run" result="completed"/>
<testcase name="b" status="run" result="skipped"><skipped message="no"/></testcase>
<testcase name="c" status="run" result="completed"/></testsuite></testsuites>''')
        self.write("cases/text_test.xml", '''<testsuites><testsuite name="A">
<testcase name="a" status="run" result="completed"><failure message="x"/></testcase>
<testcase name="b" status="run" result="completed"/></testsuite></testsuites>''')
        tally = check_report.tally(self.root / "junit.xml", self.root / "cases")
        self.assertEqual(tally, (4, 2, 1))  # kv a, c; text b; layers | text a; crash | kv b


if __name__ == "__main__":
    unittest.main()
