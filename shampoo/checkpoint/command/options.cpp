// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <vector>

namespace shampoo::checkpoint::command {
namespace {

constexpr const char* purpose =
    "Looks at checkpoints, and removes old ones. A ROOT is the folder that holds checkpoints;\n"
    "a CHECKPOINT is one of its folders step-N, or a ROOT, which stands for the latest complete\n"
    "checkpoint in it.";
constexpr const char* closing =
    "Exit status: 0 when all is well; 1 when verify finds a fault or compare a difference; 2 when\n"
    "something else goes wrong. `shampoo-checkpoint COMMAND --help` explains a command.";

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
    add_compare();
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

  void add_prefix(CLI::App* command, const std::string& meaning) {
    command->add_option("--prefix", options_.prefix, meaning)->type_name("TEXT");
  }

  void add_dry_run(CLI::App* command) {
    command->add_flag("--dry-run", options_.dry_run, "Only say what would be removed");
  }

  void add_list() {
    CLI::App* list = command(
        Task::list, "list", "Show the checkpoints of a root",
        "Complete ones by step, then broken ones with what is wrong, then what interrupted saves\n"
        "left behind. Reads manifests and the sizes of files; verify reads tensors too.");
    add_path(list, options_.path, "ROOT", "Folder that holds checkpoints");
  }

  void add_verify() {
    CLI::App* verify =
        command(Task::verify, "verify", "Check all there is to check in one checkpoint or all",
                "Manifest, sizes, headers, that pieces cover their tensors, and the checksum of "
                "every tensor,\nall of which are read. Names file, tensor and offset of a fault, "
                "and goes on with the rest.\nExit status: 0 sound; 1 a fault, or no checkpoint; 2 "
                "something else went wrong.");
    add_path(verify, options_.path, "PATH", "A root, for all in it, or a checkpoint");
  }

  void add_describe() {
    CLI::App* describe =
        command(Task::describe, "describe", "Show what a checkpoint holds",
                "Step, ranks, arithmetic, versions, files, and all tensors with their pieces: the "
                "boxes\nthat they are cut into. [0:4, 8:16] are rows 0 to 3 of columns 8 to 15.");
    add_path(describe, options_.path, "CHECKPOINT", "A checkpoint, or a root for its latest");
    add_prefix(describe, "Only tensors and values whose names begin so");
    describe->add_flag("--values", options_.values,
                       "Show also what is no tensor: counters, rates, recipes");
  }

  void add_compare() {
    CLI::App* compare = command(
        Task::compare, "compare", "Compare steps, tensors and values of two checkpoints",
        "However tensors are cut into pieces and files: a save of 2 ranks can equal one of 8. Who\n"
        "saved, with which release and arithmetic, is shown, but makes no difference. Checks all\n"
        "checksums first. Exit status: 0 equal; 1 different; 2 something went wrong.");
    add_path(compare, options_.path, "A", "A checkpoint, or a root for its latest");
    add_path(compare, options_.other, "B", "The other one");
    add_prefix(compare, "Only tensors and values whose names begin so, and no steps");
  }

  void add_clean() {
    CLI::App* clean =
        command(Task::clean, "clean", "Remove what interrupted saves and removals left behind",
                "These are folders step-N.tmp-ID. No save may be running in the root.");
    add_path(clean, options_.path, "ROOT", "Folder that holds checkpoints");
    add_dry_run(clean);
  }

  void add_retain() {
    CLI::App* retain =
        command(Task::retain, "retain", "Remove all complete checkpoints but the last ones",
                "Broken ones do not count and stay.");
    add_path(retain, options_.path, "ROOT", "Folder that holds checkpoints");
    retain->add_option("--last", options_.last, "How many stay, those with the largest steps")
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
