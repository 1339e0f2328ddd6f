// One exported model, opened, with memory to run it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cliffordstf.h"
#include "elements.h"

namespace cstf_lammps {

// Results by row: owned atoms first, then ghosts.
struct Results {
    std::vector<double> energies, forces, atom_virials;
    double virial[9];
};

class Potential {
  public:
    // From the content of a file.
    Potential(const std::string& path_, const std::vector<char>& content, const std::string& precision) : path(path_) {
        model.reset(cstf_open_memory(content.data(), content.size(), precision.c_str()));
        check(!model);
        work.reset(cstf_workspace_new(model.get()));
        check(!work);
        cstf_describe(model.get(), &description);
    }

    const cstf_description& about() const { return description; }
    const std::string& file() const { return path; }

    bool has(int32_t element) const {
        for (int64_t i = 0; i < description.elements; ++i)
            if (description.numbers[i] == element) return true;
        return false;
    }
    std::string symbols() const {
        std::string result;
        for (int64_t i = 0; i < description.elements; ++i) result += (i ? ", " : "") + symbol_of(description.numbers[i]);
        return result;
    }

    void set_threads(int64_t threads) { check(cstf_set_threads(work.get(), threads)); }
    void set_memory(double bytes) { check(cstf_set_memory(work.get(), bytes)); }
    void set_exchange(cstf_exchange exchange, void* user) { check(cstf_set_exchange(work.get(), exchange, user)); }
    void set_neighbours(const cstf_neighbours& neighbours) { check(cstf_set_neighbours(work.get(), &neighbours)); }

    // Energies of `atoms`, forces on `rows`, and of the virials what is wanted.
    void evaluate(const std::vector<double>& vectors, int64_t atoms, int64_t rows, bool virial, bool atom_virials, Results& found) {
        found.energies.resize(atoms), found.forces.resize(3 * rows), found.atom_virials.resize(atom_virials ? 9 * rows : 0);
        const cstf_results results = {nullptr, found.energies.data(), found.forces.data(), virial ? found.virial : nullptr,
                                      atom_virials ? found.atom_virials.data() : nullptr};
        check(cstf_evaluate(work.get(), vectors.data(), &results));
    }

  private:
    struct Close {
        void operator()(cstf_model* it) const { cstf_close(it); }
        void operator()(cstf_workspace* it) const { cstf_workspace_free(it); }
    };
    std::string path;
    std::unique_ptr<cstf_model, Close> model;
    std::unique_ptr<cstf_workspace, Close> work;  // goes before its model
    cstf_description description{};

    static void check(bool failed) {
        if (failed) throw std::runtime_error(cstf_error());
    }
};

}  // namespace cstf_lammps
