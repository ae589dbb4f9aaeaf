// SPDX-License-Identifier: Apache-2.0
// Runs that move between facebookresearch/optimizers and the library after 5 of 10 steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/shampoo/checkpoint/format/safetensors_python.h"
#include "tests/support/near.h"
#include "tests/support/safetensors.h"

namespace shampoo::test {
namespace {

struct MovingRun {
  std::string name;  ///< of the files in tests/golden/reference/
  Recipe recipe;
  Rates rates;
};

MovingRun moving(std::string name, Preconditioner kind,
                 std::optional<Diagonal> grafting = std::nullopt) {
  MovingRun run{std::move(name), recipes::reference(), {}};
  run.recipe.preconditioner = std::move(kind);
  run.recipe.refresh = {.every = 2, .first = 3, .staggered = false};
  run.recipe.blocking.size = 8;
  run.rates = {.learning_rate = 0.05, .beta2 = 0.95, .epsilon = 1e-2, .weight_decay = 0.1};
  run.recipe.grafting = grafting;
  if (grafting) run.rates.grafting_epsilon = 1e-6;
  return run;
}

MovingRun grafted() {
  MovingRun run = moving("shampoo", RootInverse{.solver = Eigen{}}, Adam{});
  run.recipe.averaging = Momentum{.nesterov = true};
  run.rates.grafting_beta2 = 0.98;
  run.rates.momentum = 0.5;
  return run;
}

MovingRun unpacked() {
  MovingRun run = moving("shampoo_unpacked", RootInverse{.solver = Eigen{}});
  run.recipe.weight_decay = WeightDecay::l2;
  run.recipe.blocking.target_order = 2;
  run.rates.beta1 = 0;
  run.rates.beta2 = 1;
  return run;
}

MovingRun schedule_free() {
  MovingRun run =
      moving("schedule_free", RootInverse{.solver = Eigen{}, .trace_scaling = 0.25}, AdaGrad{});
  run.recipe.weight_decay = WeightDecay::corrected;
  run.recipe.averaging = ScheduleFree{};
  run.recipe.bias_correction = false;
  run.rates.train_interpolation = 0.75;
  return run;
}

MovingRun grafted_soap() {
  MovingRun run = moving("soap_grafted", EigenvalueCorrected{.solver = Qr{}}, RmsProp{});
  run.rates.beta3 = 0.8;
  run.rates.grafting_beta2 = 0.98;
  return run;
}

/// 64 times what numbers move by when every gradient entry moves by 2^-23 of itself, as
/// tests/golden/README.md has it of float64, and at least 64 roundings of float32.
double tolerance(const SafeTensors& trajectory, const char* sensitivity) {
  const auto about = nlohmann::json::parse(trajectory.metadata.at("case"));
  return 64 * std::max(about.at(sensitivity).get<double>(), 0x1p-24);
}

/// The parameters on one rank.
class MovingModel {
 public:
  explicit MovingModel(const SafeTensors& trajectory) : trajectory_(trajectory) {
    for (const auto& [name, tensor] : trajectory.tensors)
      if (const std::size_t at = name.find("/value/0"); at != name.npos)
        tensors_.push_back({name.substr(0, at),
                            tensor.shape,
                            {tensor.elements.begin(), tensor.elements.end()},
                            std::vector<float>(tensor.elements.size())});
  }

  ParameterGroup group(const MovingRun& run) {
    ParameterGroup group{.rates = run.rates, .recipe = run.recipe};
    for (Entry& entry : tensors_)
      group.parameters.push_back({.name = entry.name,
                                  .shape = entry.shape,
                                  .value = entry.value.data(),
                                  .gradient = entry.gradient.data()});
    return group;
  }

  UserState user_state() {
    UserState user;
    for (Entry& entry : tensors_)
      user.tensors.push_back(
          {.name = "model/" + entry.name, .shape = entry.shape, .tensor = entry.value.data()});
    return user;
  }

  void train(Optimizer& optimizer, int first, int last) {
    for (int t = first; t <= last; ++t) {
      for (Entry& entry : tensors_) {
        const auto& gradient = at(entry, "/gradient/", t);
        std::copy(gradient.begin(), gradient.end(), entry.gradient.begin());
      }
      optimizer.step();
    }
  }

