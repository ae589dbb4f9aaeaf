// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/command_options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <vector>

namespace shampoo::checkpoint::command {
namespace {

constexpr const char* purpose =
    "Inspects checkpoints, and removes old ones. A DIRECTORY holds checkpoints; a CHECKPOINT is "
    "one\n"
    "of its folders step-N, or a DIRECTORY, which stands for its latest complete checkpoint.";
constexpr const char* closing =
    "Exit status: 0 when all is well; 1 when verify finds a fault; 2 when something else goes\n"
    "wrong. `shampoo-checkpoint COMMAND --help` explains a command.";

class CommandLine {
 public:
  CommandLine() : app_(purpose, "shampoo-checkpoint") {
    app_.footer(closing);
    app_.set_version_flag("--version", "shampoo-checkpoint " SHAMPOO_VERSION,
                          "Print the version and exit");
    app_.get_help_ptr()->description("Print this and exit");
    app_.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app_.get_formatter()->label("Positionals", "Arguments");
    app_.get_formatter()->label("REQUIRED", "");
    app_.require_subcommand(1);
    add_list();
    add_verify();
    add_describe();
    add_clean();
    add_retain();
  }

  std::optional<Options> read(std::span<const std::string> arguments, std::ostream& out) {
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      out << app_.help();
      return std::nullopt;
    } catch (const CLI::CallForVersion& version) {
      out << version.what() << '\n';
      return std::nullopt;
    } catch (const CLI::RequiredError& error) {
      const auto unexpected = app_.remaining(true);  // rather than what is missing for it
      throw UsageError(
          (unexpected.empty() ? error.what() : "'" + unexpected.front() + "' was not expected") +
          "; try --help");
    } catch (const CLI::ParseError& error) {
      throw UsageError(std::string(error.what()) + "; try --help");
    }
    return options_;
  }

 private:
  /// A command of one line, and what its own help says after its options.
  CLI::App* command(Task task, const std::string& name, const std::string& meaning,
                    const std::string& details) {
    CLI::App* command = app_.add_subcommand(name, meaning);
    command->footer(details);
    command->group("Commands");
    command->callback([this, task] { options_.task = task; });
    command->get_help_ptr()->description("Print this and exit");
    command->add_flag("--json", options_.json, "Print one JSON object, for programs");
    return command;
  }

  static void add_path(CLI::App* command, std::filesystem::path& path, const std::string& name,
                       const std::string& meaning) {
    command
        ->add_option_function<std::string>(
            name, [&path](const std::string& text) { path = text; }, meaning)
        ->required()
        ->check([](const std::string& text) {
          return text.empty() ? "a path must not be empty" : std::string();
        })
        ->type_name("")
        ->type_size(1);
  }

  void add_dry_run(CLI::App* command) {
    command->add_flag("--dry-run", options_.dry_run, "Only say what would be removed");
  }

  void add_list() {
    CLI::App* list = command(
        Task::list, "list", "Show the checkpoints of a directory",
        "Complete ones in the order of writing, the latest last, each with the step of the one "
        "that\n"
        "its run went on from, if that is still there; then broken ones with what is wrong, then\n"
        "stale directories of interrupted saves. Reads manifests and the sizes of files; verify "
        "reads tensors too.");
    add_path(list, options_.path, "DIRECTORY", "Directory that holds checkpoints");
  }

  void add_verify() {
    CLI::App* verify = command(
        Task::verify, "verify", "Check all there is to check in one checkpoint or all",
        "Manifest, sizes, headers, that both have the same tensors, and the checksum of every "
        "tensor,\nall of which are read: what a load refuses, too. Names file, tensor and offset "
        "of a fault, "
        "and goes on with the rest.\nExit status: 0 sound; 1 a fault, or no checkpoint; 2 "
        "something else went wrong.");
    add_path(verify, options_.path, "PATH", "A directory, for all in it, or a checkpoint");
  }

  void add_describe() {
    CLI::App* describe =
        command(Task::describe, "describe", "Show what a checkpoint holds",
                "Step, ranks, arithmetic, versions, and all tensors of all files. A name of the "
                "state is\noptimizer/PARAMETER/SLOT, followed by the offset of the block.");
    add_path(describe, options_.path, "CHECKPOINT", "A checkpoint, or a directory for its latest");
    describe->add_option("--prefix", options_.prefix, "Only tensors whose names begin so")
        ->type_name("TEXT");
    describe->add_flag("--values", options_.values,
                       "Show also what is no tensor: user values, counters, rates, recipes");
  }

  void add_clean() {
    CLI::App* clean =
        command(Task::clean, "clean", "Remove stale directories of interrupted saves and removals",
                "These are named step-N.tmp-ID and step-N.old-ID. No save may be running there.");
    add_path(clean, options_.path, "DIRECTORY", "Directory that holds checkpoints");
    add_dry_run(clean);
  }

  void add_retain() {
    CLI::App* retain =
        command(Task::retain, "retain", "Remove all complete checkpoints but the last ones",
                "Broken ones do not count and stay.");
    add_path(retain, options_.path, "DIRECTORY", "Directory that holds checkpoints");
    retain->add_option("--last", options_.last, "How many stay, those that were written last")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""))
        ->type_name("K")
        ->required();
    add_dry_run(retain);
  }

  CLI::App app_;
  Options options_;
};

}  // namespace

std::optional<Options> read_options(std::span<const std::string> arguments, std::ostream& out) {
  return CommandLine().read(arguments, out);
}

}  // namespace shampoo::checkpoint::command
