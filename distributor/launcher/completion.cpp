// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/completion.h"

#include "distributor/launcher/flags.h"
#include "distributor/launcher/launch_options.h"

namespace shampoo::launcher {
namespace {

std::string bash_script() {
  std::string words, with_value;
  for (const Flag& flag : all_flags()) {
    words += " --" + std::string(flag.name);
    if (flag.kind == FlagKind::value) with_value += "|--" + std::string(flag.name);
  }
  return "_shampoorun() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case ${COMP_WORDS[i]} in\n"
         "      -r|-t" +
         with_value +
         ") ((++i)) ;;\n"
         "      -*) ;;\n"
         "      *) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
         "    esac\n"
         "  done\n"
         "  if [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         words.substr(1) +
         "' -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -fc -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _shampoorun shampoorun\n";
}

/// For use between single quotes and within [] of zsh's _arguments.
std::string quoted(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      if (letter == '[' || letter == ']' || letter == ':') result += '\\';
      result += letter;
    }
  }
  return result;
}

std::string zsh_script() {
  std::string script = "#compdef shampoorun\n_arguments -S \\\n";
  for (const Flag& flag : all_flags()) {
    const std::string meaning = "[" + quoted(flag.meaning) + "]";
    const bool with_value = flag.kind == FlagKind::value;
    const std::string value =
        with_value ? ":" + quoted(flag.value_name) + ":" + (flag.name == "log-dir" ? "_files" : "")
                   : "";
    if (flag.letter != 0) {
      script += std::string("  '-") + flag.letter + meaning + value + "' \\\n";
    }
    script +=
        "  '--" + std::string(flag.name) + (with_value ? "=" : "") + meaning + value + "' \\\n";
  }
  return script + "  '1:program:_files' '*::arguments:_files'\n";
}

}  // namespace

std::string completion_script(const FlagValue& shell) {
  if (shell.text == "bash") return bash_script();
  if (shell.text == "zsh") return zsh_script();
  throw UsageError(shell.source + " must be bash or zsh, not '" + shell.text + "'");
}

}  // namespace shampoo::launcher
