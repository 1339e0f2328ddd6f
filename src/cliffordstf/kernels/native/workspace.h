// What one thread needs to run a schedule: the neighbours of a batch of atoms and memory for its values.
//
// Up to `WHOLE` atoms every value has memory of its own. Beyond, the stages that concern each atom alone go through a range of
// atoms at a time; what only such a stage sees is kept if there is room, else made again on the way back, and memory is handed
// on as soon as a value has had its last reader.
#pragma once

#include <chrono>

#include "pool.h"
#include "schedule.h"

namespace cstf {

// Called between convolutions and the rest where there are ghosts: whether sums go back, rows, numbers a row.
template <class T>
using Exchange = void (*)(void* user, bool reverse, T* rows, int64_t width);

template <class T>
class Workspace {
  public:
    static constexpr int64_t WHOLE = 64, RANGE = 1024;
    static constexpr size_t KEPT_BYTES = size_t(1) << 31, CACHE_BYTES = size_t(1) << 23;

    explicit Workspace(const Schedule<T>& schedule) : s(schedule), seconds(s.operators.size() * 4, 0.0) {
        for (int kind = 0; kind < KINDS; ++kind) {
            full[kind].assign(s.values.size(), nullptr), capacity[kind].assign(s.values.size(), 0);
            local[kind].assign(s.values.size(), nullptr), rows[kind].assign(s.values.size(), nullptr);
            started[kind].assign(s.values.size(), 0);
        }
    }

    // Edges as `Graph` has them; they must stay where they are. Atoms of several structures follow each other.
    void set_edges(const Graph& edges, const int64_t* species_, int64_t ghosts_) {
        graph = edges, ghosts = ghosts_;
        atoms = graph.atoms - ghosts;
        species = species_;
        evaluated = false;
    }

    void set_threads(int64_t n) { most_threads = std::max<int64_t>(1, n); }
    void set_memory(double bytes) { most_bytes = bytes; }
    void set_exchange(Exchange<T> function, void* user) { exchange = function, exchange_user = user; }

    // Where the vectors of pairs belong, (pairs, 3).
    T* vectors() {
        is_whole = must_be_whole || (atoms <= WHOLE && ghosts == 0);
        if (!is_whole) release_all();
        return acquire(VALUE, 0);
    }

    // Energies of atoms (owned), in units of the model, from the vectors.
    void forward(bool with_gradients, T* result) {
        begin(VALUE);
        started[VALUE][0] = 1;
        is_kept = with_gradients && (is_whole || bytes_per_atom() * static_cast<double>(atoms) < most_bytes);
        goes_back = with_gradients;
        for (size_t i = 0; i < s.stages.size(); ++i) run_forward(static_cast<int>(i));
        for (int64_t i = 0; i < atoms; ++i) {
            T sum = 0;
            for (const int place : s.energies) sum += full[VALUE][place][i * s.values[place].width];
            result[i] = sum;
        }
        evaluated = true;
    }

    // Gradients of the sum of energies times weights (atoms; null: all one) with respect to the vectors, (pairs, 3).
    const T* backward(const T* weights) {
        begin(GRADIENT);
        seed(GRADIENT, weights);
        for (int i = static_cast<int>(s.stages.size()) - 1; i >= 0; --i) run_backward(i);
        T* result = acquire(GRADIENT, 0);
        if (!started[GRADIENT][0]) std::fill(result, result + 3 * graph.pairs, T(0));
        return result;
    }

    // After `forward` of a whole batch, and `backward` unless only energies are trained on (`of_gradients` null): gradients of the
    // weights of a loss, added to what is there, from its gradients of energies (atoms) and of the vectors' gradients (pairs, 3).
    void differentiate(const T* of_energies, const T* of_gradients, T* const* weights) {
        if (!evaluated || !is_whole) throw std::runtime_error("there is no evaluated batch of a size to be trained on");
        begin(COTANGENT);
        begin(SUM);
        const View<T> v = view(0, 0, weights);
        if (of_gradients) {
            std::copy(of_gradients, of_gradients + 3 * graph.pairs, acquire(COTANGENT, 0));
            started[COTANGENT][0] = 1;
        } else {
            begin(GRADIENT);
        }
        for (size_t i = 0; of_gradients && i < s.operators.size(); ++i) {
            hold(*s.operators[i], COTANGENT, SUM);
            run(static_cast<int>(i), 2, ranged(v, *s.operators[i]));
        }
        seed(SUM, of_energies);
        for (int i = static_cast<int>(s.operators.size()) - 1; i >= 0; --i) {
            hold(*s.operators[i], SUM, SUM);
            run(i, 3, ranged(v, *s.operators[i]));
        }
    }

