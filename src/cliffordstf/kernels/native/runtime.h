// What the C interface and the Python package call, whatever the precision.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "archive.h"
#include "chunks.h"
#include "cliffordstf.h"

namespace cstf {

// Where atoms are and what is to be found out there; null for what is not there or not wanted.
struct Evaluation {
    const double* positions;       // (atoms, 3), or null if vectors are given
    const double* cells;           // (structures, 3, 3)
    const double* shifts;          // whole lattice vectors added to the sender of each edge, (edges, 3)
    const double* vectors;         // (pairs, 3)
    const int64_t* order;          // which of the given vectors belongs to each pair
    cstf_results results;
    double* pair_gradients;        // (pairs, 3)
};

class AnyWorkspace {
  public:
    virtual ~AnyWorkspace() = default;
    virtual void set_threads(int64_t threads) = 0;
    virtual void set_memory(double bytes) = 0;
    virtual void set_exchange(cstf_exchange exchange, void* user) = 0;
    // Edges that stay where they are; atomic numbers (atoms); structures of atoms or null.
    virtual void set_edges(const Graph& graph, int64_t ghosts, const int64_t* numbers, int64_t structures,
                           const int64_t* structure_of_atom) = 0;
    virtual void set_neighbours(const cstf_neighbours& neighbours) = 0;
    virtual void evaluate(const Evaluation& evaluation) = 0;

    // For training, in the library's precision; see `Workspace`. The weights are those that were set last. Gradients are null
    // where a loss is on energies alone.
    virtual void train_forward(const double* vectors, void* energies, void* gradients) = 0;
    virtual void train_backward(const void* of_energies, const void* of_gradients, void* const* weights) = 0;

    virtual void set_profile(bool on) = 0;
    virtual std::vector<double> take_seconds() = 0;
    virtual const int64_t* order() const = 0;
};

class AnyModel {
  public:
    virtual ~AnyModel() = default;
    virtual void describe(cstf_description& result) const = 0;
    virtual std::unique_ptr<AnyWorkspace> workspace() const = 0;
    virtual int64_t weights() const = 0;
    virtual const char* weight_name(int64_t index) const = 0;
    virtual int64_t operators() const = 0;
    virtual const char* operator_name(int64_t index) const = 0;
    // In the library's precision, each with as many numbers as in the file.
    virtual void set_weights(const void* const* numbers) = 0;
};

}  // namespace cstf
