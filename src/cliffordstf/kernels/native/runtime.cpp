#include "runtime.h"

#include "export.h"
#include "workspace.h"

namespace cstf {
namespace {

using T = CSTF_NUMBER;

// A pair list as a graph: edges of both directions sorted by receiver, pairs in the order of their straight edges.
struct SortedPairs {
    std::vector<int64_t> row_pointers, senders, receivers, pair_edges, order;

    SortedPairs(int64_t atoms, int64_t pairs, const int64_t* to, const int64_t* from)
        : row_pointers(atoms + 1, 0), senders(2 * pairs), receivers(2 * pairs), pair_edges(2 * pairs), order(pairs) {
        std::vector<int64_t> ends(to, to + pairs);
        for (int64_t p = 0; p < pairs; ++p) {
            if (to[p] < 0 || to[p] >= atoms || from[p] < 0 || from[p] >= atoms)
                throw std::runtime_error("a pair names an atom that is not there");
            ++row_pointers[to[p] + 1], ++row_pointers[from[p] + 1];
        }
        for (int64_t i = 0; i < atoms; ++i) row_pointers[i + 1] += row_pointers[i];
        std::vector<int64_t> next(row_pointers.begin(), row_pointers.end() - 1), first(pairs), second(pairs);
        for (int64_t p = 0; p < pairs; ++p) {
            first[p] = next[to[p]]++;
            senders[first[p]] = from[p], receivers[first[p]] = to[p];
            second[p] = next[from[p]]++;
            senders[second[p]] = to[p], receivers[second[p]] = from[p];
        }
        // The straight edge is the earlier one; where that is the pair's other one, the pair is turned round.
        std::vector<int64_t> pair_of(2 * pairs, -1);
        for (int64_t p = 0; p < pairs; ++p) pair_of[std::min(first[p], second[p])] = p;
        int64_t place = 0;
        for (int64_t e = 0; e < 2 * pairs; ++e) {
            const int64_t p = pair_of[e];
            if (p < 0) continue;
            pair_edges[2 * place] = e, pair_edges[2 * place + 1] = std::max(first[p], second[p]);
            order[place++] = first[p] == e ? p : -p - 1;
        }
    }
};

class TypedWorkspace : public AnyWorkspace {
  public:
    explicit TypedWorkspace(const Schedule<T>& schedule) : s(schedule), work(schedule), known(schedule.species()) {}

    void set_threads(int64_t threads) override { work.set_threads(threads); }
    void set_memory(double bytes) override { work.set_memory(bytes); }
    void set_exchange(cstf_exchange function, void* user) override {
        exchange = function, exchange_user = user;
        work.set_exchange(function ? &TypedWorkspace::exchanged : nullptr, this);
    }

    void set_edges(const Graph& graph, int64_t ghosts, const int64_t* numbers, int64_t structures_,
                   const int64_t* structure_of_atom) override {
        structures = std::max<int64_t>(1, structures_), structure = structure_of_atom;
        set(graph, ghosts, numbers);
        sorted.reset();
    }

    void set_neighbours(const cstf_neighbours& n) override {
        if (n.atoms < 0 || n.ghosts < 0 || n.pairs < 0 || n.structures < 0 || ((n.atoms + n.ghosts) && !n.numbers) ||
            (n.pairs && !(n.senders && n.receivers)) || (n.structures > 1 && !n.structure))
            throw std::runtime_error("the neighbours have a size below zero or lack an array");
        const int64_t all = n.atoms + n.ghosts;
        auto found = std::make_unique<SortedPairs>(all, n.pairs, n.receivers, n.senders);
        const int64_t count = std::max<int64_t>(1, n.structures);
        own_structure.assign(n.structure ? n.structure : nullptr, n.structure ? n.structure + n.atoms : nullptr);
        for (size_t i = 0; i < own_structure.size(); ++i)
            if (own_structure[i] < (i ? own_structure[i - 1] : 0) || own_structure[i] >= count)
                throw std::runtime_error("the structures of the atoms fall or are out of range");
        const std::vector<int64_t> numbers(n.numbers, n.numbers + all);
        structures = count, structure = own_structure.empty() ? nullptr : own_structure.data();
        const Graph graph{all, found->row_pointers.data(), found->senders.data(), found->receivers.data(), n.pairs,
                          found->pair_edges.data()};
        set(graph, n.ghosts, numbers.data());
        sorted = std::move(found);
    }

