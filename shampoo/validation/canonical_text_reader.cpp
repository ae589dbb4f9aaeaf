// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shampoo/recipe.h"

namespace shampoo {

namespace {

constexpr int deepest_text = 16;  // levels of nested options

/// Reads "name(field=value, ...)" into the fields that fields_of() gives.
class CanonicalTextReader {
 public:
  explicit CanonicalTextReader(std::string_view text) : text_(text) {}

  std::vector<RecipeField> read() {
    if (word() != Recipe::name) fail("'recipe'");
    read_options("", 0);
    skip_spaces();
    if (next_ < text_.size()) fail("the end");
    return std::move(fields_);
  }

 private:
  [[noreturn]] void fail(const std::string& wanted) const {
    throw std::invalid_argument("recipe: must have " + wanted + " at character " +
                                std::to_string(next_) + ", got '" +
                                std::string(text_.substr(std::min(next_, text_.size()), 40)) + "'");
  }
  void skip_spaces() { next_ = std::min(text_.find_first_not_of(" \n\t", next_), text_.size()); }
  bool take(char c) {
    skip_spaces();
    if (next_ == text_.size() || text_[next_] != c) return false;
    ++next_;
    return true;
  }
  /// A name or a number.
  std::string word() {
    skip_spaces();
    const std::size_t end = std::min(text_.find_first_of("()[]=, \n\t", next_), text_.size());
    if (end == next_) fail("a name or a value");
    const std::size_t begin = std::exchange(next_, end);
    return std::string(text_.substr(begin, end - begin));
  }

  void read_options(const std::string& path, int depth) {
    if (depth > deepest_text) fail("fewer levels");
    if (!take('(') || take(')')) return;
    do {
      const std::string field = word();
      if (!take('=')) fail("'='");
      read_value(path.empty() ? field : path + "." + field, depth);
    } while (take(','));
    if (!take(')')) fail("',' or ')'");
  }

  void read_value(const std::string& path, int depth) {
    if (take('[')) return read_list(path, depth);
    fields_.push_back({path, word()});
    read_options(path, depth + 1);
  }

  /// Of options, a count and the fields of each; of numbers, one text. The default of every list is
  /// the empty one, and the texts do not say of what that would be.
  void read_list(const std::string& path, int depth) {
    std::string numbers;
    int count = 0;
    bool options = false;
    while (!take(']')) {
      if (count > 0 && !take(',')) fail("',' or ']'");
      const std::string element = word();
      const std::size_t fields = fields_.size();
      read_options(path + "." + std::to_string(count), depth + 1);
      options = options || fields_.size() > fields;
      numbers += (count++ > 0 ? ", " : "") + element;
    }
    if (count > 0) fields_.push_back({path, options ? std::to_string(count) : "[" + numbers + "]"});
  }

  std::string_view text_;
  std::size_t next_ = 0;
  std::vector<RecipeField> fields_;
};

}  // namespace

Recipe recipe_from_text(std::string_view canonical) {
  return recipe_from(CanonicalTextReader(canonical).read());
}

}  // namespace shampoo
