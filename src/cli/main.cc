// The process: file descriptors, environment and signals. Everything else is RunProgram.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/terminal.h"

namespace {

// A descriptor of the standard streams that the caller closed would be given to the next file that
// is opened, and messages would end up in it.
void FillStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is the one asked for; if not even that opens, writing fails later.
    [[maybe_unused]] const int opened =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// BATON_CACHE, or "baton" in the user's folder for caches; empty if the environment names neither.
std::string CacheFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string own = variable("BATON_CACHE"); !own.empty()) return own;
  // A relative one counts as none: so the standard of these folders has it.
  if (const std::string all = variable("XDG_CACHE_HOME"); all.starts_with('/')) {
    return all + "/baton";
  }
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/baton";
}

// Model files are mapped into memory; reading behind the end of one that somebody shortens
// meanwhile raises SIGBUS. Little more than write and _exit is allowed here.
void EndByBusError(int) {
  // Chat holds the terminal's echo back while it loads.
  termios terminal{};
  if (::tcgetattr(STDIN_FILENO, &terminal) == 0) {
    terminal.c_lflag |= ECHO;
    (void)::tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
  }
  static constexpr char kText[] =
      "baton: a file was shortened or could not be read while it was in use; open it again when "
      "nothing writes to it\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(baton::kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  FillStandardDescriptors();
  // A closed pipe is an error of write(), not the death of the process.
  ::signal(SIGPIPE, SIG_IGN);
  // So is a file that grows beyond the limit of the shell (ulimit -f).
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGBUS, EndByBusError);
  const char* term = std::getenv("TERM");
  baton::FdOutput out(STDOUT_FILENO, "standard output");
  baton::FdOutput err(STDERR_FILENO, "standard error");
  baton::TerminalEcho echo(STDIN_FILENO);
  baton::StatusLine status(err, baton::IsLiveTerminal(STDERR_FILENO, term == nullptr ? "" : term),
                           &echo);
  const auto interrupt = baton::Interrupt::Make(status);
  if (!interrupt) {
    (void)err.Write(fmt::format("baton: {}\n", interrupt.error().message));
    return baton::kExitFailed;
  }
  baton::FdInput in(STDIN_FILENO,
                    {.name = "standard input", .interrupt = interrupt->get(), .echo = &echo});
  baton::SteadyClock clock;
  baton::Console console = {
      .in = in,
      .out = out,
      .err = err,
      .status = status,
      .interrupt = **interrupt,
      .clock = clock,
      .columns = baton::TerminalColumns(STDERR_FILENO),
      .answer_columns = ::isatty(STDOUT_FILENO) == 1
                            ? static_cast<size_t>(baton::TerminalColumns(STDOUT_FILENO))
                            : 0,
      .interactive = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1,
      .cache_folder = CacheFolder()};
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return baton::RunProgram(arguments, console);
}
