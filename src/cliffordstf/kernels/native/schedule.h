// A model as it was exported: values, operators in their order, weights, reference energies. Never changed while it is used,
// but by `set_weights`.
#pragma once

#include "atom_operators.h"
#include "edge_operators.h"
#include "linear_operator.h"
#include "pair_operators.h"
#include "product_operator.h"
#include "readout_operator.h"
#include "repulsion.h"

namespace cstf {

// Operators that follow each other and work on the same kind of rows.
struct Stage {
    enum { PAIRS, EDGES, ATOMS } kind;
    std::vector<int> steps;
    bool before_edges;  // works on features that depend on the element alone, so on ghosts, too
};

template <class T>
class Schedule {
  public:
    static constexpr int64_t VERSION = 1;
    std::vector<Value> values;
    std::vector<Parameter<T>> parameters;
    std::vector<std::unique_ptr<Operator<T>>> operators;
    std::vector<Stage> stages;
    std::vector<int> energies;         // values that add up to the energy of an atom
    std::vector<char> moves, learns;   // by value: whether it depends on positions, on weights
    std::vector<int> maker;            // operator that makes a value; -1 for the vectors
    std::vector<int> stage_of;         // of the operator that makes a value; -1 for the vectors, which are value 0
    std::vector<std::vector<int>> readers;  // stages that read a value, in their order
    std::vector<char> is_shared;       // whether a value is seen outside of the stage that makes it
    std::vector<int32_t> elements;     // atomic numbers
    std::vector<double> reference;     // energies of isolated atoms, eV
    double cutoff, scale, constant;
    bool is_mean;                      // whether a structure has the mean of its atoms' energies
    Repulsion repulsion;

    explicit Schedule(const Archive& archive) {
        if (archive.note("format") != "cliffordstf-native") throw std::runtime_error("it is no exported model of cliffordstf");
        if (archive.note("version") != std::to_string(VERSION))
            throw std::runtime_error("it has version " + archive.note("version").substr(0, 8) + " of the format, this library reads " +
                                     std::to_string(VERSION));
        const Json model = Json::parse(archive.note("model"));
        read_description(archive, model);
        read_values(model);
        std::map<std::string, int> places;
        read_operators(archive, model, places);
        for (const Json& place : model["energies"].list()) energies.push_back(static_cast<int>(place.whole(1, last_value())));
        for (const int place : energies)
            Source<T>::check(!values[place].of_pairs && values[place].dims == 1 && values[place].channels == 1, "energies of another shape");
        Source<T>::check(!energies.empty(), "no energies");
        arrange();
        prepare();
    }

    // Makes what operators keep of their weights, after these have changed.
    void prepare() {
        for (const auto& op : operators) op->prepare(parameters);
    }

    // Species by atomic number, -1 for elements that the model does not have.
    std::vector<int32_t> species() const {
        std::vector<int32_t> result(MOST_ELEMENTS + 1, -1);
        for (size_t i = 0; i < elements.size(); ++i) result[elements[i]] = static_cast<int32_t>(i);
        return result;
    }
    // Features that are sent: one linear map of others, sooner made again than kept.
    bool is_made_again(int place) const {
        if (maker[place] < 0 || operators[maker[place]]->reads_again() || readers[place].size() != 1) return false;
        if (stages[readers[place][0]].kind != Stage::EDGES) return false;
        const std::vector<int>& inputs = operators[maker[place]]->inputs;
        return std::all_of(inputs.begin(), inputs.end(), [&](int input) { return is_shared[input]; });
    }

    int64_t last_value() const { return static_cast<int64_t>(values.size()) - 1; }

    static constexpr int64_t MOST_ELEMENTS = 200;

  private:
    static constexpr int64_t WIDEST = 1 << 20;

    void read_description(const Archive& archive, const Json& model) {
        for (const Json& number : model["elements"].list()) elements.push_back(static_cast<int32_t>(number.whole(1, MOST_ELEMENTS)));
        const int64_t count = static_cast<int64_t>(elements.size());
        Source<T>::check(count > 0, "no elements");
        cutoff = model["cutoff"].number(), scale = model["scale"].number(), constant = model["constant"].number();
        Source<T>::check(cutoff > 0 && cutoff < 1e3, "a cutoff out of range");
        is_mean = model["pooling"].text() == "mean";
        reference = doubles(archive, "reference", count);
        if (!archive.has("repulsion.outer")) return;
        repulsion.outer = doubles(archive, "repulsion.outer", count * count);
        repulsion.charges.assign(elements.begin(), elements.end());
        for (const double limit : repulsion.outer) Source<T>::check(limit > 0 && limit < 1e3, "a distance out of range");
    }
    static std::vector<double> doubles(const Archive& archive, const char* name, int64_t count) {
        const Array& array = archive.array(name);
        Source<T>::check(array.type == "F64" && array.size() == count, "a table of another length");
        std::vector<double> result = array.template as<double>();
        for (const double value : result) Source<T>::check(std::isfinite(value), "a number that is not finite");
        return result;
    }