  void expect_at(int t, double within) const {
    for (const Entry& entry : tensors_)
      EXPECT_TRUE(near(std::vector<double>(entry.value.begin(), entry.value.end()),
                       at(entry, "/value/", t), within))
          << entry.name << " after step " << t;
  }

 private:
  struct Entry {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> value, gradient;
  };

  const std::vector<double>& at(const Entry& entry, const char* what, int t) const {
    return trajectory_.tensors.at(entry.name + what + std::to_string(t)).elements;
  }

  const SafeTensors& trajectory_;
  std::vector<Entry> tensors_;
};

/// Runs the converter in Python.
class ConvertedState : public SafetensorsInPython {
 protected:
  void SetUp() override {
    SafetensorsInPython::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (run("import xxhash") != 0) GTEST_SKIP() << "no xxhash in this Python";
  }

  int convert(const std::string& script) {
    return run(
        "import pathlib, sys, numpy\nsys.dont_write_bytecode = True\n"
        "sys.path.insert(0, '" SHAMPOO_CHECKPOINT_PYTHON
        "')\nimport shampoo_checkpoint\nfolder = pathlib.Path(sys.argv[1])\n" +
        script);
  }
};

class MovingRuns : public ConvertedState, public testing::WithParamInterface<MovingRun> {
 protected:
  std::string file(const std::string& ending) const {
    return SHAMPOO_REFERENCE_GOLDEN "/" + GetParam().name + ending;
  }
};

TEST_P(MovingRuns, GoOnWhereTheReferenceStopped) {
  ASSERT_EQ(convert("shampoo_checkpoint.from_reference('" + file("-5.pt") +
                    "', folder / 'root')\nshampoo_checkpoint.open_checkpoint(folder / 'root')"
                    ".verify()\n"),
            0)
      << output();
  const SafeTensors trajectory = read_safetensors(file(".safetensors"));
  const double within = tolerance(trajectory, "sensitivity");
  run_ranks(3, [&](Communicator& ranks) {
    const auto backend = cpu_backend({.threads = 1});
    MovingModel model(trajectory);
    Optimizer optimizer(*backend, ranks, {model.group(GetParam())});
    UserState user = model.user_state();
    const LoadedCheckpoint loaded = load(optimizer, folder_.path() / "root", user);
    EXPECT_EQ(loaded.step, 5);
    EXPECT_EQ(loaded.state.recomputed, std::vector<std::string>());
    EXPECT_EQ(loaded.state.other_arithmetic, "facebookresearch/optimizers");
    EXPECT_EQ(optimizer.steps("matrix"), 5);
    model.expect_at(5, 0);
    model.train(optimizer, 6, 10);
    model.expect_at(10, within);
  });
}

/// Compares FOLDER/moved.pt with what the reference had.
constexpr const char* compare_states = R"(
def flat(tree, prefix=""):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from flat(value, f"{prefix}{key}/")
    else:
        yield prefix, tree

found = shampoo_checkpoint.Reference(folder / "moved.pt")
theirs = shampoo_checkpoint.Reference(golden)
tensors = dict(flat({"model": found.model, "state": found.state}))
count = 0
for name, stored in flat({"model": theirs.model, "state": theirs.state}):
    x, y = theirs.read(stored).astype("f8"), found.read(tensors.pop(name)).astype("f8")
    if "eigenvectors" in name:  # of either sign
        x, y = abs(x), abs(y)
    assert abs(y - x).max() <= within * abs(x).max(), (name, abs(y - x).max(), abs(x).max())
    count += 1
assert not tensors and count > 20, (count, tensors)
assert [group["lr"] for group in found.groups] == [0.05]
)";

TEST_P(MovingRuns, LeaveTheReferenceWhatItWouldHave) {
  const SafeTensors trajectory = read_safetensors(file(".safetensors"));
  run_ranks(2, [&](Communicator& ranks) {
    const auto backend = cpu_backend({.threads = 1});
    MovingModel model(trajectory);
    Optimizer optimizer(*backend, ranks, {model.group(GetParam())});
    model.train(optimizer, 1, 5);
    save(optimizer, folder_.path() / "root", model.user_state());
  });
  const double within =
      std::max(tolerance(trajectory, "sensitivity"), tolerance(trajectory, "state_sensitivity"));
  ASSERT_EQ(convert("golden, within = '" + file("-5.pt") + "', " + nlohmann::json(within).dump() +
                    "\nshampoo_checkpoint.to_reference(shampoo_checkpoint.open_checkpoint(folder / "
                    "'root'), folder / 'moved.pt', '" +
                    file("-0.pt") + "')\n" + compare_states),
            0)
      << output();
  const char* const reference = std::getenv("SHAMPOO_REFERENCE_PYTHON");
  if (reference == nullptr) return;
  EXPECT_EQ(std::system((std::string(reference) + " " + SHAMPOO_REFERENCE_GOLDEN +
                         "/trajectories.py check " + GetParam().name + " " +
                         (folder_.path() / "moved.pt").string())
                            .c_str()),
            0);
}

INSTANTIATE_TEST_SUITE_P(Reference, MovingRuns,
                         testing::Values(grafted(), unpacked(), schedule_free(), grafted_soap(),
                                         moving("soap", EigenvalueCorrected{.solver = Qr{}})),
                         [](const auto& each) { return each.param.name; });

/// Each call has to end with an error that has all of its words.
constexpr const char* refuse = R"python(
import pickle, subprocess, zipfile

def write(name, content):
    with zipfile.ZipFile(folder / name, "w") as file:
        file.writestr("a/data.pkl", pickle.dumps(content))
    return folder / name

def refused(call, *words):
    try:
        call()
    except (ValueError, FileExistsError) as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(words)

root = folder / "root"
(folder / "text.pt").write_text("no archive")
from shampoo_checkpoint import from_reference, to_reference
refused(lambda: from_reference(folder / "text.pt", root), "text.pt", "torch.save()")
refused(lambda: from_reference(write("list.pt", [1]), root), "list.pt", "'param_groups'")
numbered = {"model": {}, "optimizer": {"state": {0: {}}, "param_groups": [{"params": [0]}]}}
refused(lambda: from_reference(write("numbered.pt", numbered), root),
        "parameter 0", "by name", "get_optimizer_state_dict()")
for at in ((3, (2, 2), (2, 1)), (2, (2, 2), (9, -9)), (-3, (2, 2), (2, 1)), (0, (-2, 2), (2, 1))):
    stored = shampoo_checkpoint.Stored("F32", "0", *at)
    refused(lambda: stored.view(numpy.zeros(6, "f4")), "outside of its storage 0")
assert not root.exists()

theirs = from_reference(golden + "/soap-5.pt", root)
checkpoint = shampoo_checkpoint.open_checkpoint(theirs)
command = [sys.executable, shampoo_checkpoint.__file__, "convert"]
assert subprocess.run([*command, root, folder / "x.pt"]).returncode == 2  # without --like
subprocess.run([*command, root, folder / "y.pt", "--like", golden + "/soap-0.pt"], check=True)
refused(lambda: to_reference(checkpoint, folder / "x.pt", golden + "/shampoo-0.pt"),
        "parameter 'matrix'", "no slot root/0", "its recipe is another")
refused(lambda: to_reference(checkpoint, folder / "x.pt", golden + "/soap-0.pt", "weights/"),
        "no user tensor 'weights/matrix'", "prefix")
filled = shampoo_checkpoint.Filled(golden + "/soap-0.pt")
filled.reference.zip.close()
refused(lambda: filled.write(folder / "y.pt"), "closed")
assert not list(folder.glob("*.tmp")) and zipfile.is_zipfile(folder / "y.pt")
checkpoint.parameters["vector"]["steps"] = 4
refused(lambda: to_reference(checkpoint, folder / "x.pt", golden + "/soap-0.pt"),
        "parameter 'vector'", "4 steps", "one counter")
checkpoint.parameters["matrix"]["block_size"] = 16
refused(lambda: to_reference(checkpoint, folder / "x.pt", golden + "/soap-0.pt"),
        "parameter 'matrix'", "max_preconditioner_dim", "at 8", "at 16")
assert not (folder / "x.pt").exists()
refused(lambda: from_reference(golden + "/soap-5.pt", root), "step-5")
)python";

TEST_F(ConvertedState, IsRefusedWithWhatIsWrong) {
  EXPECT_EQ(convert("golden = '" SHAMPOO_REFERENCE_GOLDEN "'\n" + std::string(refuse)), 0)
      << output();
}

}  // namespace
}  // namespace shampoo::test