    void evaluate(const Evaluation& e) override {
        if (!is_set) throw std::runtime_error("there are no neighbours yet; set them first");
        const cstf_results& r = e.results;
        const bool slopes = r.forces || r.virials || r.atom_virials || e.pair_gradients;
        const Graph& graph = work.edges();
        given.resize(3 * graph.pairs);
        fill_vectors(e);
        T* shown = work.vectors();
        show(shown);
        energies.resize(work.owned());
        work.forward(slopes, energies.data());
        sum_energies(r);
        if (slopes) {
            const T* found = work.backward(s.is_mean ? shares() : nullptr);
            put_gradients(e, found);
        }
        work.finish();
    }

    void train_forward(const double* vectors, void* result, void* gradients) override {
        if (!is_set) throw std::runtime_error("there are no neighbours yet; set them first");
        work.set_whole(true);
        T* shown = work.vectors();
        std::copy(vectors, vectors + 3 * work.edges().pairs, shown);
        work.forward(true, static_cast<T*>(result));
        if (!gradients) return;
        const T* found = work.backward(nullptr);
        std::copy(found, found + 3 * work.edges().pairs, static_cast<T*>(gradients));
    }
    void train_backward(const void* of_energies, const void* of_gradients, void* const* weights) override {
        work.differentiate(static_cast<const T*>(of_energies), static_cast<const T*>(of_gradients),
                           reinterpret_cast<T* const*>(weights));
    }

    void set_profile(bool on) override { work.profiles = on; }
    std::vector<double> take_seconds() override { return work.take_seconds(); }
    const int64_t* order() const override { return sorted ? sorted->order.data() : nullptr; }

  private:
    const Schedule<T>& s;
    Workspace<T> work;
    const std::vector<int32_t> known;
    std::vector<int64_t> species, own_structure;
    std::unique_ptr<SortedPairs> sorted;
    int64_t structures = 1;
    const int64_t* structure = nullptr;
    bool is_set = false;
    std::vector<double> given;   // vectors of pairs
    std::vector<T> energies, weights;
    cstf_exchange exchange = nullptr;
    void* exchange_user = nullptr;

    static void exchanged(void* self, bool reverse, T* rows, int64_t width) {
        const auto* mine = static_cast<TypedWorkspace*>(self);
        if (mine->exchange(mine->exchange_user, reverse, rows, width, sizeof(T)))
            throw std::runtime_error("the exchange of features was stopped by its function");
    }

    void set(const Graph& graph, int64_t ghosts, const int64_t* numbers) {
        is_set = false;
        species.resize(graph.atoms);
        for (int64_t i = 0; i < graph.atoms; ++i) {
            const int64_t z = numbers[i], place = z >= 0 && z <= Schedule<T>::MOST_ELEMENTS ? known[z] : -1;
            if (place < 0) throw std::runtime_error("the model was not trained for element " + std::to_string(z));
            species[i] = place;
        }
        work.set_edges(graph, species.data(), ghosts);
        is_set = true;
    }

    int64_t structure_of(int64_t atom) const { return structure && atom < work.owned() ? structure[atom] : 0; }