    void set_whole(bool value) { must_be_whole = value; }
    int64_t owned() const { return atoms; }
    const Graph& edges() const { return graph; }

    // Seconds by operator and pass since the last call, while `profiles` holds.
    bool profiles = false;
    std::vector<double> take_seconds() {
        std::vector<double> result(seconds.size(), 0.0);
        result.swap(seconds);
        return result;
    }

    // Hand back memory that a batch much larger than this one has left.
    void finish() {
        evaluated = evaluated && is_whole;
        if (!is_whole) release_all();
        if (const size_t peak = pool.take_peak(); pool.bytes() > KEPT_BYTES && pool.bytes() > 2 * peak) pool.trim();
    }

  private:
    const Schedule<T>& s;
    Graph graph{};
    int64_t atoms = 0, ghosts = 0, most_threads = 1;
    const int64_t* species = nullptr;
    double most_bytes = 4e9;
    Exchange<T> exchange = nullptr;
    void* exchange_user = nullptr;
    bool is_whole = true, is_kept = true, goes_back = true, evaluated = false, must_be_whole = false;
    Pool<T> pool;
    std::vector<T*> full[KINDS], local[KINDS], rows[KINDS];  // by value
    std::vector<size_t> capacity[KINDS];
    std::vector<char> started[KINDS];
    std::vector<double> seconds;

    int64_t count(int place) const { return s.values[place].of_pairs ? graph.pairs : graph.atoms; }
    size_t numbers(int place) const { return static_cast<size_t>(count(place)) * s.values[place].width; }

    // Nothing is there yet. Memory that is too small for this batch must not be taken for its own.
    void begin(Kind kind) {
        std::fill(started[kind].begin(), started[kind].end(), 0);
        for (size_t p = kind == VALUE; p < s.values.size(); ++p)
            if (capacity[kind][p] < numbers(static_cast<int>(p))) release(kind, static_cast<int>(p));
    }

    // Memory for a whole value; somewhat more than needed where batches follow each other, so that few find too little.
    T* acquire(Kind kind, int place) {
        const size_t need = std::max<size_t>(1, numbers(place));
        if (full[kind][place] && capacity[kind][place] >= need) return full[kind][place];
        release(kind, place);
        const size_t room = need + need / (is_whole ? 4 : 32);
        full[kind][place] = pool.take(room), capacity[kind][place] = room;
        return full[kind][place];
    }
    void release(Kind kind, int place) {
        if (full[kind][place]) pool.give(full[kind][place]);
        full[kind][place] = nullptr, capacity[kind][place] = 0;
    }
    void release_all() {
        for (int kind = 0; kind < KINDS; ++kind)
            for (size_t p = 0; p < s.values.size(); ++p) release(static_cast<Kind>(kind), static_cast<int>(p));
    }

    // Bytes of what only stages of atoms see.
    double bytes_per_atom() const {
        int64_t sum = 0;
        for (size_t p = 0; p < s.values.size(); ++p) sum += s.is_shared[p] ? 0 : s.values[p].width;
        return static_cast<double>(sum) * sizeof(T);
    }

    View<T> view(int64_t first, int64_t last, T* const* weights = nullptr) {
        View<T> v{&graph, species, first, last, most_threads, {}, {}, weights, &pool};
        for (int kind = 0; kind < KINDS; ++kind) v.rows[kind] = rows[kind].data(), v.started[kind] = started[kind].data();
        return v;
    }
    View<T> ranged(View<T> v, const Operator<T>& op) {
        v.end = count(op.outputs[0]);
        for (int kind = 0; kind < KINDS; ++kind) v.rows[kind] = full[kind].data();
        return v;
    }