    void read_values(const Json& model) {
        constexpr int64_t lanes = Simd<T>::lanes;
        for (const Json& entry : model["values"].list()) {
            Value v{entry["over"].text() == "pairs", entry["dims"].whole(0, WIDEST), entry["channels"].whole(0, WIDEST), 0};
            v.width = v.dims * (v.channels ? whole_vectors(v.channels, lanes) : 1);
            Source<T>::check(v.width <= WIDEST, "a value of a strange shape");
            values.push_back(v);
        }
        Source<T>::check(values.size() > 1 && values.size() < 10000 && values[0].of_pairs && values[0].width == 3, "no vectors");
    }

    void read_operators(const Archive& archive, const Json& model, std::map<std::string, int>& places) {
        std::vector<char> made(values.size(), 0);
        made[0] = 1;
        int number = 0;
        for (const Json& entry : model["operators"].list()) {
            std::vector<int> inputs = listed(entry["inputs"]), outputs = listed(entry["outputs"]), weights;
            for (const int place : inputs) Source<T>::check(made[place], "an operand that nothing has made");
            for (const int place : outputs) {
                Source<T>::check(!made[place], "a result that is there already");
                made[place] = 1;
            }
            for (const Json& name : entry["weights"].list()) weights.push_back(parameter(archive, name.text(), places));
            const Source<T> source{archive, entry, "operators." + std::to_string(number++) + ".", values, parameters,
                                   inputs, outputs, weights, static_cast<int64_t>(elements.size())};
            operators.push_back(make(source));
        }
        for (const char is_there : made) Source<T>::check(is_there, "a value that nothing makes");
    }
    std::vector<int> listed(const Json& places) const {
        std::vector<int> result;
        for (const Json& place : places.list()) result.push_back(static_cast<int>(place.whole(0, last_value())));
        return result;
    }
    int parameter(const Archive& archive, const std::string& name, std::map<std::string, int>& places) {
        const auto [found, is_new] = places.emplace(name, static_cast<int>(parameters.size()));
        if (is_new) {
            const Array& array = archive.array("weights." + name);
            Source<T>::check(array.type == "F32" || array.type == "F64", "weights of another type");
            parameters.push_back({name, array.shape, array.template as<T>()});
        }
        return found->second;
    }
    static std::unique_ptr<Operator<T>> make(const Source<T>& source) {
        const std::string& kind = source.entry["kind"].text();
        if (kind == "pair_geometry") return std::make_unique<PairGeometry<T>>(source);
        if (kind == "radial_functions") return std::make_unique<Radial<T>>(source);
        if (kind == "embedding") return std::make_unique<Embed<T>>(source);
        if (kind == "track_linear") return std::make_unique<LinearSum<T>>(source);
        if (kind == "node_bilinear") return std::make_unique<Product<T>>(source);
        if (kind == "edge_convolution") return std::make_unique<Convolution<T>>(source);
        if (kind == "scalar_gate") return std::make_unique<Gate<T>>(source);
        if (kind == "activation") return std::make_unique<Activation<T>>(source);
        if (kind == "readout") return std::make_unique<Readout<T>>(source);
        throw std::runtime_error("it has an operator '" + kind.substr(0, 40) + "' that this library does not know");
    }

    // Stages, and who reads what.
    void arrange() {
        moves.assign(values.size(), 0), learns.assign(values.size(), 0), is_shared.assign(values.size(), 0);
        stage_of.assign(values.size(), -1), maker.assign(values.size(), -1);
        readers.resize(values.size());
        moves[0] = 1;
        bool before = true;
        for (size_t i = 0; i < operators.size(); ++i) {
            const Operator<T>& op = *operators[i];
            const bool of_pairs = values[op.outputs[0]].of_pairs;
            const auto kind = op.is_on_edges() ? Stage::EDGES : of_pairs ? Stage::PAIRS : Stage::ATOMS;
            if (kind == Stage::EDGES) before = false;
            if (stages.empty() || stages.back().kind != kind || kind == Stage::EDGES) stages.push_back({kind, {}, before});
            stages.back().steps.push_back(static_cast<int>(i));
            const int stage = static_cast<int>(stages.size()) - 1;
            bool moving = false, learning = !op.weights.empty();
            for (const int place : op.inputs) {
                Source<T>::check(op.is_on_edges() || values[place].of_pairs == of_pairs, "operands of atoms and of pairs");
                moving = moving || moves[place], learning = learning || learns[place];
                if (readers[place].empty() || readers[place].back() != stage) readers[place].push_back(stage);
            }
            for (const int place : op.outputs) {
                stage_of[place] = stage, maker[place] = static_cast<int>(i);
                moves[place] = moving, learns[place] = learning;
            }
        }
        for (size_t p = 0; p < values.size(); ++p) {
            is_shared[p] = values[p].of_pairs;
            for (const int reader : readers[p]) is_shared[p] = is_shared[p] || reader != stage_of[p];
        }
        for (const int place : energies) is_shared[place] = 1;
        for (const auto& op : operators)
            for (const int place : op->outputs) is_shared[place] = is_shared[place] || op->is_on_edges();
    }
};

}  // namespace cstf