    void fill_vectors(const Evaluation& e) {
        const Graph& g = work.edges();
        const int64_t* order = sorted ? sorted->order.data() : nullptr;
        for (int64_t p = 0; p < g.pairs; ++p) {
            double* v = given.data() + 3 * p;
            if (e.vectors) {
                // A pair that was turned round has the opposite vector.
                const int64_t place = order ? (order[p] < 0 ? -order[p] - 1 : order[p]) : p;
                const double sign = order && order[p] < 0 ? -1 : 1;
                for (int k = 0; k < 3; ++k) v[k] = sign * e.vectors[3 * place + k];
                continue;
            }
            const int64_t edge = g.pair_edges[2 * p], from = g.senders[edge], to = g.receivers[edge];
            const double *a = e.positions + 3 * from, *b = e.positions + 3 * to;
            for (int k = 0; k < 3; ++k) v[k] = a[k] - b[k];
            if (!e.shifts) continue;
            const double *shift = e.shifts + 3 * edge, *cell = e.cells + 9 * structure_of(to);
            for (int k = 0; k < 3; ++k) v[k] += shift[0] * cell[k] + shift[1] * cell[3 + k] + shift[2] * cell[6 + k];
        }
    }

    static double length(const double* v) { return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); }
    double limit_of(int64_t p) const {
        const Graph& g = work.edges();
        return s.repulsion.limit(species[g.receiver(p)], species[g.sender(p)]);
    }

    // What the network is shown: vectors that do not get shorter than the data's.
    void show(T* shown) const {
        const int64_t pairs = work.edges().pairs;
        for (int64_t p = 0; p < pairs; ++p) {
            const double* v = given.data() + 3 * p;
            double factor = 1;
            if (s.repulsion.exists()) {
                const double d = length(v), limit = limit_of(p);
                double found, slope;
                if (d < limit) Repulsion::floored(d, limit, found, slope), factor = found / d;
            }
            for (int k = 0; k < 3; ++k) shown[3 * p + k] = static_cast<T>(factor * v[k]);
        }
    }

    // One over the atoms of a structure.
    const T* shares() {
        std::vector<int64_t> sizes(structures, 0);
        for (int64_t i = 0; i < work.owned(); ++i) ++sizes[structure_of(i)];
        weights.resize(work.owned());
        for (int64_t i = 0; i < work.owned(); ++i) weights[i] = T(1) / static_cast<T>(sizes[structure_of(i)]);
        return weights.data();
    }

    void sum_energies(const cstf_results& r) {
        const int64_t atoms = work.owned();
        std::vector<double> mine(work.edges().atoms, 0), sums(structures, 0), sizes(structures, 0);
        if (s.repulsion.exists()) add_repulsions(mine);
        for (int64_t i = 0; i < atoms; ++i) mine[i] += static_cast<double>(energies[i]) * s.scale + s.reference[species[i]];
        for (int64_t i = 0; i < atoms; ++i) ++sizes[structure_of(i)];
        for (int64_t i = 0; i < atoms; ++i) {
            if (s.is_mean) mine[i] /= sizes[structure_of(i)];
            sums[structure_of(i)] += mine[i];
        }
        if (r.atom_energies) std::copy(mine.begin(), mine.begin() + atoms, r.atom_energies);
        for (int64_t k = 0; r.energies && k < structures; ++k) r.energies[k] = sums[k] + s.constant;
    }

    // Half of each pair's repulsion at both of its atoms; what ghosts get goes to their owners.
    void add_repulsions(std::vector<double>& atoms) {
        const Graph& g = work.edges();
        for (int64_t p = 0; p < g.pairs; ++p) {
            const double d = length(given.data() + 3 * p), limit = limit_of(p);
            if (!(d < limit)) continue;
            double value, slope;
            s.repulsion.energy(d, species[g.receiver(p)], species[g.sender(p)], limit, value, slope);
            atoms[g.sender(p)] += 0.5 * value, atoms[g.receiver(p)] += 0.5 * value;
        }
        if (!exchange && work.owned() == g.atoms) return;
        if (!exchange) throw std::runtime_error("there are ghosts, but no function that exchanges their features; set one");
        if (exchange(exchange_user, 1, atoms.data(), 1, sizeof(double)))
            throw std::runtime_error("the exchange of energies was stopped by its function");
    }