    // Memory for what an operator puts into its outputs and its inputs.
    void hold(const Operator<T>& op, Kind of_outputs, Kind of_inputs) {
        for (const int place : op.outputs)
            if (!s.readers[place].empty() && (of_outputs == SUM ? s.learns[place] : s.moves[place])) acquire(of_outputs, place);
        for (const int place : op.inputs)
            if (s.learns[place]) acquire(of_inputs, place);
    }

    void run(int step, int pass, const View<T>& v) {
        const Operator<T>& op = *s.operators[step];
        const auto start = profiles ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
        if (pass == 0) op.forward(v);
        else if (pass == 1) op.backward(v);
        else if (pass == 2) op.second(v);
        else op.last(v);
        if (profiles)
            seconds[4 * step + pass] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    void seed(Kind kind, const T* weights) {
        for (const int place : s.energies) {
            const int64_t width = s.values[place].width;
            T* to = acquire(kind, place);
            std::fill(to, to + count(place) * width, T(0));
            for (int64_t i = 0; i < atoms; ++i) to[i * width] = weights ? weights[i] : T(1);
            started[kind][place] = 1;
        }
    }

    int64_t rows_of(const Stage& stage) const {
        return stage.kind == Stage::PAIRS ? graph.pairs : stage.kind == Stage::EDGES || stage.before_edges ? graph.atoms : atoms;
    }

    // Call `f(view)` with ranges of the rows of a stage. What it marks as started is as it was before for every range.
    template <class F>
    void over_ranges(const Stage& stage, F&& f) {
        const int64_t all = rows_of(stage), size = is_whole || stage.kind != Stage::ATOMS ? std::max<int64_t>(all, 1) : RANGE;
        std::vector<char> before[KINDS];
        for (int kind = 0; kind < KINDS; ++kind) before[kind] = started[kind];
        // No rows are a range, too: what is started, and so what is exchanged, must not depend on how many atoms there are.
        for (int64_t first = 0; first < std::max<int64_t>(all, 1); first += size) {
            for (int kind = 0; kind < KINDS; ++kind) {
                started[kind] = before[kind];
                for (size_t p = 0; p < s.values.size(); ++p)
                    rows[kind][p] = full[kind][p] ? full[kind][p] + first * s.values[p].width : local[kind][p];
            }
            f(view(first, std::min(all, first + size)));
        }
    }

    // Reading more than a cache holds takes as long as making it again.
    bool has_room(int place) const { return is_whole && goes_back && numbers(place) * sizeof(T) <= CACHE_BYTES; }
    bool is_local(int place) const { return !is_whole && !s.is_shared[place]; }
    void hold_local(Kind kind, int place) {
        if (!local[kind][place]) local[kind][place] = pool.take(static_cast<size_t>(RANGE) * s.values[place].width);
    }
    void drop_locals(const Stage& stage) {
        for (const int step : stage.steps)
            for (const int place : s.operators[step]->outputs)
                for (int kind = 0; kind < KINDS; ++kind)
                    if (local[kind][place]) pool.give(local[kind][place]), local[kind][place] = nullptr;
    }

    void run_forward(int number) {
        const Stage& stage = s.stages[number];
        for (const int step : stage.steps)
            for (const int place : s.operators[step]->outputs)
                if (place == s.operators[step]->optional() && !has_room(place)) release(VALUE, place);
                else if (is_local(place) && !is_kept) hold_local(VALUE, place);
                else acquire(VALUE, place);
        if (stage.kind == Stage::EDGES) send(VALUE, *s.operators[stage.steps[0]], false);
        over_ranges(stage, [&](const View<T>& v) {
            for (const int step : stage.steps) run(step, 0, v);
        });
        if (stage.kind == Stage::EDGES) collect(VALUE, *s.operators[stage.steps[0]], false);
        drop_locals(stage);
        if (is_whole) return;
        for (size_t p = 1; p < s.values.size(); ++p)
            if (full[VALUE][p] && is_done_forward(static_cast<int>(p), number)) release(VALUE, static_cast<int>(p));
    }

    // Whether no later stage reads a value, nor any on the way back.
    bool is_done_forward(int place, int number) const {
        if (std::find(s.energies.begin(), s.energies.end(), place) != s.energies.end()) return false;
        if (!s.readers[place].empty() && s.readers[place].back() > number) return false;
        if (!goes_back) return true;
        return !s.values[place].of_pairs && !is_kept && !exchange && s.is_made_again(place);
    }
    void make_again(int place) {
        if (full[VALUE][place]) return;
        const int maker = s.maker[place];
        acquire(VALUE, place);
        started[VALUE][place] = 0;
        over_ranges({Stage::ATOMS, {maker}, s.stages[s.stage_of[place]].before_edges}, [&](const View<T>& v) { run(maker, 0, v); });
    }

    void run_backward(int number) {
        const Stage& stage = s.stages[number];
        bool moves = false;
        for (const int step : stage.steps)
            for (const int place : s.operators[step]->inputs) {
                moves = moves || s.moves[place];
                if (s.moves[place] && s.stage_of[place] != number) acquire(GRADIENT, place);
            }
        if (!moves) return;
        for (const int step : stage.steps)
            for (const int place : s.operators[step]->outputs) {
                const std::vector<int>& readers = s.readers[place];
                if (!s.moves[place] || std::find(readers.begin(), readers.end(), number) == readers.end()) continue;
                if (is_local(place)) hold_local(GRADIENT, place);
                else acquire(GRADIENT, place);
            }
        const bool again = stage.kind == Stage::ATOMS && !is_kept;
        if (stage.kind == Stage::EDGES) {
            const Operator<T>& op = *s.operators[stage.steps[0]];
            const int sent = op.inputs[0];
            if (!full[VALUE][sent]) make_again(sent);
            if (started[GRADIENT][op.outputs[0]]) send(GRADIENT, op, true);
        }
        if (again)
            for (const int step : stage.steps)
                for (const int place : s.operators[step]->outputs)
                    if (is_local(place)) hold_local(VALUE, place);
        over_ranges(stage, [&](const View<T>& v) {
            if (again) repeat(stage, v);
            for (auto step = stage.steps.rbegin(); step != stage.steps.rend(); ++step) run(*step, 1, v);
        });
        if (stage.kind == Stage::EDGES && s.moves[s.operators[stage.steps[0]]->inputs[0]])
            collect(GRADIENT, *s.operators[stage.steps[0]], true);
        drop_locals(stage);
        if (is_whole) return;
        for (size_t p = 1; p < s.values.size(); ++p) {
            const int place = static_cast<int>(p);
            if (s.stage_of[p] == number && !s.values[p].of_pairs) release(GRADIENT, place);
            if (full[VALUE][p] && !s.values[p].of_pairs && s.stage_of[p] <= number &&
                (s.readers[p].empty() || s.readers[p].front() >= number))
                release(VALUE, place);
        }
    }

    // The values that only this stage sees.
    void repeat(const Stage& stage, const View<T>& v) {
        for (const int step : stage.steps) {
            const Operator<T>& op = *s.operators[step];
            if (s.is_shared[op.outputs[0]]) continue;
            started[VALUE][op.outputs[0]] = 0;
            run(step, 0, v);
        }
    }

    // Features of ghosts before a convolution; those that depend on the element alone are known, but not their gradients.
    void send(Kind kind, const Operator<T>& op, bool is_output) {
        const int place = is_output ? op.outputs[0] : op.inputs[0];
        if (!is_output && s.stages[s.stage_of[place]].before_edges) return;
        call(kind, place, false);
    }
    // Sums of ghosts after it.
    void collect(Kind kind, const Operator<T>& op, bool is_input) { call(kind, is_input ? op.inputs[0] : op.outputs[0], true); }
    // Also by who has no ghosts: others may have copies of its atoms, and all call equally often.
    void call(Kind kind, int place, bool reverse) {
        if (!exchange && !ghosts) return;
        if (!exchange) throw std::runtime_error("there are ghosts, but no function that exchanges their features; set one");
        exchange(exchange_user, reverse, full[kind][place], s.values[place].width);
    }
};

}  // namespace cstf