    void put_gradients(const Evaluation& e, const T* found) {
        const Graph& g = work.edges();
        const cstf_results& r = e.results;
        if (r.forces) std::fill(r.forces, r.forces + 3 * g.atoms, 0.0);
        if (r.virials) std::fill(r.virials, r.virials + 9 * structures, 0.0);
        if (r.atom_virials) std::fill(r.atom_virials, r.atom_virials + 9 * g.atoms, 0.0);
        for (int64_t p = 0; p < g.pairs; ++p) {
            const int64_t to = g.receiver(p), from = g.sender(p);
            const double* v = given.data() + 3 * p;
            double slope[3];
            for (int k = 0; k < 3; ++k) slope[k] = static_cast<double>(found[3 * p + k]) * s.scale;
            if (s.repulsion.exists()) add_repulsion(p, v, slope);
            for (int k = 0; k < 3; ++k) {
                if (r.forces) r.forces[3 * to + k] += slope[k], r.forces[3 * from + k] -= slope[k];
                if (e.pair_gradients) e.pair_gradients[3 * p + k] = slope[k];
                for (int l = 0; l < 3; ++l) {
                    const double virial = 0.5 * (v[k] * slope[l] + v[l] * slope[k]);
                    if (r.virials) r.virials[9 * structure_of(to) + 3 * k + l] += virial;
                    if (!r.atom_virials) continue;
                    r.atom_virials[9 * to + 3 * k + l] += 0.5 * virial;
                    r.atom_virials[9 * from + 3 * k + l] += 0.5 * virial;
                }
            }
        }
    }

    // From the gradient with respect to what the network was shown to that with respect to the vector, and the repulsion's.
    void add_repulsion(int64_t p, const double* v, double* slope) const {
        const double d = length(v), limit = limit_of(p);
        if (!(d < limit)) return;
        const Graph& g = work.edges();
        double found, steep, value, push;
        Repulsion::floored(d, limit, found, steep);
        s.repulsion.energy(d, species[g.receiver(p)], species[g.sender(p)], limit, value, push);
        if (s.is_mean) push *= static_cast<double>(weights[std::min(g.receiver(p), work.owned() - 1)]);
        double along = 0;
        for (int k = 0; k < 3; ++k) along += slope[k] * v[k] / d;
        for (int k = 0; k < 3; ++k) {
            const double n = v[k] / d;
            slope[k] = (slope[k] - along * n) * (found / d) + along * steep * n + push * n;
        }
    }
};

class TypedModel : public AnyModel {
  public:
    explicit TypedModel(const Archive& archive) : schedule(archive) {}

    void describe(cstf_description& result) const override {
        int64_t layers = 0, widest = 1;
        for (const Stage& stage : schedule.stages) {
            if (stage.kind != Stage::EDGES) continue;
            const Operator<T>& op = *schedule.operators[stage.steps[0]];
            ++layers;
            widest = std::max({widest, schedule.values[op.inputs[0]].width, schedule.values[op.outputs[0]].width});
        }
        result = {schedule.cutoff, static_cast<int64_t>(schedule.elements.size()), schedule.elements.data(), layers,
                  Simd<T>::lanes, widest, schedule.constant, schedule.is_mean};
    }
    std::unique_ptr<AnyWorkspace> workspace() const override { return std::make_unique<TypedWorkspace>(schedule); }
    int64_t weights() const override { return static_cast<int64_t>(schedule.parameters.size()); }
    const char* weight_name(int64_t index) const override { return schedule.parameters.at(index).name.c_str(); }
    int64_t operators() const override { return static_cast<int64_t>(schedule.operators.size()); }
    const char* operator_name(int64_t index) const override { return schedule.operators.at(index)->name.c_str(); }
    void set_weights(const void* const* numbers) override {
        for (size_t i = 0; i < schedule.parameters.size(); ++i) {
            std::vector<T>& own = schedule.parameters[i].numbers;
            const T* from = static_cast<const T*>(numbers[i]);
            std::copy(from, from + own.size(), own.begin());
        }
        schedule.prepare();
    }

  private:
    Schedule<T> schedule;
};

}  // namespace

std::unique_ptr<AnyModel> CSTF_NAME(open)(const Archive& archive) { return std::make_unique<TypedModel>(archive); }

}  // namespace cstf
